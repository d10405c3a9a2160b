"""How do the variants of a simulation compare? Every measure of the fleet, side by side and against the first."""

from __future__ import annotations

import msgspec

from trellis.reports.measures import Compared, Measure
from trellis.reports.simulation_measures import (
    COST,
    DISRUPTION,
    FOOTPRINTS,
    MONEY_UNIT,
    NODES,
    OVERLOAD,
    OVERRUNS,
    REPLICAS,
    RISK,
    SCALINGS,
    SELDOM,
    STARTS,
)
from trellis.reports.simulation_node_measures import ALWAYS, IF_ANY, IN_FULL, has_nodes
from trellis.sim.results import RunResult, Totals, VariantResult


class Row(msgspec.Struct, frozen=True):
    """One measure in all variants, ready to be shown; differences and verdicts are against the first."""

    title: str
    meaning: str
    values: list[str]
    differences: list[str]
    verdicts: list[int]
    relative: bool

    def percent(self, number: int) -> str:
        """The difference where it is one in per cent: of shares and counts the figures themselves tell enough."""
        return self.differences[number] if self.relative and number else ""


class Group(msgspec.Struct, frozen=True):
    """Rows that answer one question."""

    title: str
    rows: list[Row]


def node_row(measure: Measure[VariantResult], result: RunResult) -> Row:
    """A measure of nodes in each variant."""
    return _row(measure, [measure.read(variant) for variant in result.variants], result.currency)


def row(measure: Measure[Totals], totals: list[Totals], currency: str) -> Row:
    """A measure of the same thing in each variant."""
    return _row(measure, [measure.read(each) for each in totals], currency)


def _row(measure: Measure[Totals] | Measure[VariantResult], values: list[float], currency: str) -> Row:
    return Row(
        measure.titled(currency if measure.unit == MONEY_UNIT else ""),
        measure.meaning,
        [measure.show(value) for value in values],
        [measure.difference(value, values[0]) for value in values],
        [measure.verdict(value, values[0]) for value in values],
        measure.compared is Compared.RELATIVELY,
    )


def scales(result: RunResult) -> bool:
    """Whether the count of pods changes in any variant, and is told of in all."""
    return any(variant.fleet.scaling is not msgspec.UNSET for variant in result.variants)


def compared(result: RunResult, everything: bool) -> list[Group]:
    """The fleet in each variant. What is nought in all of them is left out, if a reader would not miss it."""
    fleets = [variant.fleet for variant in result.variants]
    counts, overload, changes = ((REPLICAS,), (OVERLOAD,), (SCALINGS,)) if scales(result) else ((), (), ())

    def rows(always: tuple[Measure[Totals], ...], more: tuple[Measure[Totals], ...] = ()) -> list[Row]:
        told = [each for each in more if any(each.read(totals) > 0 for totals in fleets)]
        return [row(each, fleets, result.currency) for each in (*always, *told)]

    shown = NODES if everything and not has_nodes(result) else ()
    nodes = [each for each in shown if any(each.read(variant) > 0 for variant in result.variants)]
    cost = rows((*COST, *counts), FOOTPRINTS if everything else ())
    cost += [node_row(each, result) for each in nodes]
    return [
        *_nodes(result, everything),
        Group("Cost", cost),
        Group("Risk", rows((*RISK, *overload), (*SELDOM, *OVERRUNS) if everything else SELDOM)),
        Group("Disruption", rows((*changes, *DISRUPTION), STARTS if everything else ())),
    ]


def _nodes(result: RunResult, everything: bool) -> list[Group]:
    """What nodes cost and how long pods waited for one, where nodes come and go."""
    if not has_nodes(result):
        return []
    more = (
        each
        for each in (*IF_ANY, *(IN_FULL if everything else ()))
        if any(each.read(variant) > 0 for variant in result.variants)
    )
    return [Group("Nodes", [node_row(each, result) for each in (*ALWAYS, *more)])]
