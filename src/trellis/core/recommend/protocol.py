"""What is a recommender? Something that is given rows of usage and answers in columns, row by row.

It does no I/O, reads no clock and sees nothing of the cluster but its rows. A recommender serves many
VerticalPodAutoscalers at once: those that name it with the same parameters are asked about together.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, UPPER
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.view import RowsView

_ROW_COLUMNS = ("rows", "vpas", "first", "last", "count", "last_oom", "current", "total_rows", "history_rows")


class Rows(msgspec.Struct, frozen=True):
    """What a recommender is asked about: one row per container, all of whose columns are equally long.

    `usage` has the histograms, the span and number of samples, the last out-of-memory kill and, where the recommender
    needs it, the history. `containers` is how many containers of the row's pod are recommended for, this one included:
    what a pod is to have at least is shared among so many.
    """

    usage: RowsView
    containers: FloatColumn

    @classmethod
    def of(cls, view: RowsView, positions: IntColumn, containers: FloatColumn) -> Rows:
        """Some rows of a view."""
        if len(positions) == len(view):
            return cls(view, containers)
        part = {name: getattr(view, name)[positions] for name in _ROW_COLUMNS}
        keys = [view.keys[position] for position in positions.tolist()]
        return cls(msgspec.structs.replace(view, keys=keys, **part), containers)

    def __len__(self) -> int:
        return len(self.containers)


class Estimates(msgspec.Struct, frozen=True):
    """The answer: `bounds` has the axes (LOWER, MIDDLE, UPPER; CPU, MEMORY; row), in millicores and bytes.

    NaN in all three of a resource is "I cannot say": what was recommended before stays. `totals`, (CPU, MEMORY; row),
    is for all replicas together, of rows that keep such a history. `confidence` says per row how far the history
    reaches: 1 and more is enough.
    """

    bounds: FloatColumn
    totals: FloatColumn | None = None
    confidence: FloatColumn | None = None

    @classmethod
    def of(cls, cpu: FloatColumn, memory: FloatColumn) -> Estimates:
        """From the lower bound, target and upper bound of each resource, as (3, rows)."""
        bounds = np.empty((3, 2, cpu.shape[-1]))
        bounds[:, CPU], bounds[:, MEMORY] = cpu, memory
        return cls(bounds)

    @property
    def lower(self) -> FloatColumn:
        """Below this a running pod is too small, (CPU, MEMORY; row)."""
        found: FloatColumn = self.bounds[LOWER]
        return found

    @property
    def target(self) -> FloatColumn:
        """What a container should request."""
        found: FloatColumn = self.bounds[MIDDLE]
        return found

    @property
    def upper(self) -> FloatColumn:
        """Above this a running pod is too large."""
        found: FloatColumn = self.bounds[UPPER]
        return found


class Recommender(Protocol):
    """What the pipeline asks. `needs_history` has the usage model keep hourly summaries of the rows it serves."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def needs_history(self) -> bool:
        """Whether `rows.usage` must have the history."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What a VerticalPodAutoscaler may set; the defaults are those of this instance."""

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """The recommendation for every row, from a value for each declared parameter."""
