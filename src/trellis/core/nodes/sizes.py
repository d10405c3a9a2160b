"""May a group get larger, or smaller? The one answer for those who decide and for those who carry out."""

from __future__ import annotations

from collections.abc import Iterable

from trellis.base.counted import counted, in_number
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.groups import GroupState, InstanceState

GROUP_AT_MAXIMUM = Reason("GroupAtMaximum", "The group may not have so many nodes.", Severity.WARNING)
GROUP_AT_MINIMUM = Reason("GroupAtMinimum", "The group may not have so few nodes.")
UNKNOWN_INSTANCE = Reason("UnknownInstance", "The group has no such instance.", Severity.WARNING)


def why_no_order(state: GroupState, target: int) -> Said | None:
    """What forbids that a group gets as many instances; None if nothing does."""
    group = state.group
    if target <= max(group.max_size, state.target):
        # Where limits were lowered below what there is, what there is may still be asked for again.
        return None
    asked = f"{target} {in_number(target, 'was', 'were')} asked for"
    return Said(GROUP_AT_MAXIMUM, f"{group.name} may have {counted(group.max_size, 'node')}, and {asked}")


def why_no_release(state: GroupState, instances: Iterable[str]) -> dict[str, Said]:
    """Which of these instances cannot be given back, and why; those that come first go first.

    Only one that runs is held by the minimum: giving back what never came up takes no room away.
    """
    refused: dict[str, Said] = {}
    group, left, known = state.group, state.target, state.by_id()
    for each in dict.fromkeys(instances):
        found = known.get(each)
        if found is None:
            refused[each] = Said(UNKNOWN_INSTANCE, f"{group.name} has no instance {each}")
        elif found.state is InstanceState.RUNNING and left <= group.min_size:
            refused[each] = Said(GROUP_AT_MINIMUM, f"{group.name} keeps {counted(group.min_size, 'node')}")
        elif found.state is not InstanceState.LEAVING:
            left -= 1
    return refused
