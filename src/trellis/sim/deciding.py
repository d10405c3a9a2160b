"""Who decides what, in one variant? Recommender, updater and admission controller, all of them the core's own.

It watches the model cluster as the live components watch a real one, and hands each of them what it would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Final, TypeVar

import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import InternalError
from trellis.core.model.keys import key_of
from trellis.core.recommend.amounts import CPU, LARGEST, LOWER_BOUND, MILLICORES, TARGET, UPPER_BOUND
from trellis.core.sizing.governors import Governor, readvised, vpa_governor
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.admitting import Admitting
from trellis.sim.cluster.rows import RowTable
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.faults import ADMISSION_DOWN, METRICS_GAP, RECOMMENDER_DOWN, UPDATER_DOWN, Faults, concerns
from trellis.sim.figures import read_figures
from trellis.sim.fleet import Fault, Fleet, Variant
from trellis.sim.kernel import Kernel, Priority
from trellis.sim.policies import read_policies
from trellis.sim.recommending import Names, Published, Recommending
from trellis.sim.updating import Updating, Writes

# What charts show of a recommendation, in their order.
_DRAWN: Final = [TARGET, LOWER_BOUND, UPPER_BOUND]

# Told of containers, each by the number of its workload (-1 for another) and its name, what is recommended now: cores
# and bytes as (target, lower and upper bound; resource; container).
Advised = Callable[[Sequence[tuple[int, str]], FloatColumn], None]
Because = Callable[[str, str, str], None]

K = TypeVar("K", bound=KubeObject)


class Deciding:
    """The components of a variant. `begin` is called once the cluster is there."""

    def __init__(self, fleet: Fleet, variant: Variant, kernel: Kernel, *, advised: Advised, because: Because) -> None:
        figures, policies = read_figures(variant.settings), read_policies(variant.objects, fleet.clock.begin)
        self._fleet = fleet
        self._kernel = kernel
        self._advised = advised
        self._faults = Faults(fleet.faults)
        self._workloads = {
            (each.namespace, each.kind, each.name): number for number, each in enumerate(fleet.workloads)
        }
        self._named_at = -1
        self._named: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: Names = ([], [], [])
        self._governors: dict[tuple[str, str], Governor | None] = {}
        self.decides = bool(policies.vpas)
        """Whether there is anything to decide: without a VPA nobody needs to be told anything."""
        self._admitting = Admitting(policies.limits, figures)
        self._recommending = Recommending(policies.vpas, figures, variant.parameters, self._published)
        self.updating = Updating(kernel, self, figures, because)
        gathering = self.updating.gathering
        for namespace in sorted({each.metadata.namespace for each in policies.limits}):
            gathering.put_limits(namespace, [each for each in policies.limits if each.metadata.namespace == namespace])
        for hpa in policies.hpas:
            gathering.put_hpa(key_of(hpa), None, hpa)
        for vpa in policies.vpas:
            self._govern(vpa, vpa_governor(vpa))

    def begin(self, writes: Writes) -> None:
        """Work from now on, by the fleet's intervals."""
        self.updating.writes = writes
        if self.decides:
            intervals = self._fleet.intervals
            self._every(intervals.recommender, self._recommend, Priority.RECOMMENDER)
            self._every(intervals.updater, self.updating.full_pass, Priority.UPDATER)

    def updates(self) -> bool:
        """Whether the updater runs."""
        return not self._faults.holds(UPDATER_DOWN, self._kernel.now)

    def admits(self) -> bool:
        """Whether the admission controller does."""
        return not self._faults.holds(ADMISSION_DOWN, self._kernel.now)

    def admit(self, pod: Pod) -> Pod:
        """A new pod, as it is stored."""
        return self._admitting.admit(pod) if self.decides and self.admits() else pod

    def measured(self, usage: StepUsage, rows: RowTable) -> None:
        """What containers used in a step. Names are found once, and hold until the rows change."""
        if not self.decides:
            return
        end = usage.time + usage.seconds
        if rows.version != self._named_at or not np.array_equal(usage.rows, self._named):
            self._named_at, self._named, self._names = rows.version, usage.rows, rows.names(usage.rows)
        names, cpu, memory = self._names, usage.used_cpu, usage.used_memory
        gaps = [each for each in self._faults.of(METRICS_GAP) if each.begin <= end < each.end]
        if gaps:
            seen = self._seen(usage.workload, gaps)
            names = tuple(list(compress(each, seen)) for each in names)  # type: ignore[assignment]
            cpu, memory = cpu[seen], memory[seen]
        self._recommending.measured(names, end, cpu, memory)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""
        if not self.decides:
            return
        either = _either(old, new)
        self._recommending.pod(key_of(either), new)
        self.updating.gathering.put_pod(key_of(either), old, new)
        if new is None:
            self.updating.gone(either.metadata.uid)

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller changed."""
        if not self.decides:
            return
        key = key_of(_either(old, new))
        self._admitting.workload(kind, key, new)
        self._recommending.workload(kind, key, old, new)
        self.updating.gathering.put_workload(kind, key, old, new)

    def node(self, old: Node | None, new: Node | None) -> None:
        """A node changed."""
        if self.decides:
            name = _either(old, new).metadata.name
            self._admitting.node(name, new)
            self.updating.gathering.put_node(name, new)

    def event(self, event: Event) -> None:
        """A kubelet evicted a pod."""
        if self.decides:
            self._recommending.event(event)

    def _seen(self, workloads: IntColumn, gaps: Iterable[Fault]) -> BoolColumn:
        """Whose usage is measured in spite of these gaps."""
        seen = [not any(concerns(gap, each.name) for gap in gaps) for each in self._fleet.workloads]
        return np.array(seen, dtype=np.bool_)[workloads]

    def _every(self, seconds: float, do: Callable[[], None], priority: Priority) -> None:
        def again() -> None:
            do()
            self._kernel.after(seconds, again, priority)

        self._kernel.at(self._kernel.now, again, priority)

    def _recommend(self) -> None:
        if self._faults.holds(RECOMMENDER_DOWN, self._kernel.now):
            self._recommending.skip()
        else:
            self._recommending.work(self._kernel.now)

    def _published(self, written: Sequence[Published]) -> None:
        """Statuses are known to whoever reads them as soon as they are written."""
        for vpa, _ in written:
            known = self._governors[key_of(vpa)]
            self._govern(vpa, readvised(known, vpa.status) if known is not None else None)
        amounts = np.concatenate([write.amounts for _, write in written], axis=2)[_DRAWN]
        drawn = np.where(amounts < LARGEST, amounts, np.nan)
        drawn[:, CPU] /= MILLICORES
        owners = [self._target_of(vpa) for vpa, _ in written]
        containers = [
            (owner, name) for owner, (_, write) in zip(owners, written, strict=True) for name in write.containers
        ]
        self._advised(containers, drawn)

    def _target_of(self, vpa: VerticalPodAutoscaler) -> int:
        target = vpa.spec.target_ref
        return self._workloads.get((vpa.metadata.namespace, target.kind, target.name), -1)

    def _govern(self, vpa: VerticalPodAutoscaler, governor: Governor | None) -> None:
        key = key_of(vpa)
        self._governors[key] = governor
        self._admitting.put_governor(vpa.kind, key, governor)
        self.updating.gathering.put_governor(vpa.kind, key, governor, vpa.metadata.annotations)


def _either(old: K | None, new: K | None) -> K:
    found = new if new is not None else old
    if found is None:
        raise InternalError("somebody tells of a change of nothing")
    return found
