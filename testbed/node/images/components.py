"""The image of the components: the one that `make image` builds from `deploy/Containerfile`.

The archive is built once for each state of the sources and kept in the cache: there is no network in a sandbox.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError
from testbed.programs.building import print_progress
from testbed.programs.cache import cache_directory, hold_lock, write_atomically

_ROOT: Final = Path(__file__).resolve().parents[3]

# What containers of pods name.
IMAGE: Final = f"trellis:{tomllib.loads((_ROOT / 'pyproject.toml').read_text())['project']['version']}"

_BUILD: Final = _ROOT / "tools" / "image" / "build.py"
# What the image is built from.
_FOLDERS: Final = ("src", "examples", "tools/image")
_FILES: Final = ("pyproject.toml", "README.md", "LICENSE", "deploy/Containerfile")
_LOCKS: Final = ("deploy/requirements.txt", "deploy/build-requirements.txt")

# Archives of other states are removed when they are so old: other checkouts may use them.
_OLD_SECONDS: Final = 86400.0


def ensure_archive() -> Path:
    """The archive of the image for the sources as they are; built if it is not in the cache."""
    archive = cache_directory() / f"image-{_compute_state()}.tar"
    with hold_lock(cache_directory() / "image.lock"):
        if not archive.exists():
            print_progress("building the image of Trellis: once for these sources, in a minute")
            _remove_old_archives()
            with write_atomically(archive) as partial:
                _build(partial)
    archive.touch()
    return archive


def _build(archive: Path) -> None:
    command = [sys.executable, str(_BUILD), "--output", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"the image of Trellis cannot be built: {done.stderr.strip()[-1000:]}")


def _compute_state() -> str:
    """What the image depends on."""
    digest = hashlib.sha256(f"{sys.version} {sys.executable}".encode())
    for path in _list_sources():
        digest.update(f"{path.relative_to(_ROOT)} {path.stat().st_size} ".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _list_sources() -> Iterator[Path]:
    for folder in _FOLDERS:
        files = sorted(path for path in (_ROOT / folder).rglob("*") if path.is_file())
        yield from (path for path in files if path.parent.name != "__pycache__")
    yield from (_ROOT / name for name in (*_FILES, *_LOCKS))


def _remove_old_archives() -> None:
    for path in cache_directory().glob("image-*.tar"):
        if time.time() - path.stat().st_mtime > _OLD_SECONDS:
            path.unlink(missing_ok=True)
