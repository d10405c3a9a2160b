"""Container images of a real node, made without a registry: OCI archives that `ctr` imports."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

BUSYBOX: Final = "trellis-node.local/busybox:1"
PAUSE: Final = "trellis-node.local/pause:1"

# As images name it.
_ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

_DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "root", "run", "sys", "var")
_ACCOUNTS: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
}


class Image(msgspec.Struct, frozen=True):
    """An image: its name, the archives of its layers, and what its container runs: the entry point, with arguments."""

    name: str
    layers: tuple[bytes, ...]
    command: tuple[str, ...]
    entry_point: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({"PATH": "/bin"})


def build_base_images(busybox: Path) -> list[Image]:
    """A shell with the usual tools, and the image of the container that holds the namespaces of a pod."""
    layer = build_busybox_layer(busybox)
    return [
        Image(BUSYBOX, (layer,), ("/bin/sh",)),
        Image(PAUSE, (layer,), ("/bin/busybox", "sleep", "2147483647")),
    ]


def build_busybox_layer(busybox: Path) -> bytes:
    """A file system with a static busybox under the names of all its tools."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    archive = _Archive()
    for name in _DIRECTORIES:
        archive.add_directory(name)
    archive.add_directory("tmp", mode=0o1777)
    for name, text in _ACCOUNTS.items():
        archive.add_file(name, text.encode())
    archive.add_file("bin/busybox", busybox.read_bytes(), mode=0o755)
    for tool in listed.stdout.split():
        if tool != "busybox":
            archive.add_link(f"bin/{tool}", "busybox")
    return archive.close()


def build_program_image(name: str, program: Path) -> Image:
    """A static program that needs no other file."""
    archive = _Archive()
    for directory in ("etc", "proc", "dev", "sys", "tmp"):
        archive.add_directory(directory)
    archive.add_file(program.name, program.read_bytes(), mode=0o755)
    return Image(name, (archive.close(),), (), (f"/{program.name}",))


def write_archive(images: Iterable[Image], file: Path) -> None:
    """One archive of several images; a layer that they share is in it once."""
    blobs: dict[str, bytes] = {}

    def add_blob(data: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data)}

    manifests = []
    for image in images:
        layers = [add_blob(layer, "layer.v1.tar") for layer in image.layers]
        configuration = add_blob(_build_configuration(image, [layer["digest"] for layer in layers]), "config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": configuration,
            "layers": layers,
        }
        annotations = {"io.containerd.image.name": image.name}
        manifests.append(add_blob(_encode(manifest), "manifest.v1+json") | {"annotations": annotations})
    archive = _Archive()
    archive.add_file("oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
    archive.add_file("index.json", _encode({"schemaVersion": 2, "manifests": manifests}))
    for digest, data in blobs.items():
        archive.add_file(f"blobs/sha256/{digest}", data)
    file.write_bytes(archive.close())


def _build_configuration(image: Image, digests: list[str]) -> bytes:
    environment = [f"{name}={value}" for name, value in image.environment.items()]
    return _encode(
        {
            "architecture": _ARCHITECTURE,
            "os": "linux",
            "config": {
                "Env": environment,
                "Entrypoint": list(image.entry_point),
                "Cmd": list(image.command),
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
        }
    )


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


class _Archive:
    """A tar archive in memory, with the same bytes whenever it is made."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w")

    def add_directory(self, name: str, mode: int = 0o755) -> None:
        self._add(name, tarfile.DIRTYPE, mode)

    def add_file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self._add(name, tarfile.REGTYPE, mode, data=data)

    def add_link(self, name: str, target: str) -> None:
        self._add(name, tarfile.SYMTYPE, 0o777, target=target)

    def close(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()

    def _add(self, name: str, kind: bytes, mode: int, *, data: bytes = b"", target: str = "") -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, target, len(data)
        self._tar.addfile(entry, io.BytesIO(data))
