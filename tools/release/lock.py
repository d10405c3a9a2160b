"""What `uv.lock` says Trellis needs at run time: each package with its files and what it needs itself."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

PROJECT: Final = "trellis-autoscaler"
# Extras of the project in the image, which is all that an installation has: settings of components must work there.
IMAGE_EXTRAS: Final = ("grpc", "tracing")

# Files that the image may hold: for any machine, or for Linux with glibc on the architectures that it is built for.
_FOR_LINUX: Final = ("-none-any.whl", "x86_64.whl", "aarch64.whl")


class LockedFile(msgspec.Struct, frozen=True):
    """A distribution of a package and its SHA-256."""

    url: str
    sha256: str


class LockedPackage(msgspec.Struct, frozen=True):
    """A version of a package; `needs` are names with versions."""

    name: str
    version: str
    files: tuple[LockedFile, ...]
    needs: tuple[tuple[str, str], ...]


def read_runtime_packages(lock: Path) -> tuple[LockedPackage, ...]:
    """The project and the packages that it needs at run time, with those that they need; the project is the first."""
    entries = tomllib.loads(lock.read_text())["package"]
    versions: dict[str, list[str]] = {}
    for entry in entries:
        versions.setdefault(entry["name"], []).append(entry["version"])
    packages = {(entry["name"], entry["version"]): _read_package(entry, versions) for entry in entries}
    [project] = [package for package in packages.values() if package.name == PROJECT]
    found: dict[tuple[str, str], LockedPackage] = {}
    waiting = list(project.needs)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = packages[key]
            waiting += packages[key].needs
    return (project, *(found[key] for key in sorted(found)))


def _read_package(entry: dict[str, Any], versions: dict[str, list[str]]) -> LockedPackage:
    archives = [entry["sdist"]] if "sdist" in entry else []
    archives += [wheel for wheel in entry.get("wheels", ()) if _is_for_linux(wheel["url"])]
    files = tuple(LockedFile(archive["url"], archive["hash"].removeprefix("sha256:")) for archive in archives)
    needs = {
        (need["name"], version)
        for need in (*entry.get("dependencies", ()), *_list_extra_needs(entry))
        for version in ([need["version"]] if "version" in need else versions[need["name"]])
    }
    return LockedPackage(entry["name"], entry["version"], files, tuple(sorted(needs)))


def _list_extra_needs(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """What the project needs for the extras of the image."""
    if entry["name"] != PROJECT:
        return []
    return [need for extra in IMAGE_EXTRAS for need in entry["optional-dependencies"][extra]]


def _is_for_linux(url: str) -> bool:
    name = url.rpartition("/")[2]
    return name.endswith(_FOR_LINUX) and ("manylinux" in name or name.endswith("-none-any.whl"))
