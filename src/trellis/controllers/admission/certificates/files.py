"""Reads the certificate from files, again when they change.

The kubelet swaps a symbolic link when a Secret changes, and others write files one by one. Both change inode, size or
modification time of what the path leads to. That is three calls a second, and unlike a watch it misses nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

from trellis.controllers.admission.certificates.key_pairs import KeyPair, ServingCertificate
from trellis.controllers.admission.settings import CertificateSettings

_Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class CertificateFiles:
    """The files that flags name. Without `--reload-cert` they are read until there is something to show."""

    interval: Final = 1.0

    def __init__(self, settings: CertificateSettings) -> None:
        self._certificate = Path(settings.tls_cert_file)
        self._key = Path(settings.tls_private_key)
        self._authorities = Path(settings.client_ca_file)
        self._reload = settings.reload_cert
        self._last_signature: _Signature = ()
        self.problem = ""

    def __str__(self) -> str:
        return f"{self._certificate}, {self._key}"

    def may_have_changed(self, *, is_serving: bool) -> bool:
        """Whether the files have changed, and are to be read again."""
        return (self._reload or not is_serving) and self._sign() != self._last_signature

    async def read_if_changed(self, *, is_serving: bool) -> ServingCertificate | None:
        """The certificate in the files, if they have changed; `is_serving` says whether one is served already."""
        if not self.may_have_changed(is_serving=is_serving):
            return None
        # Before they are read: what changes in the middle of that is found the next time.
        self._last_signature = self._sign()
        try:
            pair = KeyPair(self._certificate.read_bytes(), self._key.read_bytes())
        except OSError as error:
            self.problem = f"{error.filename}: {error.strerror}"
            return None
        self.problem = ""
        return ServingCertificate(pair, self._bundle())

    def _sign(self) -> _Signature:
        return tuple(map(_signature, (self._certificate, self._key, self._authorities)))

    def _bundle(self) -> bytes:
        """The CA bundle; empty if it cannot be read, because only the webhook configuration needs it."""
        try:
            return self._authorities.read_bytes()
        except OSError:
            return b""


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
