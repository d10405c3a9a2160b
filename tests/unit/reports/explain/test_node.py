"""How an explanation of a node, and of nodes for whoever wants one, reads."""

from __future__ import annotations

import json

import msgspec
import pytest

from support.builders.collected_node_groups import Pools, pools
from support.golden_files import assert_golden
from support.worlds.resizes import NOW
from trellis.core.explain import ObjectExplanation
from trellis.core.explain.explanation.node import NodePart
from trellis.reports.explain.report import as_json, as_text


def text(explained: ObjectExplanation, width: int = 80) -> str:
    return "\n".join(as_text(explained, width)) + "\n"


def chapter(explained: ObjectExplanation, title: str) -> str:
    section = text(explained).split(f"\n{title}\n")[1].split("\n\n")[0]
    return f"{explained.kind} {explained.name}\n{section}\n"


def test_explanations_of_nodes_are_as_approved() -> None:
    cluster = pools()
    texts = [text(cluster.node(name)) for name in ("small-1", "small-2", "small-3", "n1")]
    wanted = [cluster.buffer("web"), cluster.buffer("builds"), cluster.pod("import-1"), cluster.pod("import-2")]
    assert_golden(
        "explain-node.txt", "\n".join([*texts, *(chapter(explanation, "PLACEMENT") for explanation in wanted)])
    )
    assert_golden("explain-node.json", as_json(cluster.node("small-2")).decode())


def test_machines_get_the_same_as_data() -> None:
    document = json.loads(as_json(pools().node("small-2")))["node"]
    assert (document["outcome"], document["chunks"]) == ("Unneeded", {"shop/web": 1})
    assert msgspec.json.decode(msgspec.json.encode(document), type=NodePart) == pools().node("small-2").node


@pytest.mark.parametrize("name", ["n1", "small-2", "small-3"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, name: str) -> None:
    lines = list(as_text(pools().node(name), width, plain=True))
    assert max(map(len, lines)) <= width
    assert "\n".join(lines).isascii()


def test_the_explanation_of_an_unscheduled_pod_begins_with_that() -> None:
    explanation = text(pools().pod("import-2"), 1000)
    assert "The pod is not scheduled. NoGroupFits: no node group has nodes on which it would fit." in explanation
    assert "Node groups large and small are excluded: NodeTooSmall (cpu)." in explanation
    explanation = text(pools().pod("import-1"), 1000)
    assert "The pod is not scheduled. With the next scale-up, NodeOrdered" in explanation


def test_a_node_without_a_decision_has_no_reason_lines() -> None:
    cluster = pools()
    cluster.patterns = ("shop",)
    explanation = text(cluster.node("small-1"), 1000)
    assert "The decision about it is unknown." in explanation
    assert "NodesNotObserved" in explanation
    assert "NODE GROUP AND REQUESTS" not in explanation


def test_many_pods_that_are_alike_are_not_all_shown() -> None:
    cluster = Pools()
    cluster.add_group("small")
    cluster.add_member("small-1")
    for number in range(25):
        cluster.run(f"web-1-{number:02}", "small-1", "10m")
    explanation = text(cluster.node("small-1"), 1000)
    assert "shop/web-1-19 requests CPU 10m" in explanation
    assert "The same holds for 5 other pods." in explanation
    assert "web-1-20" not in explanation


def test_a_leaving_node_is_reported_with_its_time() -> None:
    cluster = pools()
    mark = {"key": "trellis.x-k8s.io/leaving", "value": f"{NOW - 60:.0f}", "effect": "NoSchedule"}
    cluster.add_member("small-4", taints=[mark], conditions=[])
    explanation = text(cluster.node("small-4"), 1000)
    assert "It is being removed. NodeReleased" in explanation
    assert "This has been so since 07:59 UTC, 1 min ago." in explanation
    assert "It is not ready." in explanation


def test_a_node_that_the_scheduler_avoids_is_reported_with_the_taint() -> None:
    cluster = pools()
    taint = {"key": "trellis.x-k8s.io/unneeded", "value": f"{NOW - 60:.0f}", "effect": "PreferNoSchedule"}
    cluster.add_member("small-4", taints=[taint])
    explanation = text(cluster.node("small-4"), 1000)
    assert "It is not removed yet. NodeUnneeded" in explanation
    assert "New pods prefer other nodes: it has the taint trellis.x-k8s.io/unneeded." in explanation
    assert "prefer other nodes" not in text(cluster.node("small-2"), 1000)
