"""What is true of pods and Buffers once orders were answered? What a group refused is not on its way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.limits import SCALE_UP_LIMITED
from trellis.core.nodes.verdicts import GROUPS_EXHAUSTED, BufferVerdict, GroupsRefused, PodsVerdict

ORDER_FAILED = Reason("OrderFailed", "Nothing came of an order from the group.", Severity.WARNING)

V = TypeVar("V", PodsVerdict, BufferVerdict)


def after_orders(verdicts: Iterable[V], failed: Collection[str]) -> tuple[V, ...]:
    """The verdicts, where nothing came of the orders from some groups; the next plan knows another way, if any."""
    return tuple(_without(each, failed) for each in verdicts)


def unanswered(verdicts: Iterable[BufferVerdict], why: Said) -> tuple[BufferVerdict, ...]:
    """The verdicts of a look at which nothing could be ordered: who might have had a node is told why there is none."""
    return tuple(
        msgspec.structs.replace(each, said=why, refused=()) if each.unplaced and _might_be_helped(each) else each
        for each in verdicts
    )


def _might_be_helped(verdict: BufferVerdict) -> bool:
    """Whether some group has not refused for good; without groups nobody knows."""
    return not verdict.refused or any(each.reason is SCALE_UP_LIMITED for each in verdict.refused)


def _without(verdict: V, failed: Collection[str]) -> V:
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
