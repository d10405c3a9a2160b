"""Totals of a whole workload for its Hvpa, where the status of its VPA has none: sums over the containers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import EffectiveVpa
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import RESOURCES, format_cpu_column, format_memory_column, parse_amounts
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.state.tables import list_recommendations
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.view import RowsView


class HvpaTotals(msgspec.Struct, frozen=True):
    """The need of all replicas together, as quantities; None where a resource's need is unknown."""

    hvpa: Hvpa
    cpu: str | None
    memory: str | None

    @classmethod
    def from_amounts(cls, hvpa: Hvpa, total: FloatColumn) -> HvpaTotals:
        """Totals from millicores and bytes; 0 is unknown."""
        (cpu,), (memory,) = format_cpu_column(total[:1]), format_memory_column(total[1:])
        return cls(hvpa, cpu if total[0] else None, memory if total[1] else None)

    @property
    def needs_write(self) -> bool:
        """Whether the status of the Hvpa has other totals."""
        published = self.hvpa.status.totals if self.hvpa.status else None
        return (
            (published.cpu, published.memory) != (self.cpu, self.memory) if published else bool(self.cpu or self.memory)
        )


class GovernedVpa(msgspec.Struct, frozen=True):
    """A VPA under an Hvpa: which containers it sizes, and its targets where another recommender than ours gives them.

    The targets are millicores and bytes by container, NaN where it recommends nothing of a resource. They are not there
    where our own estimate is the VPA's.
    """

    effective: EffectiveVpa
    targets: Mapping[str, FloatColumn] | None = None


def publishes_totals(vpa: VerticalPodAutoscaler | None) -> bool:
    """Whether the status of a VPA has totals, by any writer."""
    return any(container.total_target for container in list_recommendations(vpa.status if vpa is not None else None))


def read_targets(vpa: VerticalPodAutoscaler | None) -> dict[str, FloatColumn]:
    """The recommendation of a VPA for each container, before its policy caps it."""
    targets: dict[str, FloatColumn] = {}
    for container in list_recommendations(vpa.status if vpa is not None else None):
        amounts = parse_amounts({**(container.target or {}), **(container.uncapped_target or {})})
        targets[container.container_name] = np.array([amounts.get(name, np.nan) for name in RESOURCES])
    return targets


def compute_totals(
    view: RowsView, recommender: Recommender, governed: Mapping[ObjectKey, GovernedVpa], now: float
) -> dict[ObjectKey, FloatColumn]:
    """The need of all replicas together, by VPA: the sum over the containers that are sized.

    Where another recommender serves a VPA, what it judges a pod to need counts, and how much work there is is known to
    our history alone: each container's total is scaled by the VPA's target over our own for the same pods.
    """
    positions = [
        position
        for position, key in enumerate(view.keys)
        if (vpa := governed.get((key.namespace, key.vpa)))
        and view.current[position]
        and vpa.effective.get_container(key.container).is_scaled
    ]
    if not positions:
        return {}
    rows = Rows.from_view(view, np.array(positions, dtype=np.int64), np.ones(len(positions)))
    values = {parameter.name: parameter.default for parameter in recommender.parameters}
    estimates = recommender.estimate(rows, values, now)
    totals = estimates.totals if estimates.totals is not None else np.full((len(RESOURCES), len(positions)), np.nan)
    by_vpa: dict[ObjectKey, FloatColumn] = {}
    for number, position in enumerate(positions):
        key = view.keys[position]
        vpa = governed[key.namespace, key.vpa]
        sums = by_vpa.setdefault((key.namespace, key.vpa), np.zeros(len(RESOURCES)))
        if vpa.targets is None:
            sums += np.nan_to_num(totals[:, number])
        elif (target := vpa.targets.get(key.container)) is not None:
            sums += _scale_total(totals[:, number], target, estimates.target[:, number])
    return {key: np.nan_to_num(sums) for key, sums in by_vpa.items()}


def _scale_total(total: FloatColumn, target: FloatColumn, own_target: FloatColumn) -> FloatColumn:
    """A total by another recommender's judgement of a pod.

    A resource that it does not recommend adds nothing. Of one that it does and of which we know nothing yet, no sum is
    known.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.ceil(total * (target / np.where(own_target > 0, own_target, np.nan)))
    return np.where(np.isnan(target), 0.0, scaled)
