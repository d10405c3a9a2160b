"""What a kwok node says of its order, and when pods are let onto it."""

from __future__ import annotations

from typing import Any

import pytest

from trellis.api.kinds.kwok_node_group import BOOT_SECONDS_ANNOTATION, KWOK_KEY, ORDERED_AT_ANNOTATION, STARTING_TAINT
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.kube.write.actions import PatchObject
from trellis.providers.kwok.instances import next_action, read_order

START = 1_800_000_000.0


def a_node(boot: str, *, ready: bool = False) -> Node:
    conditions: list[dict[str, Any]] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return convert_object(
        {
            "metadata": {
                "name": "small-1",
                "uid": "u",
                "labels": {KWOK_KEY: "fake"},
                "annotations": {ORDERED_AT_ANNOTATION: "2027-01-15T08:00:00.000000Z", BOOT_SECONDS_ANNOTATION: boot},
            },
            "spec": {"taints": [{"key": STARTING_TAINT, "effect": "NoSchedule"}]},
            "status": {"conditions": conditions},
        },
        Node,
    )


def test_the_taint_of_a_node_is_removed_only_when_it_is_ready() -> None:
    assert next_action(a_node("30.0"), START + 31) is None
    freed = next_action(a_node("30.0", ready=True), START + 31)
    assert isinstance(freed, PatchObject)


@pytest.mark.parametrize(
    ("boot", "seconds"), [("30.0", 30.0), ("-5", 0.0), ("nan", 0.0), ("inf", 86_400.0), ("1e300", 86_400.0), ("x", 0.0)]
)
def test_an_impossible_boot_time_is_bounded(boot: str, seconds: float) -> None:
    order = read_order(a_node(boot))
    assert (order.at, order.boot_seconds) == (START, seconds)
