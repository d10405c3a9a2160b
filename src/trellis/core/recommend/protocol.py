"""The recommender protocol: a recommender reads rows of usage and returns estimates in columns, row by row.

This is a complete one. It recommends the highest usage of the last day, and a little more:

    from trellis.core.recommend.protocol import CPU, MEMORY, Estimates, Parameter, ParameterKind, ParameterValues, Rows

    class Highest:
        name = "highest"
        needs_history = False
        parameters = (Parameter("margin", ParameterKind.NUMBER, "Added on top.", 0.1, "fraction", 0.0, 10.0),)

        def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
            more = 1 + float(values["margin"])
            cpu = rows.percentiles(CPU, (0.5, 1.0, 1.0)) * more
            memory = rows.percentiles(MEMORY, (0.5, 1.0, 1.0)) * more
            return Estimates.from_bounds(cpu, memory, {"samples": rows.count.astype(float)})

A recommender serves many VerticalPodAutoscalers at once: it is called once a pass for all that name it with the same
parameters. The rules that it must follow, which `trellis.testing.recommenders` tests:

- It does no I/O, reads no clock (`now` is the time) and no state of the cluster except its rows.
- It changes nothing that it is given.
- It estimates each row as if it were the only one: neither the other rows nor their order matter.
- Called twice in a row it returns the same, and so does another instance. It may keep state from call to call, but a
  process that is started again has none.
- It returns NaN where it has no estimate, instead of guessing. The previous recommendation then stays in force.

Rounding, `minAllowed` and `maxAllowed`, conditions and the decision to write surround every recommender and are no part
of any. A recommender that raises, or returns impossible estimates, holds up its own VPAs and no others.

CPU is in millicores and memory in bytes, as floats that need not be whole. Times are seconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, MILLICORES_PER_CORE, UPPER
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.usage.columns import FloatColumn, IntColumn, RowKey
from trellis.core.usage.history.hourly import CELLS, Peaks
from trellis.core.usage.history.hours import Ring
from trellis.core.usage.history.job_runs import RUNS, RecentRuns
from trellis.core.usage.view import RowsView

# By what it is about: `{"season": ["daily", "weekly"], "score": scores}`.
Explanations: TypeAlias = Mapping[str, FloatColumn | Sequence[str]]

NO_EXPLANATION: Final[Explanations] = {}


LONGEST_EXPLANATION_TEXT: Final = 200  # of a name, and of what a row says


def read_row_explanation(explanation: Explanations, at: int) -> dict[str, float | str]:
    """The explanation of one row, by name."""
    texts: dict[str, float | str] = {}
    for name, column in explanation.items():
        value = column[at]
        texts[name] = value[:LONGEST_EXPLANATION_TEXT] if isinstance(value, str) else float(value)
    return texts


__all__ = [
    "CPU",
    "LOWER",
    "MEMORY",
    "MIDDLE",
    "UPPER",
    "Estimates",
    "Explanations",
    "Parameter",
    "ParameterKind",
    "ParameterValues",
    "Recommender",
    "Rows",
]


class Rows(msgspec.Struct, frozen=True):
    """The input of a recommender: one row for each container of a VPA, in columns of equal length.

    A row is all containers of one name in all pods of a VPA, those of the past included. `containers` is how many
    containers of the row's pod get recommendations, this one included: they share the minimum of a pod. `usage` has the
    histograms themselves, for recommenders that need more than percentiles.
    """

    usage: RowsView
    containers: FloatColumn

    @classmethod
    def from_view(cls, view: RowsView, positions: IntColumn, containers: FloatColumn) -> Rows:
        """The rows at some positions of a view."""
        return cls(view if len(positions) == len(view) else view.select(positions), containers)

    def __len__(self) -> int:
        return len(self.containers)

    @property
    def keys(self) -> Sequence[RowKey]:
        """Namespace, VPA and container of each row."""
        return self.usage.keys

    @property
    def first(self) -> FloatColumn:
        """The time of the first CPU sample; NaN without one."""
        return self.usage.first

    @property
    def last(self) -> FloatColumn:
        """The time of the last CPU sample."""
        return self.usage.last

    @property
    def count(self) -> IntColumn:
        """The number of CPU samples."""
        return self.usage.count

    @property
    def last_oom(self) -> FloatColumn:
        """The time of the last OOM kill; NaN without one."""
        return self.usage.last_oom

    @property
    def started(self) -> FloatColumn:
        """The start time of the newest pod with the container; NaN while there is no pod."""
        return self.usage.started

    @property
    def requests(self) -> FloatColumn:
        """The requests of the container in that pod, (CPU, MEMORY; row); NaN where absent."""
        return self.usage.requests

    def age(self, now: float) -> FloatColumn:
        """The age of that pod in seconds; NaN while there is no pod."""
        return now - self.usage.started

    def percentiles(self, resource: int, fractions: Sequence[float]) -> FloatColumn:
        """Percentiles of the samples, (fraction, row); NaN where there are no samples.

        The histograms behind it forget: what was used a day ago weighs half as much as what is used now. Memory counts
        by its peak of each day, and by what out-of-memory kills showed to be too little. Bins are 5 % wide.
        """
        usage = self.usage
        bank, scale = (usage.cpu, MILLICORES_PER_CORE) if resource == CPU else (usage.memory, 1.0)
        percentiles = bank.percentiles(fractions, usage.rows) * scale
        percentiles[:, bank.is_empty(usage.rows)] = np.nan
        return percentiles

    def hours(self, now: float, positions: IntColumn | slice = slice(None)) -> Ring:
        """The last 35 days hour by hour, (row, resource, measure, hour), oldest first, the running hour left out.

        The measures are those of `trellis.core.usage.history.hours.MEASURES`: mean, p50, p90, p95 and maximum of the
        samples. NaN where usage is unknown, which is everywhere unless the recommender `needs_history`. It takes 34 KB
        a row: read a few thousand `positions` at a time.
        """
        numbers = self.usage.history_rows[positions]
        with_history = numbers >= 0
        summaries = self.usage.history.read_summaries(numbers[with_history], now)
        summaries[:, CPU] *= np.float32(MILLICORES_PER_CORE)
        if with_history.all():
            return summaries
        all_summaries = np.full((len(numbers), *summaries.shape[1:]), np.nan, dtype=np.float32)
        all_summaries[with_history] = summaries
        return all_summaries

    def memory_peaks(self, now: float, positions: IntColumn | slice = slice(None)) -> Peaks:
        """Peaks of memory of the last 280 days, (row, cell), oldest first, in cells of six hours of UTC.

        The last cell is the one that `now` is in, as far as its hours are over. NaN where nothing is known, which is
        everywhere unless the recommender `needs_history`.
        """
        numbers = self.usage.history_rows[positions]
        with_history = numbers >= 0
        peaks = np.full((len(numbers), CELLS), np.nan, dtype=np.float32)
        peaks[with_history] = self.usage.history.read_peaks(numbers[with_history], now)
        return peaks

    def runs(
        self, positions: IntColumn | slice = slice(None), *, longest: float = math.inf, most: int = RUNS
    ) -> RecentRuns:
        """The newest runs of each row, from their start on, running ones included; at most twelve.

        Runs that lasted for more than `longest` seconds are skipped. There are none unless the recommender has an
        attribute `needs_runs` that is true. It takes 18 KB a row: read a few thousand `positions` at a time.
        """
        numbers = self.usage.run_rows[positions]
        with_runs = np.flatnonzero(numbers >= 0)
        known_runs = self.usage.runs.read_recent(numbers[with_runs], longest, most)
        known_runs.values[:, :, CPU] *= np.float32(MILLICORES_PER_CORE)
        if len(with_runs) == len(numbers):
            return known_runs
        all_runs = RecentRuns(
            begin=np.full((len(numbers), most), np.nan),
            last=np.full((len(numbers), most), np.nan),
            width=np.full(len(numbers), np.nan),
            values=np.full((len(numbers), *known_runs.values.shape[1:]), np.nan, dtype=np.float32),
        )
        all_runs.begin[with_runs], all_runs.last[with_runs], all_runs.width[with_runs] = (
            known_runs.begin,
            known_runs.last,
            known_runs.width,
        )
        all_runs.values[with_runs] = known_runs.values
        return all_runs


class Estimates(msgspec.Struct, frozen=True):
    """Estimates: `bounds` has the axes (LOWER, MIDDLE, UPPER; CPU, MEMORY; row), in millicores and bytes.

    MIDDLE is the target, what a container should request. A pod whose request is between LOWER and UPPER is left alone.
    Per row and resource all three are amounts, in this order and none of them negative, or all three are NaN for "I
    cannot say": what was recommended before stays.

    `totals`, (CPU, MEMORY; row), is for all replicas together, of rows that keep such a history. `confidence` says per
    row how far the history reaches: 1 and more is enough, less is the condition LowConfidence. `explanation` says why,
    in columns of the same length as the others: numbers, or texts of a word or two. It is for machines as much as for
    people, so name columns as you would name fields, and use few different texts.
    """

    bounds: FloatColumn
    totals: FloatColumn | None = None
    confidence: FloatColumn | None = None
    explanation: Explanations = NO_EXPLANATION

    @classmethod
    def from_bounds(
        cls, cpu: FloatColumn, memory: FloatColumn, explanation: Explanations = NO_EXPLANATION
    ) -> Estimates:
        """Estimates from the lower bound, target and upper bound of each resource, as (3, rows)."""
        bounds = np.empty((3, 2, cpu.shape[-1]))
        bounds[:, CPU], bounds[:, MEMORY] = cpu, memory
        return cls(bounds, explanation=explanation)

    @property
    def lower(self) -> FloatColumn:
        """A running pod with less is too small, (CPU, MEMORY; row)."""
        lower: FloatColumn = self.bounds[LOWER]
        return lower

    @property
    def target(self) -> FloatColumn:
        """The recommended requests."""
        target: FloatColumn = self.bounds[MIDDLE]
        return target

    @property
    def upper(self) -> FloatColumn:
        """A running pod with more is too large."""
        upper: FloatColumn = self.bounds[UPPER]
        return upper


class Recommender(Protocol):
    """The protocol. The first three members may be plain attributes.

    A fourth, `needs_runs`, is optional. Where it is true, `rows.runs` has the last runs of all served rows.
    """

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def needs_history(self) -> bool:
        """Whether `rows.hours` is read: hourly summaries of all served rows are then recorded."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, set for all VPAs with `--set` and for one VPA in `spec.recommenders[].parameters`.

        A declaration has type, unit, range, default and meaning. Values are read and checked by it before they get
        here, so that `estimate` finds a sound value under every declared name.
        """

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """The recommendation for every row, from a value for each declared parameter."""
