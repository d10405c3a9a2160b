"""Builds the manifest of a ready node from what its node group declares, without a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from trellis.api.kinds.parts import NodeTaint

OS: Final = "kubernetes.io/os"
ARCHITECTURE: Final = "kubernetes.io/arch"
USUAL_LABELS: Final[Mapping[str, str]] = {OS: "linux", ARCHITECTURE: "amd64"}


def build_node_manifest(
    offered: Mapping[str, str], labels: Mapping[str, str], taints: Iterable[NodeTaint] | None, kubelet: str
) -> dict[str, Any]:
    """A Node that is ready; what it has is what pods may ask for. It says of itself what its labels say."""
    labels = {**USUAL_LABELS, **labels}
    written = [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
        for taint in taints or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels},
        "spec": {"taints": written} if written else {},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kubeletVersion": kubelet,
                "operatingSystem": labels[OS],
                "architecture": labels[ARCHITECTURE],
            },
        },
    }
