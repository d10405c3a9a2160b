"""Credentials that may change while the process runs: fixed ones, and tokens in files.

The transport asks for an identity before each request, so asking is cheap. After a 401 it renews the credentials, and
tries once more if there are others.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol

import msgspec

from trellis.base.errors import Unauthorized
from trellis.kube.auth.connection import ClientCertificate

# client-go's period too. The kubelet renews a token when a fifth of its time is left, twelve minutes of an hour.
REREAD_SECONDS: Final = 60.0


class Identity(msgspec.Struct, frozen=True):
    """What is shown to the server with one request."""

    token: str = ""
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return "Identity(...)"


class Credentials(Protocol):
    """Where identities come from."""

    async def identity(self) -> Identity:
        """The one to use now; raises `Unauthorized` if there is none to be had."""

    async def renew(self, refused: Identity) -> bool:
        """The server did not accept this one. Whether the next may be different, so that asking again has a point."""


class FixedCredentials:
    """A token or a certificate that stays what it is, or neither."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        """Always the same."""
        return self._identity

    async def renew(self, refused: Identity) -> bool:  # noqa: ARG002 - of the protocol
        """There is no other."""
        return False


class TokenFile:
    """A token in a file that another process renews: re-read when the file changes, and every minute at least.

    Every minute too, because a projected token changes by a link two directories up, which not every file system shows
    as a change of the file.
    """

    def __init__(self, path: Path, certificate: ClientCertificate | None = None) -> None:
        self._path = path
        self._certificate = certificate
        self._mark: tuple[int, int, int] | None = None
        self._read_at = 0.0
        self._token = ""

    async def identity(self) -> Identity:
        """The token in the file. If the file is gone or empty, the last one serves on: it may well be valid still."""
        self._refresh(asyncio.get_running_loop().time())
        if not self._token:
            raise Unauthorized(0, "NoToken", f"there is no token in {self._path}")
        return Identity(self._token, self._certificate)

    async def renew(self, refused: Identity) -> bool:
        """Read the file again, even if it seems unchanged."""
        self._mark = None
        self._refresh(asyncio.get_running_loop().time())
        return self._token != refused.token

    def _refresh(self, now: float) -> None:
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if mark == self._mark and now - self._read_at < REREAD_SECONDS:
                return
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return
        self._token = token or self._token
        self._mark, self._read_at = mark, now
