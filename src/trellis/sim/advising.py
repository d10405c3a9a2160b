"""What of recommendations do charts show? That of the VPA, and where an Hvpa decides, the size that it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from trellis.core.model.owners import TargetRef
from trellis.core.recommend.amounts import CPU, LARGEST, LOWER_BOUND, MILLICORES, RESOURCES, TARGET, UPPER_BOUND
from trellis.core.sizing.governors import Governor
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import Fleet
from trellis.sim.recommending import Published

# What charts show of a recommendation, in their order.
_DRAWN: Final = [TARGET, LOWER_BOUND, UPPER_BOUND]

# Told of containers, each by the number of its workload (-1 for another) and its name, what is recommended now: cores
# and bytes as (target, lower and upper bound; resource; container).
Advised = Callable[[Sequence[tuple[int, str]], FloatColumn], None]


class Advising:
    """Tells what is recommended. `sized` says whether an Hvpa decides about a workload."""

    def __init__(self, fleet: Fleet, advised: Advised, sized: Callable[[tuple[str, str, str]], bool]) -> None:
        self._advised = advised
        self._sized = sized
        self._workloads = {
            (each.namespace, each.kind, each.name): number for number, each in enumerate(fleet.workloads)
        }

    def vpas(self, written: Sequence[Published]) -> None:
        """VPAs recommend something else."""
        amounts = np.concatenate([write.amounts for _, write in written], axis=2)[_DRAWN]
        drawn = np.where(amounts < LARGEST, amounts, np.nan)
        drawn[:, CPU] /= MILLICORES
        containers: list[tuple[int, str]] = []
        for vpa, write in written:
            target = vpa.spec.target_ref
            workload = (vpa.metadata.namespace, target.kind, target.name)
            number = -1 if self._sized(workload) else self._workloads.get(workload, -1)
            containers += [(number, name) for name in write.containers]
        self._advised(containers, drawn)

    def hvpa(self, governor: Governor) -> None:
        """An Hvpa says another size. It has no range: what is worth a change is decided with it."""
        target: TargetRef = governor.claim.target
        number = self._workloads.get((target.namespace, target.kind, target.name), -1)
        sizes = [[each.target.get(name, np.nan) for each in governor.advice] for name in RESOURCES]
        amounts = np.array(sizes, dtype=np.float64)
        amounts[CPU] /= MILLICORES
        self._advised([(number, each.container) for each in governor.advice], np.stack([amounts] * len(_DRAWN)))
