"""`make image`: builds the image as an OCI archive, without a registry unless `--python` names an image.

buildah builds `deploy/Containerfile`, without a daemon, where it is installed. Its base is then the Python of this
machine, with the libraries that it loads. Without buildah, the script of the build stage runs on this machine, and its
directory becomes the one layer of the image: the same files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tools"))

from bootstrap import find_uv  # noqa: E402
from image import archive, containerfile  # noqa: E402

CONTAINERFILE: Final = ROOT / "deploy" / "Containerfile"
VERSION: Final[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
NAME: Final = f"trellis:{VERSION}"
OUTPUT: Final = ROOT / "build" / "image" / f"trellis-{VERSION}-{archive.ARCHITECTURE}.tar"

_LOCKS: Final = ("deploy/requirements.txt", "deploy/build-requirements.txt")
_LOCAL_BASE: Final = "localhost/trellis-python"


def main() -> None:
    """Build it, and say where it is."""
    parser = argparse.ArgumentParser(description="Build the image of Trellis as an OCI archive.")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--python", help="base image of the build stage, by digest; without it this machine's Python")
    parser.add_argument("--no-buildah", action="store_true", help="assemble the files without a builder")
    arguments = parser.parse_args()
    build(arguments.output.resolve(), arguments.python, use_buildah=not arguments.no_buildah)
    path = arguments.output
    print(f"{NAME}: {path}, {path.stat().st_size / 1e6:.1f} MB, {archive.read_image_digest(path)}")
    print(f"import it: ctr --namespace k8s.io images import {path}, or docker load --input {path}")


def build(output: Path, python: str | None = None, *, use_buildah: bool = True) -> None:
    """Write the archive."""
    output.parent.mkdir(parents=True, exist_ok=True)
    buildah = shutil.which("buildah") if use_buildah else None
    if python and not buildah:
        sys.exit("--python needs buildah (Debian, Ubuntu: apt-get install buildah), which is not on PATH")
    with tempfile.TemporaryDirectory(prefix="trellis-image-") as temporary:
        directory = Path(temporary)
        if buildah is None:
            _assemble(directory, output)
        else:
            _build_by_buildah(buildah, directory, python, output)
    archive.name_image(output, NAME)


def read_epoch() -> int:
    """The time of every file of the image: that of the last commit, or what SOURCE_DATE_EPOCH says."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given) if given else int(_git("log", "-1", "--format=%ct") or "0")


def read_revision() -> str:
    """The commit of the sources; empty where they are no checkout."""
    return _git("rev-parse", "HEAD")


def _assemble(directory: Path, output: Path) -> None:
    """Without a builder."""
    python, wheels = _download_wheels(directory)
    root = directory / "root"
    command = [python, str(ROOT / "tools/image/root_file_system.py"), str(root), f"--wheels={wheels}"]
    _run(command, os.environ | {"SOURCE_DATE_EPOCH": str(read_epoch())})
    arguments = {"VERSION": VERSION, "REVISION": read_revision(), "PYTHON": _name_local_base()}
    archive.write_image(root, containerfile.read_configuration(CONTAINERFILE, arguments), output, read_epoch())


def _build_by_buildah(buildah: str, directory: Path, python: str | None, output: Path) -> None:
    environment = os.environ | {"CONTAINERS_STORAGE_CONF": str(_write_storage_configuration(directory))}
    epoch = str(read_epoch())
    arguments = {"SOURCE_DATE_EPOCH": epoch, "VERSION": VERSION, "REVISION": read_revision()}
    options = ["--isolation=chroot", "--format=oci", f"--timestamp={epoch}", "--quiet", "--tag", NAME]
    if python is None:
        _, wheels = _download_wheels(directory)
        _make_local_base(buildah, directory, environment)
        options += [f"--volume={wheels}:/wheels:ro", "--pull-never"]
    arguments["PYTHON"] = python or _name_local_base()
    options += [f"--build-arg={name}={value}" for name, value in arguments.items()]
    _run([buildah, "bud", *options, "--file", str(CONTAINERFILE), str(ROOT)], environment)
    output.unlink(missing_ok=True)  # buildah adds to an archive that exists
    _run([buildah, "push", "--quiet", NAME, f"oci-archive:{output}:{NAME}"], environment)


def _download_wheels(directory: Path) -> tuple[str, Path]:
    """A Python with pip, and the locked wheels for it: a build stage may have no network."""
    environment, wheels = directory / "pip", directory / "wheels"
    _run([find_uv(), "venv", "--quiet", "--seed", f"--python={sys.executable}", str(environment)], dict(os.environ))
    python = str(environment / "bin" / "python")
    for lock in _LOCKS:
        options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:", "--no-deps"]
        _run([python, "-m", "pip", "download", *options, f"--dest={wheels}", f"--requirement={lock}"], dict(os.environ))
    return python, wheels


def _make_local_base(buildah: str, directory: Path, environment: dict[str, str]) -> None:
    """An image of this machine's Python with its pip."""
    base = directory / "base"
    [packages] = (directory / "pip" / "lib").glob("python3*/site-packages")
    script = "import sys; from image import root_file_system as files; files.copy_base(*sys.argv[1:])"
    _run([sys.executable, "-c", script, str(base), str(packages)], environment | {"PYTHONPATH": str(ROOT / "tools")})
    [container] = _run([buildah, "from", "scratch"], environment).split()
    _run([buildah, "copy", "--quiet", container, str(base), "/"], environment)
    _run([buildah, "config", "--env=PATH=/usr/local/bin", container], environment)
    _run([buildah, "commit", "--quiet", "--rm", container, _name_local_base()], environment)


def _name_local_base() -> str:
    return f"{_LOCAL_BASE}:{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"


def _write_storage_configuration(directory: Path) -> Path:
    """Storage of this build's own, by copies of directories: it needs neither overlay mounts nor FUSE."""
    file = directory / "storage.conf"
    run, graph = directory / "run", directory / "storage"
    file.write_text(f'[storage]\ndriver = "vfs"\nrunroot = "{run}"\ngraphroot = "{graph}"\n')
    return file


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"`{' '.join(command[:4])} ...` failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
