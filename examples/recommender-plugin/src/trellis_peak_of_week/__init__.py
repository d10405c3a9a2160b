"""A recommender that sizes a container by the busiest hour of its last weeks, plus a margin."""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.recommend.protocol import CPU, MEMORY, Estimates, Parameter, ParameterKind, ParameterValues, Rows

HOURS_A_WEEK: Final = 7 * 24
# The measure of an hour: CPU above the request for a minute is a delay, memory above it is a kill.
P95, MAXIMUM = 3, 4
ROWS_AT_ONCE: Final = 1000  # 34 MB


class PeakOfWeek:
    """Sizes by the busiest hour of the last weeks; containers without a full hour by all of their samples."""

    name = "peak-of-week"
    needs_history = True
    parameters = (
        Parameter("weeks", ParameterKind.WHOLE, "How many weeks to look back.", 1, "weeks", 1, 5),
        Parameter("margin", ParameterKind.NUMBER, "Added to the peak, as a fraction of it.", 0.1, "fraction", 0.0, 2.0),
    )

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Estimates for all rows: the peak is the lower bound, 1.5 times the target the upper bound."""
        window = int(values["weeks"]) * HOURS_A_WEEK
        peaks, known = np.full((2, len(rows)), np.nan), np.zeros(len(rows))
        for begin in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            hours = rows.hours(now, some)[..., -window:]
            peaks[CPU, some] = np.fmax.reduce(hours[:, CPU, P95], axis=-1)
            peaks[MEMORY, some] = np.fmax.reduce(hours[:, MEMORY, MAXIMUM], axis=-1)
            known[some] = (~np.isnan(hours[:, CPU, P95])).sum(axis=-1)
        is_new = np.isnan(peaks).all(axis=0)
        ever = np.concatenate([rows.percentiles(CPU, [1.0]), rows.percentiles(MEMORY, [1.0])])
        peaks = np.where(is_new, ever, peaks)
        target = peaks * (1 + float(values["margin"]))
        return Estimates(
            bounds=np.stack([peaks, target, 1.5 * target]),
            confidence=known / window,
            explanation={"from": np.where(is_new, "samples", "hours").tolist(), "hours": known},
        )
