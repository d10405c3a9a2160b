"""OCI archives: an image of one layer written from a directory, a name for an image, an image unpacked.

The same directory makes the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

# As images name architectures.
ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

_MEDIA_TYPE: Final = "application/vnd.oci.image"
# What containerd calls an image that it imports.
_NAME: Final = "io.containerd.image.name"
_REFERENCE: Final = "org.opencontainers.image.ref.name"
_CHUNK: Final = 1 << 20


def write_image(root: Path, configuration: dict[str, Any], archive: Path, epoch: int) -> None:
    """An archive of one image, whose only layer is a directory."""
    with tempfile.TemporaryDirectory(prefix="trellis-image-") as temporary:
        blobs = Path(temporary) / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        layer = Path(temporary) / "layer.tar"
        _write_layer(root, layer, epoch)
        compressed = Path(temporary) / "layer.tar.gz"
        _compress(layer, compressed)
        description = {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": configuration,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest_file(layer)}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA_TYPE}.manifest.v1+json",
            "config": _add_blob(blobs, _encode(description), "config.v1+json"),
            "layers": [_describe(compressed, "layer.v1.tar+gzip")],
        }
        compressed.rename(blobs / digest_file(compressed))
        index = {"schemaVersion": 2, "manifests": [_add_blob(blobs, _encode(manifest), "manifest.v1+json")]}
        (Path(temporary) / "index.json").write_bytes(_encode(index))
        (Path(temporary) / "oci-layout").write_bytes(_encode({"imageLayoutVersion": "1.0.0"}))
        layer.unlink()
        _pack(Path(temporary), archive)


def name_image(archive: Path, name: str) -> None:
    """Give the one image of an archive the name under which `ctr images import` and `docker load` know it."""
    with tempfile.TemporaryDirectory(prefix="trellis-image-") as temporary:
        with tarfile.open(archive) as packed:
            packed.extractall(temporary, filter="data")
        index = Path(temporary) / "index.json"
        document = json.loads(index.read_bytes())
        for manifest in document["manifests"]:
            manifest["annotations"] = {_NAME: f"docker.io/library/{name}", _REFERENCE: name.rpartition(":")[2]}
        index.write_bytes(_encode(document))
        _pack(Path(temporary), archive)


def unpack_image(archive: Path, root: Path) -> dict[str, Any]:
    """Write the files of an image's layers into a directory; its configuration is returned."""
    with tarfile.open(archive) as packed:
        manifest = _load_manifest(packed)
        for layer in manifest["layers"]:
            blob = packed.extractfile(_find_blob(layer))
            assert blob is not None  # noqa: S101 - a file, not a directory
            root.mkdir(exist_ok=True)
            root.chmod(0o755)  # the user of the image reads it
            with tarfile.open(fileobj=blob) as files:
                files.extractall(root, filter=_keep_rights)  # noqa: S202 - the filter is tarfile's own but for links
    return read_configuration(archive)


def read_configuration(archive: Path) -> dict[str, Any]:
    """The entry point, the user, the environment and the labels of the image."""
    with tarfile.open(archive) as packed:
        configuration: dict[str, Any] = _load(packed, _load_manifest(packed)["config"])["config"]
    return configuration


def digest_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_image_digest(archive: Path) -> str:
    """The digest of the manifest of the one image of an archive."""
    with tarfile.open(archive) as packed:
        digest: str = _load_json(packed, "index.json")["manifests"][0]["digest"]
    return digest


def _keep_rights(entry: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    """Absolute links are links below the root of the image: tarfile's own filters refuse them."""
    return entry if entry.issym() else tarfile.tar_filter(entry, place)


def _write_layer(root: Path, file: Path, epoch: int) -> None:
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in _list_paths(root):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            _make_plain(entry, epoch)
            if entry.isreg():
                with path.open("rb") as source:
                    tar.addfile(entry, source)
            else:
                tar.addfile(entry)


def _compress(file: Path, compressed: Path) -> None:
    """With neither name nor time in the header."""
    with (
        file.open("rb") as source,
        compressed.open("wb") as target,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=target, mtime=0) as packed,
    ):
        shutil.copyfileobj(source, packed, _CHUNK)


def _pack(directory: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    _write_layer(directory, archive, 0)


def _list_paths(root: Path) -> Iterator[Path]:
    return iter(sorted(root.rglob("*")))


def _make_plain(entry: tarfile.TarInfo, epoch: int) -> None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = epoch
    if entry.islnk():  # two names of one file
        entry.type = tarfile.REGTYPE


def _add_blob(blobs: Path, data: bytes, media_type: str) -> dict[str, Any]:
    path = blobs / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return _describe(path, media_type)


def _describe(path: Path, media_type: str) -> dict[str, Any]:
    digest = f"sha256:{digest_file(path)}"
    return {"mediaType": f"{_MEDIA_TYPE}.{media_type}", "digest": digest, "size": path.stat().st_size}


def _load_manifest(packed: tarfile.TarFile) -> dict[str, Any]:
    return _load(packed, _load_json(packed, "index.json")["manifests"][0])


def _load(packed: tarfile.TarFile, descriptor: dict[str, Any]) -> dict[str, Any]:
    return _load_json(packed, _find_blob(descriptor))


def _find_blob(descriptor: dict[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _load_json(packed: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = packed.extractfile(name)
    assert file is not None  # noqa: S101 - a file, not a directory
    document: dict[str, Any] = json.load(io.BytesIO(file.read()))
    return document


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
