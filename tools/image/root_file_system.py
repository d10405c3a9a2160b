"""Assembles the root file system of the image: Python, the locked packages, Trellis, shared libraries; no shell.

It runs in the build stage of `deploy/Containerfile`, or on a machine without a builder, in the directory of the
sources, and uses only the standard library and pip. Everything keeps the path that it has where this runs. The same
sources and the same Python make the same bytes: bytecode does not depend on times, and all times are one.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

# Where Trellis and its packages are in the image.
HOME = Path("/opt/trellis")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

# Parts of the standard library that only developers need; some of them are large.
_LIBRARY_LEFT_OUT = re.compile(
    r"(site-packages|dist-packages|__pycache__|tests?|idlelib|tkinter|turtledemo|turtle\.py|lib2to3|ensurepip"
    r"|pydoc_data|distutils|config-.*|_test\w*\..*|_ctypes_test\..*|xx\w*\..*|.*\.a"
    # Modules whose libraries nothing else loads: screens, databases in files, NIS.
    r"|sqlite3|curses|dbm|(_sqlite3|_curses|_curses_panel|_dbm|_gdbm|_tkinter|readline|nis|_crypt)\..*)"
)
# Parts of packages that only compilers, type checkers and their own tests read.
_PACKAGES_LEFT_OUT = re.compile(r"(__pycache__|tests|f2py|include|.*\.(pyi|pyx|pxd|c|h|a)|direct_url\.json)")

_FILES = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
_MOUNT_POINTS = ("dev", "proc", "run", "sys", "tmp", "var")

_SCRIPT = f"#!{HOME}/bin/python\nimport sys\n\nfrom trellis.__main__ import main\n\nsys.exit(main())\n"

_LOADED = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
# glibc loads it by name when a thread ends.
_LOADED_LATER = "libgcc_s.so.1"
# What wheels for Linux may load from the system (PEP 513 and 599), as far as this Python's wheels do.
_LOADED_BY_WHEELS = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libutil.so.1")


def main() -> None:
    """Assemble it in the directory that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--wheels", type=Path, help="directory of wheels to install from, if it has some")
    arguments = parser.parse_args()
    assemble(arguments.root.resolve(), arguments.wheels)


