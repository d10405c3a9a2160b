"""The proxy for a server, by `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

The rules are those of Go's `httpproxy`, because that is what these variables in a cluster are written for. Python's
own implementation does not know address ranges, and `NO_PROXY=10.96.0.0/12` is how services are mostly exempted.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from trellis.base.errors import InvalidInput

_PORTS = {"http": 80, "https": 443}


def find_proxy(environment: Mapping[str, str], server: str) -> str:
    """The proxy's URL, or empty for none."""
    address = urlsplit(server)
    variable = f"{address.scheme}_proxy"
    proxy = environment.get(variable.upper()) or environment.get(variable) or ""
    if not proxy:
        return ""
    host = (address.hostname or "").rstrip(".")
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if _is_local(host) or _is_exempt(host, address.port or _PORTS.get(address.scheme, 0), exempt):
        return ""
    return validate_proxy(proxy, variable.upper())


def validate_proxy(proxy: str, where: str) -> str:
    """The URL of a proxy with its scheme; raises if the kind of proxy is not supported."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(url).scheme not in _PORTS or not urlsplit(url).hostname:
        raise InvalidInput(proxy, f"{where} must be the URL of an http or https proxy, such as http://proxy:3128")
    return url


def _is_local(host: str) -> bool:
    """Whether a host is this machine: requests to it never go through a proxy."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_exempt(host: str, port: int, exempt: str) -> bool:
    return any(_matches(entry.strip().lower(), host, port) for entry in exempt.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        # One address is the range of one.
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # a name, or an address with a port
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit():
        return int(number) == port and _matches(name, host, port)
    name = entry.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")
