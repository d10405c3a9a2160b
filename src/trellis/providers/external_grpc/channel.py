"""The connection to a server. Import it only once one is opened: grpcio is an extra.

Requests are never repeated by the library: an increase of a size would count twice. Certificates are read again when
their files change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from trellis.base.errors import InvalidConfiguration, InvalidMessage
from trellis.providers.external_grpc.configuration import ServerConfiguration
from trellis.providers.external_grpc.protobuf import decode
from trellis.providers.external_grpc.rpcs import REFRESH, A, CallFailed, CallStatus, Q, Rpc

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    # A TXT record could ask for repeats otherwise.
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # A server that was restarted is found again within a pass or two.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Servers in Go close a connection that asks more often than every five minutes.
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
_CLOSE_SECONDS: Final = 0.2


class ServerChannel:
    """Calls a server, each call with the timeout of the configuration."""

    def __init__(self, configuration: ServerConfiguration) -> None:
        self._configuration = configuration
        self._files = _read_files(configuration)
        self._channel = _open_channel(configuration, self._files)

    async def call(self, rpc: Rpc[Q, A], request: Q, /) -> A:
        """The answer; raises `CallFailed`, or `InvalidMessage` for one that cannot be read."""
        if rpc is REFRESH:
            await self._reload()
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(rpc.path)
        try:
            answer: bytes = await method(request.encode(), timeout=self._configuration.timeout)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(rpc.name, CallStatus(error.code().name), error.details() or "") from error
        try:
            return decode(rpc.answer, answer)
        except InvalidMessage as error:
            raise InvalidMessage(rpc.name, f"the answer cannot be read: {error}") from error

    async def close(self) -> None:
        """End the connection and the calls on it."""
        await self._channel.close(_CLOSE_SECONDS)

    async def _reload(self) -> None:
        """Connect again if a certificate was replaced. Files that cannot be read now leave the connection as it is."""
        try:
            files = _read_files(self._configuration)
        except InvalidConfiguration:
            return
        if files != self._files:
            old, self._files = self._channel, files
            self._channel = _open_channel(self._configuration, files)
            await old.close(self._configuration.timeout)


def _read_files(configuration: ServerConfiguration) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The CA, the key and the certificate; None where the configuration has none."""
    cacert, key, cert = (
        _read_file(name, path)
        for name, path in (
            ("cacert", configuration.cacert),
            ("key", configuration.key),
            ("cert", configuration.cert),
        )
    )
    return cacert, key, cert


def _read_file(name: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfiguration(path, [f"the file of {name} cannot be read: {error.strerror}"]) from error


def _open_channel(
    configuration: ServerConfiguration, files: tuple[bytes | None, bytes | None, bytes | None]
) -> grpc.aio.Channel:
    if not configuration.uses_tls:
        return grpc.aio.insecure_channel(configuration.address, options=_OPTIONS)
    return grpc.aio.secure_channel(configuration.address, grpc.ssl_channel_credentials(*files), options=_OPTIONS)
