"""Connection parameters as values: the server, its certificate authority, the login and impersonation.

A kubeconfig or the files of a service account are reduced to these. They hold secrets. None of them shows one when
printed, because what is printed ends in logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import msgspec

_NO_EXTRA: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class ClientCertificate(msgspec.Struct, frozen=True):
    """A certificate (with those that lead to its authority) and its key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"ClientCertificate(<{len(self.certificate)} bytes>)"


class PluginCall(msgspec.Struct, frozen=True):
    """A program that prints credentials (`exec` of a user). `cluster` describes the server, if the program wants that.

    `interactive` is `Never`, `IfAvailable` or `Always`: whether it may prompt at a terminal.
    """

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"PluginCall({self.command!r})"


class Login(msgspec.Struct, frozen=True):
    """The credentials of a user. A token file comes before a token, because it is the one that is kept fresh."""

    token: str = ""
    token_file: str = ""
    certificate: ClientCertificate | None = None
    plugin: PluginCall | None = None

    def __repr__(self) -> str:
        set_fields = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"Login({', '.join(set_fields) or 'anonymous'})"


class Impersonation(msgspec.Struct, frozen=True):
    """The user to impersonate, if the server allows it: `as`, `as-uid`, `as-groups` and `as-user-extra` of a user."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NO_EXTRA

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The impersonation headers; a header may occur several times."""
        headers = [("Impersonate-User", self.user), ("Impersonate-Uid", self.uid)]
        headers += [("Impersonate-Group", group) for group in self.groups]
        # The key is part of a header's name, which has a narrower alphabet; the server decodes it.
        headers += [
            (f"Impersonate-Extra-{quote(key, safe='')}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return tuple((name, value) for name, value in headers if value)


class Connection(msgspec.Struct, frozen=True):
    """The parameters of a transport.

    `source` says in messages where this comes from, such as a file and a context. Without `authority` (PEM) the
    system's authorities are trusted. `proxy` is a URL, or empty for what the environment says. `warnings` are for the
    person who starts the program; each is one sentence.
    """

    server: str
    source: str
    namespace: str = "default"
    authority: bytes | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    login: Login = Login()
    impersonation: Impersonation = Impersonation()
    warnings: tuple[str, ...] = ()
