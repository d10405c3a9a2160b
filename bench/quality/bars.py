"""The promised quality: what each recommender must reach against the default, and whether it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.measurement import Row
from bench.quality.tables import against_default
from trellis.core.recommend.evaluation.margin_curves import MarginCurve
from trellis.core.recommend.evaluation.scores import SizingScores
from trellis.core.usage.columns import FloatColumn

_CYCLIC = "daily or weekly"
_KILLS, _MEMORY_FOOTPRINT = 0.4, 1.12


def build_cpu_rows(curves: Mapping[str, Sequence[MarginCurve]]) -> list[Row]:
    """Those of CPU, for the recommenders that were replayed."""
    by_name = {(title, curve.name): curve for title, listed in curves.items() for curve in listed}
    rows: list[Row] = []
    if cyclic := by_name.get((_CYCLIC, "seasonal")):
        rows += _seasonal(cyclic)
    if overall := by_name.get(("all", "adaptive")):
        rows += _adaptive(overall)
    if random := by_name.get(("random", "adaptive")):
        rows += _random(random)
    return rows


def build_memory_rows(memory: Mapping[str, SizingScores], worth: FloatColumn) -> list[Row]:
    """Those of memory."""
    if "adaptive" not in memory or not (worth > 0).any():
        return []
    footprint, kills = against_default(memory["adaptive"], memory["default"], worth)
    return [
        _at_most("adaptive, memory: footprint", footprint, _MEMORY_FOOTPRINT),
        _at_most("adaptive, memory: out-of-memory kills", kills, _KILLS),
    ]


def _seasonal(curve: MarginCurve) -> Iterator[Row]:
    title = f"seasonal, {_CYCLIC}"
    equal, large, shipped = curve.at_time_over, curve.at_footprint, curve.shipped
    yield _at_most(f"{title}, at default's time over: footprint", equal.footprint, 0.85)
    yield _at_most(f"{title}, at default's time over: volume", equal.overrun, 1.0)
    yield _at_most(f"{title}, at default's footprint: time over", large.time_over, 1 / 3)
    yield _at_most(f"{title}, at default's footprint: volume", large.overrun, 0.4)
    yield _at_most(f"{title}, as shipped: footprint", shipped.footprint, 0.93)
    yield _at_most(f"{title}, as shipped: time over", shipped.time_over, 0.6)
    yield _at_most(f"{title}, as shipped: volume", shipped.overrun, 0.6)
    yield _at_most(f"{title}, as shipped: changes a day", curve.changes, 12)


def _adaptive(curve: MarginCurve) -> Iterator[Row]:
    shipped = curve.shipped
    yield _at_most("adaptive, all, as shipped: footprint", shipped.footprint, 0.97)
    yield _at_most("adaptive, all, as shipped: time over", shipped.time_over, 0.8)
    yield _at_most("adaptive, all, as shipped: volume", shipped.overrun, 0.9)
    yield _at_most("adaptive, all, as shipped: changes a day", curve.changes, 8)
    yield _at_most("adaptive, all, at default's time over and volume: footprint", curve.at_risk.footprint, 0.93)
    yield _at_most("adaptive, all, series that are worse in both", curve.worse, 0.05)


def _random(curve: MarginCurve) -> Iterator[Row]:
    yield _at_most("adaptive, random, as shipped: footprint", curve.shipped.footprint, 1.0)
    yield _at_most("adaptive, random, as shipped: time over", curve.shipped.time_over, 0.9)


def _at_most(title: str, measured: float, bar: float) -> Row:
    return Row(title, f"{measured:.3f}", bar=f"<= {bar:.3g}", met=measured <= bar)
