"""Addresses to listen on: `:8942`, `127.0.0.1:8942` or `[::1]:8942`, as Go's servers write them."""

from __future__ import annotations

import re
import socket
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput

_FORM: Final = re.compile(r"(?:\[([0-9a-fA-F:.%a-z]+)\]|([^:\[\]]*)):([0-9]{1,5})")
_RULE: Final = "must be an address to listen on, such as :8942, 127.0.0.1:8942 or [::1]:8942"


class Address(msgspec.Struct, frozen=True):
    """A host and a port. No host means every interface, port 0 means any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def listen(self) -> socket.socket:
        """A socket bound to the address; for every interface it takes IPv4 and IPv6 where the machine has both."""
        where = (self.host, self.port)
        if self.host:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server(where, family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(where, family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(where)


def parse_address(text: str) -> Address:
    """The address of a text."""
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise InvalidInput(text, _RULE)
    return Address(match[1] or match[2] or "", int(match[3]))


def check_address(text: str) -> str | None:
    """The rule that a text breaks as an address, or None."""
    try:
        parse_address(text)
    except InvalidInput as error:
        return error.rule
    return None
