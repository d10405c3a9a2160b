"""Proposed buckets for a terminal: each workload with its buckets, why they are so, and what they would have cost."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.counted import counted
from trellis.reports.advice_words import facts, partial
from trellis.reports.bucket_words import (
    BUCKET_HEADS,
    answer,
    bucket_cells,
    cost_cells,
    cost_heads,
    named,
    outcomes,
    why,
)
from trellis.reports.suggested import Proposal, Proposals
from trellis.reports.text_tables import cut, lines, wrapped
from trellis.reports.text_tables import width as table_width

_NARROWEST = 80
_INDENT = "  "
_NAMED = 12
_BUCKETS = 4
_SHORT = "short: of the time in which more was used than was requested"
_CHANGES = "changes"


def as_text(proposals: Proposals, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least; `top` workloads, or all."""
    room = max(width, _NARROWEST)
    told = wrapped(", ".join(facts(proposals.advised)[:-1]), room)
    told += wrapped(partial(proposals.advised), room) if proposals.advised.surveyed.is_partial else []
    shown = proposals.proposed[:top] if top else proposals.proposed
    for each in shown:
        told += ["", *_workload(each, proposals, room)]
    if len(shown) < len(proposals.proposed):
        told += ["", f"... and {counted(len(proposals.proposed) - len(shown), 'workload')} more with buckets"]
    told += ["", *wrapped(_legend(told), room)] if shown else []
    told += ["", *wrapped(answer(proposals), room)]
    return told + [line for reason in _reasons(proposals) for line in wrapped(reason, room)]


def _legend(told: list[str]) -> str:
    """What the heads mean; the last column is not there on a narrow terminal."""
    has_changes = any(line.endswith(_CHANGES) for line in told)
    return f"{_SHORT}; {_CHANGES}: how often the count was another." if has_changes else f"{_SHORT}."


def _workload(proposal: Proposal, proposals: Proposals, room: int) -> Iterator[str]:
    yield cut(f"{named(proposal)} ({proposal.workload.kind})", room)
    yield from _indented(_shortened(lines([BUCKET_HEADS, *bucket_cells(proposal)])))
    for sentence in why(proposal):
        yield from _indented(wrapped(f"- {sentence}", room - len(_INDENT)))
    rows = [cost_cells(name, found, proposals) for name, found in outcomes(proposal)]
    yield from _indented(_fitting([cost_heads(proposals), *rows], room - len(_INDENT)))


def _shortened(table: list[str]) -> list[str]:
    """Without the buckets in the middle, if there are many: other forms have all of them."""
    left_out = len(table) - _BUCKETS - 1
    if left_out < 2:
        return table
    return [*table[:_BUCKETS], f"... {left_out} more", table[-1]]


def _fitting(rows: list[list[str]], room: int) -> list[str]:
    """A table without as many of its last columns as there is no room for."""
    for columns in range(len(rows[0]), 1, -1):
        table = lines([row[:columns] for row in rows])
        if table_width(table) <= room:
            break
    return table


def _indented(told: list[str]) -> Iterator[str]:
    yield from (f"{_INDENT}{line}" for line in told)


def _reasons(proposals: Proposals) -> Iterator[str]:
    """Why the others have none."""
    for reason, many in proposals.reasons:
        names = [named(each) for each in proposals.others if each.suggestion.reason == reason]
        rest = f" and {many - _NAMED} more" if many > _NAMED else ""
        yield f"None for {', '.join(names[:_NAMED])}{rest}: {reason.meaning} ({reason.code})"
