"""What is true of Buffers once orders were answered? What a group refused is not on its way."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.verdicts import GROUPS_EXHAUSTED, BufferVerdict, GroupsRefused

ORDER_FAILED = Reason("OrderFailed", "Nothing came of an order from the group.", Severity.WARNING)


def after_orders(verdicts: Iterable[BufferVerdict], failed: Collection[str]) -> tuple[BufferVerdict, ...]:
    """The verdicts, where nothing came of the orders from some groups; the next plan knows another way, if any."""
    return tuple(_without(each, failed) for each in verdicts)


def _without(verdict: BufferVerdict, failed: Collection[str]) -> BufferVerdict:
    lost = {group: count for group, count in verdict.ordered.items() if group in failed}
    if not lost:
        return verdict
    return msgspec.structs.replace(
        verdict,
        said=Said(GROUPS_EXHAUSTED),
        ordered={group: count for group, count in verdict.ordered.items() if group not in lost},
        unplaced=verdict.unplaced + sum(lost.values()),
        refused=(*verdict.refused, GroupsRefused(ORDER_FAILED, tuple(sorted(lost)))),
    )
