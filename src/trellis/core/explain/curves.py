"""What did a container use? Some numbers to draw, from the best that is known: series, hours, or a histogram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Curve
from trellis.core.explain.wording import amount_text, time_text
from trellis.core.model.dump_lines import History
from trellis.core.recommend.amounts import MILLICORES, RESOURCES
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.hours import HOUR, MAXIMUM

SERIES: Final = "series"
HOURS: Final = "hours"
HISTOGRAM: Final = "histogram"

# As many as fit a line of a terminal, with the name and the ends beside them.
_POINTS: Final = 48
_IN_MILLI: Final = (MILLICORES, 1.0)


def curves_of(evidence: Evidence, row: int, pods: frozenset[str]) -> Iterator[Curve]:
    """Of both resources of a row, by its position in the view; `pods` are those that feed it."""
    key = evidence.recommended.view.keys[row]
    found = [
        each
        for each in evidence.collected.history
        if (each.namespace, each.container) == (key.namespace, key.container) and each.pod in pods and len(each)
    ]
    for which in range(len(RESOURCES)):
        curve = _series(found, which) or _hours(evidence, row, which) or _histogram(evidence, row, which)
        if curve is not None:
            yield curve


def _series(found: Sequence[History], which: int) -> Curve | None:
    """The highest of all pods in each part of the time."""
    if not found:
        return None
    times = np.concatenate([each.times for each in found])
    values = np.concatenate([each.memory if which else each.cpu for each in found])
    known = np.isfinite(values) & np.isfinite(times)
    if not known.any():
        return None
    return _over_time(times[known], values[known], which, SERIES)


def _hours(evidence: Evidence, row: int, which: int) -> Curve | None:
    """The highest of each hour, as far as hours are kept."""
    view = evidence.recommended.view
    number = int(view.history_rows[row])
    if number < 0:
        return None
    rings = view.history.summaries(np.array([number]), evidence.now)[0, which, MAXIMUM].astype(np.float64)
    known = np.flatnonzero(np.isfinite(rings))
    if not len(known):
        return None
    last = (evidence.now // HOUR - 1) * HOUR
    times = np.asarray(last - (len(rings) - 1 - known) * HOUR, dtype=np.float64)
    return _over_time(times, rings[known], which, HOURS)


def _over_time(times: FloatColumn, values: FloatColumn, which: int, source: str) -> Curve:
    first, last = float(times.min()), float(times.max())
    width = (last - first) / _POINTS or 1.0
    part = np.minimum(((times - first) / width).astype(np.int64), _POINTS - 1)
    highest = np.full(int(part.max()) + 1, -np.inf)
    np.maximum.at(highest, part, values)
    return Curve(
        RESOURCES[which],
        source,
        tuple(float(value) if np.isfinite(value) else None for value in highest),
        *_ends(values, which),
        time_text(first),
        time_text(last),
    )


def _histogram(evidence: Evidence, row: int, which: int) -> Curve | None:
    """How much of the samples' weight lies where, between the lowest and the highest bucket that has any."""
    view = evidence.recommended.view
    bank = view.memory if which else view.cpu
    at = view.rows[row : row + 1]
    if bank.empty(at)[0]:
        return None
    weights = bank.weights(at)[:, 0]
    used = np.flatnonzero(weights > 0)
    starts = bank.layout.starts
    weight = weights[used[0] : used[-1] + 1]
    # A bucket is 5 % wider than the one before it, so that a few of them make up most parts.
    parts = np.array_split(weight, min(_POINTS, len(weight)))
    return Curve(
        RESOURCES[which],
        HISTOGRAM,
        tuple(float(part.sum() / weights.sum()) for part in parts),
        *_ends(np.array([starts[used[0]], starts[used[-1] + 1]]), which),
    )


def _ends(values: FloatColumn, which: int) -> tuple[str, str]:
    ends = (float(values.min()) * _IN_MILLI[which], float(values.max()) * _IN_MILLI[which])
    least, most = (amount_text(RESOURCES[which], end) for end in ends)
    return least, most
