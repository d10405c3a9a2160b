"""Programs of a real node that are not compiled here: runc, CNI plug-ins and a static busybox, as Debian packages them.

They are downloaded with apt and unpacked into the cache; nothing is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from testbed.errors import HarnessError
from testbed.programs.building import print_progress
from testbed.programs.cache import cache_directory, hold_lock

NODE_PACKAGES: Final = ("runc", "containernetworking-plugins", "busybox-static")

_TOOLS: Final = ("apt-get", "dpkg")


def find_missing_tool() -> str:
    """The first program that packages cannot be had without; empty if all are there."""
    return next((tool for tool in _TOOLS if shutil.which(tool) is None), "")


def unpack(name: str, *packages: str) -> Path:
    """A directory in which these packages are unpacked as under `/`; downloaded the first time."""
    home = cache_directory() / f"packages-{name}"
    with hold_lock(cache_directory() / f"packages-{name}.lock"):
        if not home.exists():
            print_progress(f"downloading {', '.join(packages)}: once, in seconds")
            with tempfile.TemporaryDirectory(prefix="trellis-testbed-packages-") as temporary:
                _download(packages, Path(temporary))
                _unpack_all(Path(temporary), home)
    return home


def find_unpacked(name: str) -> Path | None:
    """Where these packages are unpacked already."""
    home = cache_directory() / f"packages-{name}"
    return home if home.exists() else None


def _download(packages: tuple[str, ...], directory: Path) -> None:
    """Ask again after an update of the lists: a machine may never have had any."""
    download = ["apt-get", "download", *packages]
    if _run(download, directory).returncode == 0:
        return
    _run(["apt-get", "update"], directory)
    done = _run(download, directory)
    if done.returncode:
        raise HarnessError(f"`{' '.join(download)}` failed:\n{done.stderr.strip()[-1000:]}")


def _unpack_all(downloads: Path, home: Path) -> None:
    partial = home.with_name(f"{home.name}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    for package in sorted(downloads.glob("*.deb")):
        done = _run(["dpkg", "-x", str(package), str(partial)], downloads)
        if done.returncode:
            raise HarnessError(f"{package.name} cannot be unpacked:\n{done.stderr.strip()[-1000:]}")
    partial.rename(home)


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
