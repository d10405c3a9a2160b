"""How an explanation of a Buffer reads."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.builders.collected_clusters import Cluster, deployment, spare
from support.golden_files import assert_golden
from support.worlds.resizes import NOW, Document, container, time
from trellis.core.explain import ObjectExplanation, explain_buffer
from trellis.core.explain.explanation.buffer import BufferPart
from trellis.reports.explain.report import as_json, as_text
from trellis.sim.dump.component_settings import read_components

POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}


def text(explained: ObjectExplanation, width: int = 80) -> str:
    return "\n".join(as_text(explained, width)) + "\n"


def spare_explained(name: str) -> ObjectExplanation:
    cluster = spare()
    return explain_buffer(cluster.evidence(read_components(cluster.collected())), name)


def explain_web(cluster: Cluster | None = None, **spec: Any) -> str:
    """On lines of any length."""
    observed = cluster or Cluster()
    observed.add_workload("web", 4)
    observed.add_buffer("web", **spec)
    return text(explain_buffer(observed.evidence(), "web"), 1000)


def exactly(count: int, **spec: Any) -> Document:
    return {"targetRef": deployment("web"), "capacity": {"replicas": {"exactly": count}}, **spec}


def given_pods(**spec: Any) -> Document:
    return {"capacity": {"pods": {"replicaNum": 2, "podSpec": {"containers": [container()], **spec}}}}


def test_explanations_of_buffers_are_as_approved() -> None:
    texts = [text(spare_explained(name)) for name in ("web", "builds", "spot")]
    assert_golden("explain-buffer.txt", "\n".join(texts))
    assert_golden("explain-buffer.json", as_json(spare_explained("web")).decode())


def test_machines_get_the_same_as_data() -> None:
    document = json.loads(as_json(spare_explained("spot")))["buffer"]
    assert (document["desiredChunks"], document["chunks"], document["chunk"]["requests"]["cpu"]) == (3, 3, "3333m")
    assert msgspec.json.decode(msgspec.json.encode(document), type=BufferPart) == spare_explained("spot").buffer


@pytest.mark.parametrize("name", ["web", "builds", "spot"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, name: str) -> None:
    lines = list(as_text(spare_explained(name), width, plain=True))
    assert max(map(len, lines)) <= width
    assert "\n".join(lines).isascii()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (exactly(3), "It keeps spare capacity for 3 further pods of Deployment web: CPU 500m and memory 1Gi each,"),
        (exactly(3), "Its capacity asks for exactly 3."),
        (exactly(0), "It keeps no spare capacity now."),
        (
            exactly(1, recreationStrategy="KeepMinimum"),
            "If only pods of DaemonSets ran, all chunks fit on existing nodes.",
        ),
        (exactly(1, recreationStrategy="KeepMinimum"), "KeepMinimum: the capacity counts whether used or not;"),
        (exactly(1, type="example.com/warm"), "Trellis ignores it and does not write its status. OtherBufferType:"),
        (
            {"targetRef": deployment("web"), "capacity": {"replicas": {"percent": {"percent": 30, "maxCount": 1}}}},
            "30 % of 4 replicas, rounded up, at most 1: 1.",
        ),
        (
            {"targetRef": POOL, "capacity": {"nodeClass": {"totalCpu": "4", "totalMem": "6Gi"}}},
            "Up to CPU 4 and memory 6Gi in total, in as few equal chunks as fit a small node: 8.",
        ),
        (
            {"targetRef": POOL, "capacity": {"nodeClass": {"totalCpu": "4", "totalMem": "6Gi"}}},
            "A chunk fits on no existing node, even without other pods.",
        ),
        (
            {
                "targetRef": POOL,
                "capacity": {
                    "nodeClass": {
                        "totalCpu": "4",
                        "totalMem": "6Gi",
                        "perChunkResources": {"cpu": "1", "memory": "2Gi"},
                    }
                },
            },
            "Up to CPU 4 and memory 6Gi in total, in chunks of CPU 1 and memory 2Gi: 3 are within both totals.",
        ),
        (
            given_pods(nodeSelector={"pool": "a"}, hostNetwork=True),
            "Its nodes are restricted by nodeSelector pool=a and hostNetwork.",
        ),
        (given_pods(), "It keeps spare capacity for 2 pods of the given spec: CPU 500m and memory 1Gi each"),
        ({"targetRef": deployment("wbe"), "capacity": {"replicas": {"exactly": 2}}}, "TargetNotFound: Cannot read"),
        ({"targetRef": deployment("wbe"), "capacity": {"replicas": {"exactly": 2}}}, "asks for exactly 2."),
        (given_pods(resourceClaims=[{"name": "gpu"}]), "Its capacity asks for 2 pods of the given spec."),
    ],
)
def test_what_it_keeps_is_reported_in_a_sentence(spec: Document, sentence: str) -> None:
    assert sentence in explain_web(**spec)


def test_outside_of_its_schedule_the_next_window_is_named() -> None:
    schedule = {"windows": [{"start": "0 20 * * *", "duration": "90m"}]}
    explanation = explain_web(**exactly(2, schedule=schedule))
    assert "OutsideSchedule: no window of the Buffer's schedule is open: the Buffer has no chunks." in explanation
    assert "The next window opens at 20:00 UTC, in 12 h." in explanation
    assert "A window opens at 0 20 * * * (UTC), for 1 h 30 min." in explanation
    assert "costs" not in explanation


def test_missing_headroom_is_reported_with_its_amount_and_reason() -> None:
    cluster = Cluster()
    cluster.add_node("n1", "4")
    explanation = explain_web(cluster, **exactly(5))
    assert "Beside all running pods, 4 of 5 chunks fit on existing nodes; the rest needs" in explanation
    assert "No further chunk fits on existing nodes: 1 node, NodeFull (cpu)." in explanation


def test_where_there_is_no_headroom_at_all_nothing_is_left_over() -> None:
    cluster = Cluster()
    cluster.add_node("n1", "2")
    assert "no chunk fits on existing nodes; new nodes are needed." in explain_web(cluster, **exactly(5))


def test_a_status_that_is_behind_is_reported() -> None:
    cluster = Cluster()
    assert "Its status has no chunks yet." in explain_web(cluster, **exactly(2))
    cluster.publish_buffers()
    cluster.objects["Buffer", ("shop", "web")]["spec"]["capacity"]["replicas"]["exactly"] = 3
    behind = text(explain_buffer(cluster.evidence(), "web"), 1000)
    assert "Its status has 2 chunks, and differs from this answer." in behind


def test_the_time_when_all_chunks_last_fit_is_reported() -> None:
    explanation = explain_web(status={"lastFullyProvisioned": time(NOW - 120)}, **exactly(2))
    assert "It was last fully provisioned at 07:58 UTC, 2 min ago." in explanation


def test_another_buffer_on_the_target_is_reported() -> None:
    cluster = Cluster()
    cluster.add_buffer("more", **exactly(3))
    assert "Buffer more has the same target, and keeps 3 chunks." in explain_web(cluster, **exactly(2))
