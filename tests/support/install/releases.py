"""What earlier releases installed and stored, from `tests/releases`; `tools/release/freeze.py` writes its folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from testbed.client import Json
from testbed.cluster import Cluster
from trellis.base.quantities import Quantity

# The last one is the latest.
RELEASES: Final = sorted(
    (Path(__file__).resolve().parents[2] / "releases").iterdir(),
    key=lambda path: tuple(map(int, path.name.split("."))),
)
CHECKPOINT: Final = "VerticalPodAutoscalerCheckpoint"


def find_chart(release: Path) -> Path:
    """The packaged chart of a release."""
    [chart] = release.glob("trellis-*.tgz")
    return chart


def read_objects(release: Path) -> list[Json]:
    """VPAs, checkpoints, Hvpas and Buffers as the API server stored them."""
    objects: list[Json] = json.loads((release / "objects.json").read_text())
    return objects


def store(cluster: Cluster, objects: list[Json]) -> list[Json]:
    """Create objects with their statuses; as the API server has them then."""
    stored = []
    for document in objects:
        path = cluster.api.get_path(cluster.api.create(document, "default"), "default")
        if document["kind"] != CHECKPOINT:  # whose status is no subresource
            cluster.api.patch(f"{path}/status", {"status": document["status"]})
        stored.append(cluster.api.get(path))
    assert all(it["status"] for it in stored)
    return stored


def is_close(recommended: Json, other: Json) -> bool:
    """Whether two recommended sizes are at most two histogram bins apart: a checkpoint lacks the newest samples."""
    sizes = [(Quantity.parse(recommended[name]).nanos, Quantity.parse(other[name]).nanos) for name in recommended]
    return recommended.keys() == other.keys() and all(abs(first - second) <= 0.1 * second for first, second in sizes)


def assert_stored(cluster: Cluster, stored: list[Json]) -> None:
    """Every object is the same one, with the same content."""
    for document in stored:
        now = cluster.api.get(cluster.api.get_path(document, "default"))
        assert now["metadata"]["uid"] == document["metadata"]["uid"]
        assert (now["spec"], now["status"]) == (document["spec"], document["status"])
