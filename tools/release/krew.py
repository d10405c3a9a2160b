"""The archive of `kubectl trellis` for krew, and its manifest with the address and the digest of that archive."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = "kubectl-trellis.tar.gz"
_LAUNCHER: Final = "kubectl-trellis"
_LICENSE: Final = "LICENSE"
# What a release fills in: a comment that says so stands before the rest.
_COMMENT: Final = re.compile(r"\A(?:#.*\n)+")
_FIELDS: Final = {"homepage": r"^(  homepage: ).+$", "uri": r"^(    uri: ).+$", "sha256": r"^(    sha256: ).+$"}


def build_archive(root: Path, output: Path, epoch: int) -> Path:
    """The launcher and the licence as an archive, the same for the same sources."""
    directory = root / "deploy" / "krew"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, mode in ((directory / _LAUNCHER, 0o755), (root / _LICENSE, 0o644)):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            archive.addfile(entry, io.BytesIO(content))
    target = output / ARCHIVE
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return target


def fill_manifest(template: str, archive: Path, *, homepage: str, downloads: str) -> str:
    """The manifest of a release whose files lie below `downloads`; without it the addresses stay placeholders."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    values = {"sha256": f'"{digest}"'}
    if downloads:
        values |= {"homepage": homepage, "uri": f"{downloads.rstrip('/')}/{archive.name}"}
    text = _COMMENT.sub("", template)
    for field, value in values.items():
        text, count = re.subn(_FIELDS[field], rf"\g<1>{value}", text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"the krew manifest has {count} fields {field}, not one")
    return text
