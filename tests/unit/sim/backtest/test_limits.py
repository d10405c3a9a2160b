"""Limits of a backtest: variants that exceed them, and limits that nothing is compared by."""

from __future__ import annotations

import math

import msgspec
import pytest

from trellis.sim.backtest.limits import find_exceeded, find_uncompared
from trellis.sim.backtest.results import BacktestResult, OverallScore, ResourceScore, VariantScore

MEMORY = OverallScore(3, ResourceScore(kills=0.0, footprint=1.2), 1.0, math.nan, math.nan, math.nan, 0.0)


def variant(name: str, memory: OverallScore | None, **figures: float) -> VariantScore:
    scored = memory and msgspec.structs.replace(memory, figures=msgspec.structs.replace(memory.figures, **figures))
    return VariantScore(name, name, {}, None, scored)


def result(*variants: VariantScore) -> BacktestResult:
    return BacktestResult([], [], list(variants), [], [], [], 3600.0, 0.0, 0.05)


@pytest.mark.parametrize(("kills", "lines"), [(0.0, 0), (2.0, 1)])
def test_any_kill_exceeds_a_limit_if_the_first_variant_has_none(kills: float, lines: int) -> None:
    backtest = result(variant("default", MEMORY), variant("tight", MEMORY, kills=kills))
    assert len(list(find_exceeded(backtest, {"kills": 1.5}))) == lines
    assert list(find_uncompared(backtest, {"kills": 1.5})) == []


def test_a_measure_without_scores_is_reported() -> None:
    backtest = result(variant("default", None), variant("tight", None))
    (line,) = find_uncompared(backtest, {"kills": 1.5})
    assert line.startswith("nothing was scored for kills")
    assert list(find_uncompared(backtest, {})) == []
