"""The image of the components, made as `deploy/Dockerfile` does it, but without Docker, a registry or a base image.

What is locked is installed by uv into an environment of its own, and Trellis as a wheel, with bytecode, as in the
Dockerfile. Python and the libraries that it needs are those of this machine, at the same paths; below them is busybox.
The archive is made once for each state of the sources and kept in the cache: there is no network in a sandbox.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError
from testbed.node import packages
from testbed.node.images import archives
from testbed.programs.cache import cache_directory, hold_lock, write_atomically

IMAGE: Final = "trellis-node.local/trellis:1"

# Where the environment is in the image.
HOME: Final = Path("/opt/trellis")

_ROOT: Final = Path(__file__).resolve().parents[3]
_PROJECT_FILES: Final = ("pyproject.toml", "uv.lock", "README.md", "LICENSE")

# Parts of the standard library that only developers need; some of them are large.
_LEFT_OUT: Final = re.compile(
    r"(site-packages|dist-packages|test|idlelib|tkinter|turtledemo|lib2to3|ensurepip|config-.*|_tkinter\..*|.*\.a"
    r"|.*\.opt-\d\.pyc)"
)
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)

# Archives of other states are removed when they are so old: other checkouts may use them.
_OLD_SECONDS: Final = 86400.0


def ensure_archive() -> Path:
    """The archive of the image for the sources as they are; made if it is not in the cache."""
    busybox = packages.unpack("node", *packages.NODE_PACKAGES) / "bin/busybox"
    archive = cache_directory() / f"component-image-{_compute_state(busybox)}.tar"
    with hold_lock(cache_directory() / "component-image.lock"):
        if not archive.exists():
            _remove_old_archives()
            with write_atomically(archive) as partial:
                _build(busybox, partial)
    archive.touch()
    return archive


def _build(busybox: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="trellis-testbed-image-") as temporary:
        environment = Path(temporary) / "environment"
        _install(environment)
        layers = (
            archives.build_busybox_layer(busybox),
            _build_python_layer(environment),
            _build_environment_layer(environment),
        )
        variables = {"PATH": f"{HOME / 'bin'}:/bin"}
        archives.write_archive([archives.Image(IMAGE, layers, ("trellis",), variables)], archive)


def _install(environment: Path) -> None:
    """The versions of the lock file, without what only developers need, and Trellis itself as a wheel."""
    command = [
        _find_uv(),
        "sync",
        "--frozen",
        "--no-default-groups",
        "--no-editable",
        # uv takes a wheel that it has built before for a checkout with other files.
        "--reinstall-package=trellis-autoscaler",
        "--compile-bytecode",
        "--quiet",
        f"--python={sys.executable}",
    ]
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env=os.environ | {"UV_PROJECT_ENVIRONMENT": str(environment)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HarnessError(f"the image of the components cannot be made: {done.stderr.strip()[-1000:]}")


def _find_uv() -> str:
    """Where `make setup` has it from."""
    local = (_ROOT / ".tools" / "bin" / "uv", _ROOT / ".tools" / "local" / "bin" / "uv")
    found = shutil.which("uv") or next((str(path) for path in local if path.exists()), None)
    if found is None:
        raise HarnessError("uv is neither on PATH nor in .tools: run `make setup`")
    return found


def _build_python_layer(environment: Path) -> bytes:
    """Python, its standard library, and the shared libraries that it and the environment load."""
    interpreter = (environment / "bin" / "python").resolve()
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    extensions = [path for folder in libraries for path in folder.rglob("*.so") if not _is_left_out(path, folder)]
    extensions += environment.rglob("*.so")
    shared = _list_shared_libraries([interpreter, *extensions], environment)

    def list_files() -> Iterator[tuple[Path, Path]]:
        for folder in sorted(libraries):
            yield from ((path, path) for path in _list_files(folder) if not _is_left_out(path, folder))
        yield interpreter, interpreter
        for library in shared:
            yield library.resolve(), library

    return _write_layer(list_files())


def _build_environment_layer(environment: Path) -> bytes:
    """The environment at its place, with scripts that start the Python there."""

    def list_files() -> Iterator[tuple[Path, Path]]:
        for path in _list_files(environment):
            if path.parent != environment / "bin" or path.is_symlink():
                yield path, HOME / path.relative_to(environment)

    script = (environment / "bin" / "trellis").read_text().replace(str(environment), str(HOME))
    return _write_layer(list_files(), {HOME / "bin" / "trellis": script})


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())


def _is_left_out(path: Path, folder: Path) -> bool:
    return any(_LEFT_OUT.fullmatch(part) for part in path.relative_to(folder).parts)


def _list_shared_libraries(binaries: Iterable[Path], environment: Path) -> list[Path]:
    """Those outside of the environment, as the dynamic linker finds them, and the linker."""
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)  # noqa: S607
    found = {Path(os.path.normpath(path)) for path in _LIBRARY.findall(listed.stdout)}
    return sorted(path for path in found if not path.is_relative_to(environment))


def _write_layer(files: Iterable[tuple[Path, Path]], scripts: dict[Path, str] | None = None) -> bytes:
    """A layer of files, each with where it goes. Times are kept: bytecode is valid for the time of its source."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        directories: set[Path] = set()
        for source, target in files:
            _add_parents(tar, target, directories)
            tar.add(source, arcname=str(target).lstrip("/"), recursive=False, filter=_make_root_own)
        for target, text in (scripts or {}).items():
            _add_parents(tar, target, directories)
            entry = tarfile.TarInfo(str(target).lstrip("/"))
            entry.mode, entry.size = 0o755, len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _add_parents(tar: tarfile.TarFile, target: Path, known: set[Path]) -> None:
    """Directories that any user may enter, whatever they are on this machine."""
    for directory in reversed(target.parents[:-1]):
        if directory not in known:
            known.add(directory)
            entry = tarfile.TarInfo(str(directory).lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)


def _make_root_own(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode |= 0o444
    if entry.islnk():  # of two names of one file each is a file of its own, or the layer would depend on their order
        entry.type = tarfile.REGTYPE
    return entry


def _compute_state(busybox: Path) -> str:
    """Stands for all that the image is made of."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    sources = [path for path in _list_files(_ROOT / "src") if path.suffix != ".pyc"]
    builders = [Path(__file__), Path(archives.__file__), busybox]
    for path in (*sources, *(_ROOT / name for name in _PROJECT_FILES), *builders):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_old_archives() -> None:
    for path in cache_directory().glob("component-image-*.tar"):
        if time.time() - path.stat().st_mtime > _OLD_SECONDS:
            path.unlink(missing_ok=True)