def assemble(root: Path, wheels: Path | None) -> None:
    """Fill an empty directory."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    packages = root / HOME.relative_to("/") / "lib" / _version() / "site-packages"
    with tempfile.TemporaryDirectory(prefix="trellis-image-") as temporary:
        install_packages(packages, Path(temporary), wheels)
    write_environment(root)
    copy_python(root, packages.rglob("*.so*"))
    for name, text in _FILES.items():
        _write(root / name, text)
    for name in _MOUNT_POINTS:
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    _copy(CERTIFICATES.resolve(), CERTIFICATES, root)
    compile_bytecode(root)
    set_times(root, epoch)


def install_packages(packages: Path, temporary: Path, wheels: Path | None) -> None:
    """The locked versions, each compared with its hashes, and Trellis as a wheel that locked tools build."""
    sources = ["--no-index", f"--find-links={wheels}"] if wheels and wheels.is_dir() and any(wheels.iterdir()) else []
    locked = [*sources, "--require-hashes", "--only-binary=:all:"]
    tools, built = temporary / "tools", temporary / "built"
    _pip_install(tools, *locked, "--requirement=deploy/build-requirements.txt")
    _pip_install(packages, *locked, "--requirement=deploy/requirements.txt")
    _run(
        [sys.executable, "-m", "hatchling", "build", "--target=wheel", f"--directory={built}"],
        os.environ | {"PYTHONPATH": str(tools)},
    )
    _pip_install(packages, "--no-index", f"--find-links={built}", "trellis-autoscaler")
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for path in sorted(packages.rglob("*"), reverse=True):
        if _PACKAGES_LEFT_OUT.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for record in packages.glob("*.dist-info/RECORD"):
        # Scripts that are left out begin with the path of the Python that installed them.
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (packages / line.partition(",")[0]).exists()))


def write_environment(root: Path) -> None:
    """What makes the packages an environment of the Python that runs this, and the command."""
    home = root / HOME.relative_to("/")
    interpreter = Path(sys.executable).resolve()
    _write(home / "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    script = home / "bin" / "trellis"
    _write(script, _SCRIPT)
    script.chmod(0o755)
    (home / "bin" / "python").symlink_to(interpreter)


def copy_python(root: Path, extensions: Iterable[Path], left_out: re.Pattern[str] = _LIBRARY_LEFT_OUT) -> None:
    """The interpreter, its standard library, and the shared libraries that these and the extensions load."""
    interpreter = Path(sys.executable).resolve()
    libraries = sorted({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})
    files = [path for folder in libraries for path in _list_files(folder, left_out)]
    binaries = [interpreter, *(path for path in files if path.suffix == ".so"), *extensions]
    for path in [*files, interpreter]:
        _copy(path, path, root)
    for library in _list_shared_libraries(binaries, root):
        _copy(library.resolve(), library, root)
    # Where the linker finds those that lie in none of its own directories.
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        _copy(cache, cache, root)


def copy_base(target: str, pip: str) -> None:
    """A root file system for the build stage, where no image with Python can be had: this Python, and its pip."""
    root, packages = Path(target), Path(pip)
    copy_python(root, ())
    for library in sorted(_find_system_libraries()):
        _copy(library.resolve(), library, root)
    libraries = Path(sysconfig.get_path("purelib", vars={"base": str(Path(sys.base_prefix))}))
    for path in sorted(packages.glob("pip*")):
        shutil.copytree(path, root / libraries.relative_to("/") / path.name)
    for name in ("usr/local/bin", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "usr/local/bin/python").symlink_to(Path(sys.executable).resolve())
    _copy(CERTIFICATES.resolve(), CERTIFICATES, root)


def compile_bytecode(root: Path) -> None:
    """Bytecode that is valid whatever the times of its sources: the root may be read-only, and nothing is checked."""
    compiled = compileall.compile_dir(
        root,
        maxlevels=100,
        quiet=2,
        force=True,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not compiled:
        # Packages ship templates that are no Python, which must not become an error of the image.
        print("some files were not compiled")


def set_times(root: Path, epoch: int) -> None:
    """The same time, and no rights that depend on a umask, for every file."""
    for path in [root, *root.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)
        if not path.is_symlink() and path != root / "tmp":
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)


def read_program_interpreter(binary: Path) -> Path:
    """The dynamic linker that a 64-bit little-endian ELF file names."""
    data = binary.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{binary} is not a 64-bit little-endian ELF file: the image is built on amd64 and arm64")
    offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for at in range(offset, offset + size * count, size):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 3:  # PT_INTERP
            return Path(data[start : start + length].rstrip(b"\0").decode())
    sys.exit(f"{binary} names no dynamic linker: a static Python cannot load NumPy")


def _list_shared_libraries(binaries: Iterable[Path], root: Path) -> list[Path]:
    """Those outside of the packages, as the dynamic linker finds them, and the linker."""
    linker = read_program_interpreter(Path(sys.executable).resolve())
    found = {linker}
    for binary in binaries:
        listed = subprocess.run([linker, "--list", binary], capture_output=True, text=True, check=False)
        if missing := _MISSING.findall(listed.stdout):
            sys.exit(f"{binary} needs {', '.join(missing)}, which this system lacks")
        found |= {Path(os.path.normpath(path)) for path in _LOADED.findall(listed.stdout)}
    found |= {library.with_name(_LOADED_LATER) for library in found if library.name.startswith("libc.so")}
    return sorted(path for path in found if path.exists() and not path.is_relative_to(root))


def _find_system_libraries() -> set[Path]:
    """Those that wheels may load, beside the C library."""
    linker = read_program_interpreter(Path(sys.executable).resolve())
    listed = subprocess.run([linker, "--list", sys.executable], capture_output=True, text=True, check=True)
    [c_library] = [Path(path) for path in _LOADED.findall(listed.stdout) if Path(path).name == "libc.so.6"]
    folders = (c_library.parent, Path("/usr") / c_library.parent.relative_to("/"))
    return {folder / name for folder in folders for name in _LOADED_BY_WHEELS if (folder / name).exists()}


def _list_files(folder: Path, left_out: re.Pattern[str]) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(left_out.fullmatch(part) for part in parts):
            yield path


def _copy(path: Path, place: Path, root: Path) -> None:
    target = root / place.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _version() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _pip_install(target: Path, *arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile", "--no-deps"]
    _run([sys.executable, "-m", "pip", "install", *quiet, f"--target={target}", *arguments], dict(os.environ))


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"`{' '.join(command)}` failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
