"""What does an Hvpa learn of the whole workload where the VPA is the user's? Totals of its containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from trellis.api.hvpa import Hvpa
from trellis.core.model.keys import Key
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.quantity_column import cpu_texts, memory_texts
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.view import RowsView


class HvpaTotals(msgspec.Struct, frozen=True):
    """What all replicas together need, as quantities; None where nothing is known of a resource."""

    hvpa: Hvpa
    cpu: str | None
    memory: str | None

    @classmethod
    def of(cls, hvpa: Hvpa, total: FloatColumn) -> HvpaTotals:
        """From millicores and bytes; what is nothing is not known."""
        (cpu,), (memory,) = cpu_texts(total[:1]), memory_texts(total[1:])
        return cls(hvpa, cpu if total[0] else None, memory if total[1] else None)

    @property
    def differs(self) -> bool:
        """Whether the status says something else."""
        known = self.hvpa.status.totals if self.hvpa.status else None
        return (known.cpu, known.memory) != (self.cpu, self.memory) if known else bool(self.cpu or self.memory)


def totals_of(
    view: RowsView, recommender: Recommender, sized: Mapping[Key, Callable[[str], bool]], now: float
) -> dict[Key, FloatColumn]:
    """What all replicas together need, of VPAs by namespace and name: the sum over the containers that are sized."""
    chosen = [
        at
        for at, key in enumerate(view.keys)
        if (is_sized := sized.get((key.namespace, key.vpa))) and view.current[at] and is_sized(key.container)
    ]
    if not chosen:
        return {}
    rows = Rows.of(view, np.array(chosen, dtype=np.int64), np.ones(len(chosen)))
    values = {parameter.name: parameter.default for parameter in recommender.parameters}
    totals = recommender.estimate(rows, values, now).totals
    found: dict[Key, FloatColumn] = {}
    for number, at in enumerate(chosen):
        key = view.keys[at]
        sums = found.setdefault((key.namespace, key.vpa), np.zeros(2))
        if totals is not None:
            sums += np.nan_to_num(totals[:, number])
    return found
