"""What `trellis check --explain` says of a Buffer: as much as can be known without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from trellis.api.kinds.buffer import Buffer
from trellis.api.resolve import resolve_buffer
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects
from trellis.reports.describe.buffer import describe_buffer

EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "buffers"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def describe(**spec: Any) -> str:
    return " ".join(describe_buffer(resolve_buffer(msgspec.convert({"spec": spec}, Buffer))))


def of_class(kind: str = "NodePool", **capacity: Any) -> dict[str, Any]:
    totals = {"totalCpu": "40", "totalMem": "5120Mi", **capacity}
    return {"targetRef": {"kind": kind, "name": "spot"}, "capacity": {"nodeClass": totals}}


def given_pods(**resources: Any) -> dict[str, Any]:
    container = {"name": "build", "resources": resources}
    return {"capacity": {"pods": {"replicaNum": 5, "podSpec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"targetRef": DEPLOYMENT, "capacity": {"replicas": {"exactly": 3}}},
            "Keeps spare capacity for 3 further pods",
        ),
        ({"targetRef": DEPLOYMENT, "capacity": {"replicas": {"exactly": 3}}}, "with the current recommendation."),
        (
            of_class(perChunkResources={"cpu": "3", "memory": "512Mi"}),
            "in chunks of 3 CPU and 512Mi memory; that makes 10 chunks.",
        ),
        (
            of_class(),
            "in equal chunks that fit the smallest of them. These are nodes labelled karpenter.sh/nodepool=spot.",
        ),
        (of_class("Pool"), "The node label for a Pool is unknown: set --node-class-labels."),
        (
            of_class(nodeSelector={"karpenter.sh/nodepool": "other"}),
            "No node can be one of these: nodeSelector selects karpenter.sh/nodepool=other, which",
        ),
        (given_pods(requests={"cpu": "2", "memory": "4Gi"}), "5 pods of the given spec: 2 CPU and 4Gi memory each."),
        (given_pods(limits={"nvidia.com/gpu": "1"}), "5 pods of the given spec: 1 nvidia.com/gpu each."),
        (given_pods(), "Keeps spare capacity for 5 pods of the given spec."),
        (given_pods(requests={"cpu": "lots"}), "Keeps spare capacity for 5 pods of the given spec."),
        ({"type": "example.com/warm", **given_pods()}, "Is ignored: example.com/warm"),
        ({}, "Keeps no spare capacity: its capacity is invalid."),
    ],
)
def test_a_buffer_is_described_in_sentences(spec: dict[str, Any], sentence: str) -> None:
    assert sentence in describe(**spec)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_described(path: Path) -> None:
    checked = check([ManifestSource(path.name, path.read_bytes())])
    assert checked.findings == ()
    (described,) = describe_objects(checked)
    assert len(described["sentences"]) > 1
