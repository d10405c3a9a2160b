"""The definitions of Cluster API's kinds, from its Go module, and those of the testbed's own kinds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from testbed.client import Json
from testbed.programs.building import print_progress
from testbed.programs.cache import cache_directory, hold_lock, write_atomically
from testbed.programs.go import find_go, run_go
from testbed.programs.sources import by_sources
from testbed.programs.versions import CLUSTER_API

MODULE = "sigs.k8s.io/cluster-api"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
CONTROL_PLANE = "controlplane.cluster.x-k8s.io"
# By this label Cluster API knows which version of a kind keeps to which contract.
CONTRACT = {"cluster.x-k8s.io/v1beta2": "v1"}


def ensure_definitions() -> list[Path]:
    """The definitions of the version that is compiled; copied into the cache once."""
    [(sources, _)] = by_sources([CLUSTER_API])
    home = cache_directory() / sources.home
    definitions = home / "definitions"
    if not definitions.exists():
        with hold_lock(home / ".definitions.lock"), tempfile.TemporaryDirectory() as name:
            if not definitions.exists():
                sources.write(Path(name))
                go = find_go(Path(name))
                run_go([go, "mod", "download", MODULE], Path(name), print_progress, "definitions of Cluster API")
                module = run_go([go, "list", "-m", "-f", "{{.Dir}}", MODULE], Path(name)).strip()
                with write_atomically(definitions) as target:
                    shutil.copytree(Path(module) / "core" / "config" / "crd" / "bases", target)
    return sorted(definitions.glob("*.yaml"))


def build_own_definitions() -> list[Json]:
    """The kinds of the infrastructure provider, and a control plane that is managed elsewhere."""
    return [
        _definition(INFRASTRUCTURE, "KwokMachine", "kwokmachines"),
        _definition(INFRASTRUCTURE, "KwokMachineTemplate", "kwokmachinetemplates"),
        _definition(CONTROL_PLANE, "ExternalControlPlane", "externalcontrolplanes"),
    ]


def _definition(group: str, kind: str, plural: str) -> Json:
    free: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": CONTRACT},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
