"""Tables of the quality of sizing: a line per recommender, relative to the default unless a column says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.core.recommend.evaluation.margin_curves import MarginCurve
from trellis.core.recommend.evaluation.scores import SizingScores
from trellis.core.usage.columns import FloatColumn

_CPU = (
    *("recommender", "target/usage", "time over", "footprint", "time over", "volume", "changes/day"),
    *("at its time over: footprint", "volume", "and its volume", "at its footprint: time over", "volume", "worse"),
)
_MEMORY = ("recommender", "target/usage", "kills/week", "footprint", "kills", "changes/day")


def cpu_table(curves: Sequence[MarginCurve]) -> str:
    """Every recommender on one slice. `its` is the default's."""
    lines: list[tuple[str, ...]] = [_CPU]
    for curve in curves:
        shipped, equal, safe, large = curve.shipped, curve.at_time_over, curve.at_risk, curve.at_footprint
        usual = len(curve.footprint) // 2
        numbers = (
            (shipped.footprint, shipped.time_over, shipped.overrun),
            (equal.footprint, equal.overrun, safe.footprint, large.time_over, large.overrun),
        )
        first, second = ([f"{number:.3f}" for number in part] for part in numbers)
        absolute = (f"{curve.shown_footprint[usual]:.2f}", f"{curve.shown_time_over[usual]:.2%}")
        lines.append((curve.name, *absolute, *first, f"{curve.changes:.1f}", *second, f"{curve.worse:.1%}"))
    return aligned(lines)


def memory_table(memory: Mapping[str, SizingScores], worth: FloatColumn) -> str:
    """Every recommender on all series that have memory."""
    lines: list[tuple[str, ...]] = [_MEMORY]
    for name, scores in memory.items():
        footprint, kills = against_default(scores, next(iter(memory.values())), worth)
        absolute = np.exp(_mean(np.log(scores.footprint), worth)), 7 * _mean(scores.kills, worth * scores.days)
        shown = (f"{absolute[0]:.2f}", f"{absolute[1]:.3f}", f"{footprint:.3f}", f"{kills:.3f}")
        lines.append((name, *shown, f"{_mean(scores.changes, worth):.2f}"))
    return aligned(lines)


def against_default(scores: SizingScores, default: SizingScores, worth: FloatColumn) -> tuple[float, float]:
    """The geometric mean of clipped footprints, and the ratio of all kills."""
    ratio = np.clip(scores.footprint / default.footprint, 0.5, 2.0)
    kills, usual = _mean(scores.kills, worth * scores.days), _mean(default.kills, worth * default.days)
    # Where nothing is killed under the default, anything that is killed is too much.
    against = kills / usual if usual else np.inf if kills else 1.0
    return float(np.exp(_mean(np.log(ratio), worth))), against


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Texts in columns; the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _mean(values: FloatColumn, worth: FloatColumn) -> float:
    counted = worth > 0
    return float(values[counted] @ worth[counted] / worth[counted].sum()) if counted.any() else float("nan")
