"""The file that describes a server, as Cluster Autoscaler reads it by `--cloud-config`.

    address: machines.example.com:8086
    cert: /etc/machines/tls.crt
    key: /etc/machines/tls.key
    cacert: /etc/machines/ca.crt
    grpc_timeout: 10s

One meaning differs: a `cacert` without `cert` and `key` is TLS without a client certificate. Cluster Autoscaler
connects in plaintext then.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import msgspec

from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidConfiguration, InvalidDuration
from trellis.base.names import suggest_name
from trellis.base.yaml.documents import BrokenDocument, Document, read_documents

# Cluster Autoscaler's default.
_TIMEOUT: Final = Duration.from_seconds(5)
_ADDRESS: Final = re.compile(r"(?:dns:(?://[^/]*/)?)?(?:\[([^\]]+)\]|([^:/\[\]]+)):([0-9]{1,5})")
_ADDRESS_RULE: Final = "must be a host and a port, such as machines.example.com:8086, or unix:PATH"


class ServerConfiguration(msgspec.Struct, frozen=True):
    """A server, the files of its connection, and the seconds that a call may take."""

    address: str
    cert: str = ""
    key: str = ""
    cacert: str = ""
    timeout: float = _TIMEOUT.total_seconds()

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return bool(self.cacert)

    @property
    def leaves_host(self) -> bool:
        """Whether the connection goes over a network."""
        return not is_local(self.address)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the connection is made of."""
        return tuple(file for file in (self.cert, self.key, self.cacert) if file)


def is_local(address: str) -> bool:
    """Whether an address stays on the host: loopback, or a socket of the file system."""
    if address.startswith("unix:"):
        return True
    match = _ADDRESS.fullmatch(address)
    host = (match[1] or match[2]) if match else ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def load_configuration(path: str) -> ServerConfiguration:
    """The configuration of a file. One that cannot be used is refused, with all that is wrong with it."""
    if not path:
        raise InvalidConfiguration("--external-grpc-config", ["must name a file for --cloud-provider=externalgrpc"])
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfiguration(path, [f"cannot be read: {error.strerror}"]) from error
    documents = read_documents(text)
    document = documents[0] if documents else None
    if isinstance(document, BrokenDocument):
        first = document.errors[0]
        raise InvalidConfiguration(path, [f"line {first.line}: {first.rule}"]) from first
    if document is None or len(documents) > 1 or not isinstance(document.value, dict):
        raise InvalidConfiguration(path, ["must be one map with the key address"])
    return _read(path, document, document.value)


def _read(path: str, document: Document, written: dict[str, Any]) -> ServerConfiguration:
    problems: list[str] = []
    keys = ("address", "key", "cert", "cacert", "grpc_timeout")

    def report(name: str, rule: str) -> None:
        problems.append(f"line {document.find_position((name,))[0]}: {name} {rule}")

    for name, value in written.items():
        if name not in keys:
            guess = suggest_name(name, keys)
            report(name, "is not known" + (f"; did you mean {guess}?" if guess else f"; known are {', '.join(keys)}"))
        elif not isinstance(value, str):
            report(name, "must be text")
    values = {name: value for name, value in written.items() if name in keys and isinstance(value, str)}
    address, cert, key, cacert = (values.get(name, "") for name in ("address", "cert", "key", "cacert"))
    if not address.startswith("unix:") and _ADDRESS.fullmatch(address) is None:
        report("address", _ADDRESS_RULE)
    if bool(cert) != bool(key):
        report("cert" if cert else "key", "needs the other one of cert and key")
    if (cert or key) and not cacert:
        report("cert" if cert else "key", "needs cacert, by which the server is verified")
    timeout = _TIMEOUT
    try:
        timeout = parse_duration(values["grpc_timeout"]) if values.get("grpc_timeout") else _TIMEOUT
    except InvalidDuration as error:
        report("grpc_timeout", error.rule)
    if timeout <= Duration.ZERO:
        report("grpc_timeout", "must be longer than 0s")
    if problems:
        raise InvalidConfiguration(path, problems)
    return ServerConfiguration(address, cert, key, cacert, timeout.total_seconds())
