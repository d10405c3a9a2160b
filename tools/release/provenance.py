"""The provenance of a release: an in-toto statement with a SLSA predicate, from which files came from what."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

# What was done, in words: `docs/releasing.md` describes the steps.
BUILD_TYPE: Final = "https://trellis.x-k8s.io/release/v1"
_LOCKS: Final = ("uv.lock", "deploy/requirements.txt", "deploy/build-requirements.txt", "deploy/Containerfile")


def build_provenance(
    root: Path,
    files: Iterable[Path],
    images: Mapping[str, str],
    *,
    version: str,
    revision: str,
    base: str,
    builder: str,
) -> dict[str, Any]:
    """The statement about these files and images (by name, with digest), built from a commit on a base image.

    A base that is not named with its digest is stated without one: the Python of the building machine has none.
    """
    name, _, digest = base.partition("@sha256:")
    materials: list[dict[str, Any]] = [{"name": "source", "digest": {"gitCommit": revision}}] if revision else []
    materials += [{"name": lock, "digest": {"sha256": _digest(root / lock)}} for lock in _LOCKS]
    materials.append({"name": name, **({"digest": {"sha256": digest}} if digest else {})})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            *({"name": path.name, "digest": {"sha256": _digest(path)}} for path in sorted(files)),
            *({"name": name, "digest": {"sha256": images[name].removeprefix("sha256:")}} for name in sorted(images)),
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": version, "base": base},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
