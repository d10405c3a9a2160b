"""Credentials that may change while the process runs: fixed ones, and tokens in files.

The transport gets an identity before each request, so `identity` is cheap. After a 401 it renews the credentials, and
retries once if they have changed.
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
    """The token or certificate of one request."""

    token: str = ""
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return "Identity(...)"


class Credentials(Protocol):
    """A source of identities."""

    async def identity(self) -> Identity:
        """The current identity; raises `Unauthorized` if there is none."""

    async def renew(self, refused: Identity) -> bool:
        """Renew a refused identity; returns whether the next one may differ, so that a retry makes sense."""


class FixedCredentials:
    """A token or a certificate that never changes, or neither."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        """The fixed identity."""
        return self._identity

    async def renew(self, refused: Identity) -> bool:  # noqa: ARG002 - of the protocol
        """Always false."""
        return False


class TokenFile:
    """A token in a file that another process renews: re-read when the file changes, and every minute at least.

    Every minute too, because a projected token changes by a link two directories up, which not every file system shows
    as a change of the file.
    """

    def __init__(self, path: Path, certificate: ClientCertificate | None = None, *, encoding: str = "ascii") -> None:
        self._path = path
        self._encoding = encoding
        self._certificate = certificate
        self._mark: tuple[int, int, int] | None = None
        self._read_at = 0.0
        self._token = ""

    async def identity(self) -> Identity:
        """The token in the file. If the file is missing or empty, the last token is used: it may still be valid."""
        self._refresh(asyncio.get_running_loop().time())
        if not self._token:
            raise Unauthorized(0, "NoToken", f"{self._path} contains no token")
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
            token = self._path.read_text(encoding=self._encoding).strip()
        except (OSError, UnicodeDecodeError):
            return
        self._token = token or self._token
        self._mark, self._read_at = mark, now
