"""Which groups have fewer nodes than they are to have? Where that is asked for, they are filled up with what is left.

Whoever needs a node comes first: what limits of the cluster leave is for this.
"""

from __future__ import annotations

from trellis.base.counted import counted
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.look import Look
from trellis.core.nodes.trial import Trial

GROUP_BELOW_MINIMUM = Reason(
    "GroupBelowMinimum", "The group has fewer nodes than it is to have, and may not grow now.", Severity.WARNING
)


def fill_up(seen: Look, tried: Trial, limits: Limits) -> dict[str, Said]:
    """Have new nodes for groups that lack some, beside those that were opened for others.

    Returns what is to be said of groups that lack some all the same.
    """
    if not seen.settings.enforce_node_group_min_size:
        return {}
    notes: dict[str, Said] = {}
    opened = tried.orders()
    for number, state in enumerate(seen.templates.states):
        group = state.group
        lacking = group.min_size - seen.target(group.name) - opened.get(number, 0)
        if lacking <= 0:
            continue
        given = min(lacking, limits.room(number))
        if given:
            tried.open(number, given)
            limits.take(number, given)
        if given < lacking:
            why = limits.why_none(number)
            told = f"{group.name} is to have {counted(group.min_size, 'node')} and lacks {lacking - given}: {why}"
            notes[group.name] = Said(GROUP_BELOW_MINIMUM, told)
    return notes
