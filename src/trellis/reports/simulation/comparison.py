"""Compares the variants of a simulation: every measure of the fleet, side by side and against the first."""

from __future__ import annotations

import msgspec

from trellis.reports.measures import ComparisonMode, Measure
from trellis.reports.simulation.measures import (
    ALWAYS,
    COST,
    DISRUPTION,
    FOOTPRINTS,
    IF_ANY,
    IN_FULL,
    MONEY_UNIT,
    NODES,
    OVERLOAD,
    OVERRUNS,
    REPLICAS,
    RISK,
    SCALINGS,
    SELDOM,
    STARTS,
    has_nodes,
)
from trellis.sim.results import RunResult, SimulationTotals, VariantResult


class MeasureRow(msgspec.Struct, frozen=True):
    """One measure in all variants, ready to be shown; differences and improvements are against the first."""

    title: str
    meaning: str
    values: list[str]
    differences: list[str]
    improvements: list[int]
    relative: bool

    def percent(self, number: int) -> str:
        """The difference in percent; empty for shares and counts, whose figures are enough."""
        return self.differences[number] if self.relative and number else ""


class MeasureGroup(msgspec.Struct, frozen=True):
    """Rows that answer one question."""

    title: str
    rows: list[MeasureRow]


def build_node_row(measure: Measure[VariantResult], result: RunResult) -> MeasureRow:
    """A measure of nodes in each variant."""
    return _build_row(measure, [measure.read(variant) for variant in result.variants], result.currency)


def build_row(measure: Measure[SimulationTotals], totals: list[SimulationTotals], currency: str) -> MeasureRow:
    """A measure of the same thing in each variant."""
    return _build_row(measure, [measure.read(variant_totals) for variant_totals in totals], currency)


def _build_row(
    measure: Measure[SimulationTotals] | Measure[VariantResult], values: list[float], currency: str
) -> MeasureRow:
    return MeasureRow(
        measure.format_title(currency if measure.unit == MONEY_UNIT else ""),
        measure.meaning,
        [measure.show(value) for value in values],
        [measure.format_difference(value, values[0]) for value in values],
        [measure.compare(value, values[0]) for value in values],
        measure.compared is ComparisonMode.RELATIVELY,
    )


def has_scaling(result: RunResult) -> bool:
    """Whether the count of pods changes in any variant; the report then has it for all variants."""
    return any(variant.fleet.scaling is not msgspec.UNSET for variant in result.variants)


def compare_variants(result: RunResult, include_all: bool) -> list[MeasureGroup]:
    """The fleet in each variant. What is nought in all of them is left out, if a reader would not miss it."""
    fleets = [variant.fleet for variant in result.variants]
    counts, overload, changes = ((REPLICAS,), (OVERLOAD,), (SCALINGS,)) if has_scaling(result) else ((), (), ())

    def rows(
        always: tuple[Measure[SimulationTotals], ...], more: tuple[Measure[SimulationTotals], ...] = ()
    ) -> list[MeasureRow]:
        nonzero = [measure for measure in more if any(measure.read(totals) > 0 for totals in fleets)]
        return [build_row(measure, fleets, result.currency) for measure in (*always, *nonzero)]

    shown = NODES if include_all and not has_nodes(result) else ()
    nodes = [measure for measure in shown if any(measure.read(variant) > 0 for variant in result.variants)]
    cost = rows((*COST, *counts), FOOTPRINTS if include_all else ())
    cost += [build_node_row(measure, result) for measure in nodes]
    return [
        *_compare_nodes(result, include_all),
        MeasureGroup("Cost", cost),
        MeasureGroup("Risk", rows((*RISK, *overload), (*SELDOM, *OVERRUNS) if include_all else SELDOM)),
        MeasureGroup("Disruption", rows((*changes, *DISRUPTION), STARTS if include_all else ())),
    ]


def _compare_nodes(result: RunResult, everything: bool) -> list[MeasureGroup]:
    """What nodes cost and how long pods waited for one, where nodes come and go."""
    if not has_nodes(result):
        return []
    more = (
        measure
        for measure in (*IF_ANY, *(IN_FULL if everything else ()))
        if any(measure.read(variant) > 0 for variant in result.variants)
    )
    return [MeasureGroup("Nodes", [build_node_row(measure, result) for measure in (*ALWAYS, *more)])]
