"""The software bill of materials, in CycloneDX 1.6: what a release needs at run time, from `uv.lock`.

Licences come from the metadata of the installed packages. The same sources make the same bytes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

from release.lock import PROJECT, LockedPackage, read_runtime_packages

# Licences as older metadata writes them, as SPDX names them, where that is unambiguous.
_SPDX: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache-2.0": "Apache-2.0",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
    "MIT": "MIT",
    "MIT License": "MIT",
    "PSF-2.0": "PSF-2.0",
}
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "trellis.x-k8s.io")


def build_sbom(root: Path, version: str, epoch: int) -> dict[str, Any]:
    """The document for the sources in a directory, dated at an instant."""
    lock = root / "uv.lock"
    trellis, *packages = read_runtime_packages(lock)
    project = {
        "type": "application",
        "bom-ref": _name(PROJECT, version),
        "name": PROJECT,
        "version": version,
        "purl": _name(PROJECT, version),
        "licenses": [{"expression": "Apache-2.0"}],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, version + hashlib.sha256(lock.read_bytes()).hexdigest())}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": project,
        },
        "components": [_describe(package) for package in packages],
        "dependencies": [
            {"ref": project["bom-ref"], "dependsOn": [_name(*need) for need in trellis.needs]},
            *(_describe_needs(package) for package in packages),
        ],
    }


def find_licence(name: str) -> dict[str, Any]:
    """A licence as CycloneDX writes it: an SPDX expression, or the words of the package where these are not one."""
    try:
        declared = metadata(name)
    except PackageNotFoundError:  # a package of another platform or Python
        return {"license": {"name": "unknown"}}
    if expression := declared["License-Expression"]:
        return {"expression": expression}
    classifiers = [line for line in declared.get_all("Classifier") or () if line.startswith("License ::")]
    texts: Sequence[str] = classifiers if len(classifiers) > 1 else [declared["License"] or "", *classifiers]
    known = [_SPDX[text] for text in texts if text in _SPDX]
    if known:
        return {"expression": " OR ".join(sorted(set(known)))}
    return {"license": {"name": next((text.rpartition(" :: ")[2] for text in texts if text), "unknown")}}


def _describe(package: LockedPackage) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _name(package.name, package.version),
        "name": package.name,
        "version": package.version,
        "purl": _name(package.name, package.version),
        "licenses": [find_licence(package.name)],
        "externalReferences": [
            {"type": "distribution", "url": file.url, "hashes": [{"alg": "SHA-256", "content": file.sha256}]}
            for file in package.files
        ],
    }


def _describe_needs(package: LockedPackage) -> dict[str, Any]:
    return {"ref": _name(package.name, package.version), "dependsOn": [_name(*need) for need in package.needs]}


def _name(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"
