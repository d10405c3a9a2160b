"""Can what a provider says of a group be true? A figure that is none would spoil the plan for all other groups."""

from __future__ import annotations

import math
from typing import Final

from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.groups import GroupState

GROUP_UNSOUND = Reason("NodeGroupUnsound", "What the provider says of a group cannot be true.", Severity.ERROR)

# What is on its way is counted node by node: a target without end would be as many rows.
_MOST_NODES: Final = 100_000
_HIGHEST: Final = 2**31
_DEAREST: Final = 1e9


def why_unsound(state: GroupState) -> Said | None:
    """The first figure of a group that cannot be, with its rule; None if all can."""
    group = state.group
    figures: tuple[tuple[str, float, float, float], ...] = (
        ("target", state.target, 0, _MOST_NODES),
        ("max_size", group.max_size, 0, _MOST_NODES),
        ("min_size", group.min_size, 0, _MOST_NODES),
        ("priority", group.priority, -_HIGHEST, _HIGHEST),
        ("price", group.price, 0, _DEAREST),
    )
    for name, value, least, most in figures:
        # Whatever is not a number is not between any two.
        if not least <= value <= most:
            return Said(GROUP_UNSOUND, f"{group.name}: {name} is {value}, and must be {least:g} to {most:g}")
    seen: set[str] = set()
    for each in state.instances:
        if each.id in seen:
            return Said(GROUP_UNSOUND, f"{group.name}: instance {each.id} is there twice")
        seen.add(each.id)
        if not math.isfinite(each.since):
            return Said(GROUP_UNSOUND, f"{group.name}: instance {each.id} is as it is since {each.since}")
    return None
