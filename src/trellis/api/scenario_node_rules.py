"""What the groups of nodes of a scenario must be, beyond their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api.fields import Rule, rule
from trellis.api.kwok_group_rules import LONGEST_BOOT
from trellis.api.kwok_groups import GROUP_LABEL
from trellis.api.problems import FORBIDDEN, INVALID, Key, Problem
from trellis.api.scenario_nodes import ScenarioNodeGroup
from trellis.base.names import why_not_label
from trellis.base.quantity import Quantity
from trellis.base.spans import parse_span


@rule(ScenarioNodeGroup, "name", "labels", says="the name of a group is a label, and no other label stands for it")
def group_is_known_by_its_name(group: ScenarioNodeGroup) -> Iterator[Problem]:
    """Nodes are called after it, and Buffers find them by it."""
    wrong = why_not_label(group.name)
    if wrong:
        yield Problem(("name",), INVALID, wrong, group.name)
    for key in (GROUP_LABEL, "kubernetes.io/hostname"):
        if key in (group.labels or {}):
            yield Problem(("labels", Key(key)), FORBIDDEN, "is set on each node and must not be given")


@rule(ScenarioNodeGroup, "minSize", "maxSize", "size", says="a group has fewer nodes than it must, or more than it may")
def sizes_of_groups_are_in_order(group: ScenarioNodeGroup) -> Iterator[Problem]:
    """It begins between its bounds, and stays there."""
    least, most = group.min_size or 0, group.max_size
    if most is not None and least > most:
        yield Problem(("minSize",), INVALID, f"must not be above maxSize, which is {most}", least)
    if group.size is not None and most is not None and not least <= group.size <= most:
        yield Problem(("size",), INVALID, f"must be between minSize and maxSize, {least} and {most}", group.size)


@rule(ScenarioNodeGroup, "cpu", "memory", says="a node has no CPU or no memory")
def node_of_group_has_room(group: ScenarioNodeGroup) -> Iterator[Problem]:
    """A node on which nothing fits is of no use."""
    for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
        if amount is not None and not Quantity.parse(amount):
            yield Problem((name,), INVALID, "must be above zero", amount)


@rule(ScenarioNodeGroup, "bootTime", says="bootTime is longer than a day")
def group_boots_within_a_day(group: ScenarioNodeGroup) -> Iterator[Problem]:
    """Nobody waits longer."""
    if group.boot_time is not None and parse_span(group.boot_time) > parse_span(LONGEST_BOOT):
        yield Problem(("bootTime",), INVALID, f"must be at most {LONGEST_BOOT}", group.boot_time)


RULES: tuple[Rule[Any], ...] = (
    group_is_known_by_its_name,
    sizes_of_groups_are_in_order,
    node_of_group_has_room,
    group_boots_within_a_day,
)
