"""Draws where a workload stands in its buckets: replica counts as steps over the total of a resource, with marks.

Every count is drawn equally wide: what counts hold in total grows much faster than the counts do, and drawn to scale
the lower ones, where most workloads are, could not be distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from trellis.base.quantities import Quantity
from trellis.base.wording import pluralize
from trellis.core.explain.explanation.hvpa import CountCapacityPart, DemandPart, HvpaPart
from trellis.reports.text.quantities import format_bucket_quantity, format_short_quantity, get_resource_word

# The narrowest and the widest that a count is drawn: the edges are written below.
_MIN_COUNT_WIDTH, _MAX_COUNT_WIDTH = 8, 14


class _DrawingCharacters(msgspec.Struct, frozen=True):
    """The characters of lines and marks."""

    line: str
    rise: str
    turn: str
    side: str
    corner: str
    tick: str
    overlap: str
    current: str
    decided: str
    both: str
    demanded: str


_FINE: Final = _DrawingCharacters("─", "╭", "╯", "┤", "└", "┴", "╌", "○", "●", "◉", "◇")
_PLAIN: Final = _DrawingCharacters("-", ".", "'", "|", "+", "+", "~", "o", "*", "@", "x")


def draw_buckets(hvpa: HvpaPart, demand: DemandPart, width: int, *, plain: bool) -> Iterator[str]:
    """The lines of a drawing, at most this wide unless fewer than three counts would fit."""
    pens = _PLAIN if plain else _FINE
    edge = len(str(max(rung.count for rung in hvpa.capacities[demand.resource]))) + 2
    stairs = _BucketStairs(hvpa, demand, width - edge - 1)
    rows = stairs.draw_rows(pens)
    yield f"Replicas by {get_resource_word(demand.resource)} in total (not to scale):"
    for rung, row in reversed(list(zip(stairs.rungs, rows, strict=True))):
        yield f"{rung.count:>{edge - 2}} {pens.side}{''.join(row).rstrip()}"
    ticks = "".join(pens.line * (stairs.wide - 1) + pens.tick for _ in stairs.rungs)
    yield f"{'':>{edge - 1}}{pens.corner}{pens.line}{ticks}"
    lowest = format_short_quantity(demand.resource, stairs.edges[0], hvpa.binary)
    labels = "".join(
        f"{format_short_quantity(demand.resource, total, hvpa.binary):>{stairs.wide}}" for total in stairs.edges[1:]
    )
    yield f"{lowest:>{edge + 1}}{labels}"
    yield from _draw_legend(stairs, pens, width)


class _BucketStairs:
    """The counts in the drawing, and the positions of totals on them."""

    def __init__(self, hvpa: HvpaPart, demand: DemandPart, width: int) -> None:
        self.hvpa, self.demand = hvpa, demand
        rungs = hvpa.capacities[demand.resource]
        relevant = {hvpa.replicas, hvpa.count, demand.count}
        places = {rung.count: at for at, rung in enumerate(rungs) if rung.count in relevant}
        shown = _select_counts(rungs, list(places.values()), places.get(hvpa.count, 0), width // _MIN_COUNT_WIDTH)
        self.rungs = rungs[shown.start : shown.stop]
        before = rungs[shown.start - 1].total if shown.start else "0"
        self.edges = [_parse_total(before), *(_parse_total(rung.total) for rung in self.rungs)]
        self.wide = max(min(width // len(self.rungs), _MAX_COUNT_WIDTH), _MIN_COUNT_WIDTH)

    def draw_rows(self, pens: _DrawingCharacters) -> list[list[str]]:
        """A row for each count, from the lowest, without labels."""
        size, wide = len(self.rungs), self.wide
        rows = [[" "] * (size * wide + 1) for _ in range(size)]
        for at, row in enumerate(rows):
            row[at * wide : (at + 1) * wide + 1] = pens.line * (wide + 1)
            if at:
                row[at * wide] = pens.rise
            if at + 1 < size:
                row[(at + 1) * wide] = pens.turn
        self._draw_overlap(rows, pens)
        for mark, total, count in self.list_marks(pens):
            row_number = self.find_row(count)
            if row_number is not None:
                rows[row_number][self.find_column(total)] = mark
        return rows

    def list_marks(self, pens: _DrawingCharacters) -> Iterator[tuple[str, Fraction, int]]:
        """The marks: a sign, a total and a count each."""
        hvpa, demand = self.hvpa, self.demand
        demanded, total, has = (_parse_total(text) for text in (demand.requested, demand.total, demand.has))
        if self.exceeds_decided_count:
            total = has
        if demanded != total:
            held = next(
                (rung.count for rung in self.rungs if demanded <= _parse_total(rung.total)), self.rungs[-1].count
            )
            yield pens.demanded, demanded, held
        here = self.find_column(total) == self.find_column(has) and hvpa.replicas == hvpa.count
        if not here and hvpa.replicas is not None:
            yield pens.current, has, hvpa.replicas
        yield pens.both if here else pens.decided, total, hvpa.count

    @property
    def exceeds_decided_count(self) -> bool:
        """Whether demand exceeds what the decided count can hold."""
        return self.hvpa.count < self.demand.count

    def find_row(self, count: int) -> int | None:
        """The row of a count; None if it is not shown."""
        return next((at for at, rung in enumerate(self.rungs) if rung.count == count), None)

    def find_column(self, total: Fraction) -> int:
        """The column of a total."""
        last = len(self.rungs) * self.wide
        for at, (low, high) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            if total <= high:
                part = (total - low) / (high - low) if high > low else Fraction(1)
                return at * self.wide + max(round(part * self.wide), 0)
        return last

    def _draw_overlap(self, rows: list[list[str]], pens: _DrawingCharacters) -> None:
        """Draw the overlap in which the decided count does not change."""
        at = self.find_row(self.hvpa.count)
        if at and self.demand.kept_above:
            first, end = self.find_column(_parse_total(self.demand.kept_above)), at * self.wide
            rows[at][first:end] = pens.overlap * (end - first)


def _draw_legend(stairs: _BucketStairs, pens: _DrawingCharacters, width: int) -> Iterator[str]:
    """The meaning of the marks, in as few lines as possible."""
    hvpa, demand = stairs.hvpa, stairs.demand

    def quantity(text: str) -> str:
        return format_bucket_quantity(demand.resource, text, hvpa.binary)

    total = quantity(demand.has if stairs.exceeds_decided_count else demand.total)
    hidden = "" if stairs.find_row(hvpa.replicas or 0) is not None else " (not drawn)"
    texts = {
        pens.decided: f"decided: {pluralize(hvpa.count, 'replica')} for {total}",
        pens.both: f"now and decided: {pluralize(hvpa.count, 'replica')} for {total}",
        pens.current: f"now: {pluralize(hvpa.replicas or 0, 'replica')} with {quantity(demand.has)}{hidden}",
        pens.demanded: f"demand: {quantity(demand.requested)}",
    }
    legend = [f"{mark} {texts[mark]}" for mark, _, _ in stairs.list_marks(pens)]
    if demand.kept_above and stairs.find_row(hvpa.count):
        legend.append(f"{pens.overlap} kept above {quantity(demand.kept_above)}")
    line = ""
    for entry in legend:
        if line and len(line) + len(entry) + 3 > width:
            yield line
            line = ""
        line = f"{line}   {entry}" if line else entry
    yield line


def _select_counts(rungs: Sequence[CountCapacityPart], relevant: Sequence[int], decided: int, most: int) -> range:
    """As many counts as fit, around the relevant ones; the decided count is always included."""
    first, last = min(relevant, default=0), max(relevant, default=0)
    size = min(max(most, 3), len(rungs))
    if last - first + 1 > size:
        first = min(last - size + 1, decided)
        last = first + size - 1
    spare = size - (last - first + 1)
    start = max(min(first - spare // 2, len(rungs) - size), 0)
    return range(start, start + size)


def _parse_total(text: str) -> Fraction:
    return Quantity.parse(text).exact()
