"""What a group of kwok nodes is, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from trellis.api.kwok_groups import DEFAULT_BOOT_TIME, GroupFailure, KwokNodeGroup, Mishap
from trellis.base.counted import counted
from trellis.base.spans import parse_span, written_span
from trellis.reports.describe.words import listed

_MISHAPS: Mapping[str, str] = {
    Mishap.REFUSE_ORDERS: "orders are refused",
    Mishap.LOSE_ORDERS: "orders are confirmed and lost",
    Mishap.HANG: "orders are never answered",
    Mishap.NEVER_COME_UP: "nodes never come up",
    Mishap.FAIL_TO_START: "nodes fail to start",
}


def kwok_group_sentences(group: KwokNodeGroup) -> list[str]:
    """How many nodes there may be, what each has, when it is up and what goes wrong."""
    spec = group.spec
    shape = _shape(spec.resources)
    sizes = f"{spec.min_size or 0} to {counted(spec.max_size or 0, 'node')}"
    boot = written_span(parse_span(spec.boot_time or DEFAULT_BOOT_TIME))
    found = [f"A group of {sizes} with {shape} each.", f"A node is up {boot} after it was ordered."]
    if spec.price is not None:
        found.append(f"A node costs {spec.price:g} an hour.")
    if spec.taints:
        keys = [f"{each.key}:{each.effect}" for each in spec.taints]
        found.append(f"Keeps away pods that do not tolerate {listed(keys)}.")
    if spec.fails is not None:
        found.append(_mishap(spec.fails))
    return found


def _mishap(failure: GroupFailure) -> str:
    what = _MISHAPS.get(failure.how) or f"nodes come up with {_shape(failure.resources)}"
    return f"Goes wrong: {what}, beyond the first {failure.after}." if failure.after else f"Goes wrong: {what}."


def _shape(resources: Mapping[str, object] | None) -> str:
    return listed([f"{amount} {name}" for name, amount in (resources or {}).items()])
