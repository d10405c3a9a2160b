"""How many cores were used, where a column counts seconds of CPU? The rate since the row before, as Prometheus has it.

A counter that falls has begun anew with its container, and all that it says since then was used. The first row of a
series has no rate and is left out.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from trellis.core.usage.columns import FloatColumn
from trellis.sources.series.checks import Origin


def with_rates(
    origin: Origin, times: FloatColumn, seconds: FloatColumn, memory: FloatColumn
) -> tuple[Origin, tuple[FloatColumn, FloatColumn, FloatColumn]]:
    """A series from its second row on, with cores instead of seconds; as it is, if its times cannot be used."""
    if len(times) < 2 or not (np.diff(times) > 0).all():
        return origin, (times, seconds, memory)
    return replace(origin, rows=origin.rows[1:]), (times[1:], _rates(times, seconds)[1:], memory[1:])


def _rates(times: FloatColumn, seconds: FloatColumn) -> FloatColumn:
    """Since the last row that says something."""
    known = np.flatnonzero(~np.isnan(seconds))
    with np.errstate(invalid="ignore"):  # what is infinite is refused with its row
        used = np.diff(seconds[known])
    used = np.where(used < 0, seconds[known][1:], used)
    rates = np.full(len(seconds), np.nan)
    rates[known[1:]] = used / np.diff(times[known])
    return rates
