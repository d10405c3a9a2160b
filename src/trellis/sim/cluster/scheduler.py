"""The scheduler of the model cluster, with preemption.

Pods wait in the order of their priority, then of their creation; those of DaemonSets go before others of their
priority, because the estimate of how many pods a new node takes counts on them. `core.fit` finds the nodes on which a
pod fits; of these the one with the largest share left free is taken. Nodes with `PreferNoSchedule` taints come after
others, by the scores and weights of the plug-ins TaintToleration and NodeResourcesFit. Affinity and spread between pods
count. A pod that fits nowhere waits until capacity appears, and how long is counted.

Where nodes can be ordered, more is modelled: pods that wait are marked unschedulable, and pods of lower priority are
preempted, on the node where the least important have to go, and the fewest of those. They end as pods do, and until
they have, their capacity is nominated to the pod that preempted them: none of lower priority gets it. Disruption
budgets are not considered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from trellis.api.kube.placement import Toleration
from trellis.core.fit import Demand, find_fitting_nodes
from trellis.core.fit.constraints.taints import count_intolerable_soft_taints
from trellis.core.fit.filters import find_eligible_nodes
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod
from trellis.core.usage.columns import BoolColumn, FloatColumn
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import with_nominated_node, with_unschedulable
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent
from trellis.sim.kernel import Priority, Ticket


class Preemption:
    """Preempts pods for others. `count` is how many were preempted."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._nominations: dict[tuple[str, str], tuple[ModelPod, int, Demand]] = {}
        self._lowest = min((template.spec.priority or 0 for template in state.templates), default=0)
        self.count = 0

    @contextmanager
    def nominated(self, model_pod: ModelPod) -> Iterator[None]:
        """Count the capacity that is nominated to pods before this one as taken."""
        before = [
            (node, demand)
            for other, node, demand in self._live_nominations()
            if other is not model_pod and other.priority >= model_pod.priority
        ]
        with self._with_changes(added=before):
            yield

    def preempt(self, model_pod: ModelPod, demand: Demand) -> None:
        """Preempt pods, if that helps the pod and it has no nominated node already."""
        if any(other is model_pod for other, _, _ in self._live_nominations()):
            return
        self._nominations.pop(model_pod.key, None)
        if model_pod.priority <= self._lowest:
            return
        options = (self._find_victims(model_pod, demand, number) for number in self._candidate_nodes(model_pod, demand))
        best = min((option for option in options if option is not None), key=lambda option: option[0], default=None)
        if best is None:
            self._state.put(model_pod, with_nominated_node(model_pod.pod, ""))
            return
        _, number, victims = best
        self._nominations[model_pod.key] = (model_pod, number, demand)
        self._state.put(model_pod, with_nominated_node(model_pod.pod, self._state.nodes.objects[number].metadata.name))
        for victim in victims:
            self.count += 1
            self._state.report(victim, PodEvent.PREEMPTED)
            self._lifecycle.delete(victim)

    def _live_nominations(self) -> list[tuple[ModelPod, int, Demand]]:
        """The nominations that still hold: the pod waits, and a pod on its node is terminating."""
        state = self._state
        self._nominations = {
            key: nomination
            for key, nomination in self._nominations.items()
            if state.pods.get(key) is nomination[0]
            and nomination[0].node < 0
            and not nomination[0].terminating
            and any(other.terminating for other in state.nodes.pods.get(nomination[1], {}).values())
        }
        return list(self._nominations.values())

    def _candidate_nodes(self, model_pod: ModelPod, demand: Demand) -> Iterator[int]:
        """The nodes on which a pod could be preempted."""
        nodes = self._state.nodes
        allowed = find_eligible_nodes(nodes.table, demand)
        for number, pods in nodes.pods.items():
            if allowed[number] and any(pod.terminating or pod.priority < model_pod.priority for pod in pods.values()):
                yield number

    def _find_victims(
        self, model_pod: ModelPod, demand: Demand, number: int
    ) -> tuple[tuple[int, int, int], int, list[ModelPod]] | None:
        """The victims on a node, and how bad their preemption is; None if it does not help."""
        pods = list(self._state.nodes.pods[number].values())
        terminating = [pod for pod in pods if pod.terminating]
        lower = [pod for pod in pods if not pod.terminating and pod.priority < model_pod.priority]
        nominated_demands = [
            (node, nominated_demand)
            for other, node, nominated_demand in self._live_nominations()
            if node == number and other.priority >= model_pod.priority
        ]
        with self._with_changes(added=nominated_demands, removed=terminating):
            with self._with_changes(removed=lower):
                if not self._fits(demand, number):
                    return None
            victims = list(lower)
            # Pods that can stay do: the most important first, then those that have been there longest.
            for pod in sorted(lower, key=lambda pod: (-pod.priority, pod.placed_at, pod.key)):
                rest = [other for other in victims if other is not pod]
                with self._with_changes(removed=rest):
                    if self._fits(demand, number):
                        victims = rest
        worst = max((victim.priority for victim in victims), default=self._lowest - 1)
        return (worst, len(victims), number), number, victims

    def _fits(self, demand: Demand, number: int) -> bool:
        nodes = self._state.nodes
        return bool(find_fitting_nodes(nodes.table, demand, nodes.occupancy, nodes.existing_pods)[number])

    @contextmanager
    def _with_changes(
        self, added: Iterable[tuple[int, Demand]] = (), removed: Iterable[ModelPod] = ()
    ) -> Iterator[None]:
        """Add and remove some pods for a moment."""
        more, fewer = list(added), list(removed)
        self._move(more, fewer, 1)
        try:
            yield
        finally:
            self._move(more, fewer, -1)

    def _move(self, added: list[tuple[int, Demand]], removed: list[ModelPod], times: int) -> None:
        used, existing_pods = self._state.nodes.occupancy, self._state.nodes.existing_pods
        for number, demand in added:
            used.add(number, demand, times)
            if existing_pods is not None:
                existing_pods.add(number, demand.profile, times)
        for pod in removed:
            if pod.occupied is not None:
                used.add(pod.node, pod.occupied, -times)
            if existing_pods is not None and pod.profile is not None:
                existing_pods.add(pod.node, pod.profile, -times)


# The plug-in TaintToleration has the weight 3. NodeResourcesFit has 1, and averages the two resources summed here.
_TAINT_WEIGHT: Final = 6.0

Bind: TypeAlias = Callable[[ModelPod, int], None]


class Scheduler:
    """Places pods. `bind` is the kubelet's part: what follows when a pod has its node.

    Without a `preemption` none is preempted.
    """

    def __init__(self, state: ModelState, bind: Bind, preemption: Preemption | None) -> None:
        self._state = state
        self._marks_unschedulable = bool(state.fleet.pools)
        self._bind = bind
        self._preemption = preemption
        self._waiting: list[tuple[int, bool, int, ModelPod]] = []
        self._order = count()
        self._ticket: Ticket | None = None

    @property
    def waiting(self) -> list[ModelPod]:
        """The pods without a node, in no order."""
        return [model_pod for *_, model_pod in self._waiting if self._is_pending(model_pod)]

    def enqueue(self, model_pod: ModelPod) -> None:
        """Add a new pod to the queue."""
        heapq.heappush(
            self._waiting,
            (-model_pod.priority, not is_daemon_or_mirror_pod(model_pod.pod), next(self._order), model_pod),
        )
        self.kick_scheduler()

    def kick_scheduler(self) -> None:
        """Schedule a pass: something has changed."""
        if self._waiting and (self._ticket is None or not self._ticket.is_pending):
            self._ticket = self._state.kernel.after(0.0, self._pass, Priority.SCHEDULER)

    def _is_pending(self, model_pod: ModelPod) -> bool:
        return model_pod.node < 0 and not model_pod.terminating and self._state.pods.get(model_pod.key) is model_pod

    def _pass(self) -> None:
        """Place the pods that fit. A demand that fitted nowhere does not fit anywhere later in the same pass."""
        unplaced = []
        unschedulable_demands: set[Demand] = set()
        while self._waiting:
            entry = heapq.heappop(self._waiting)
            model_pod = entry[-1]
            if not self._is_pending(model_pod):
                continue
            demand = self._demand(model_pod)
            node = -1 if demand in unschedulable_demands else self._choose(model_pod, demand)
            if node >= 0:
                self._bind(model_pod, node)
                continue
            unplaced.append(entry)
            # A pod with affinity to another may fit as soon as that one has its node.
            if not demand.pod_affinity:
                unschedulable_demands.add(demand)
            if self._preemption is not None:
                self._preemption.preempt(model_pod, demand)
            if self._marks_unschedulable:
                self._state.put(model_pod, with_unschedulable(model_pod.pod, self._state.now))
        self._waiting = unplaced
        heapq.heapify(self._waiting)

    def _demand(self, model_pod: ModelPod) -> Demand:
        pod = model_pod.pod
        return (
            Demand.of(pod.spec)
            if self._state.nodes.existing_pods is None
            else Demand.of(pod.spec, metadata=pod.metadata)
        )

    def _choose(self, model_pod: ModelPod, demand: Demand) -> int:
        nodes = self._state.nodes
        if self._preemption is None:
            possible = find_fitting_nodes(nodes.table, demand, nodes.occupancy, nodes.existing_pods)
        else:
            with self._preemption.nominated(model_pod):
                possible = find_fitting_nodes(nodes.table, demand, nodes.occupancy, nodes.existing_pods)
        return self._best(possible, demand, model_pod) if possible.any() else -1

    def _best(self, possible: BoolColumn, demand: Demand, model_pod: ModelPod) -> int:
        """The node with the most left once the pod is there, rather without taints; the first of several."""
        nodes, requests = self._state.nodes, demand.requests
        score = np.zeros(nodes.table.numbers_end)
        for resource in (CPU, MEMORY):
            offered = np.maximum(nodes.table.offered(resource), 1)
            score += (nodes.occupancy.free(resource) - requests.get(resource, 0)) / offered
        if nodes.soft_taints:
            score -= _TAINT_WEIGHT * self._compute_taint_shares(possible, model_pod.pod.spec.tolerations)
        return int(np.argmax(np.where(possible, score, -np.inf)))

    def _compute_taint_shares(self, possible: BoolColumn, tolerations: Iterable[Toleration]) -> FloatColumn:
        """The untolerated `PreferNoSchedule` taints of each possible node, as a share of the most that one has."""
        counts: FloatColumn = np.zeros(len(possible))
        tolerated = tuple(tolerations)
        for number, taints in self._state.nodes.soft_taints.items():
            if possible[number]:
                counts[number] = count_intolerable_soft_taints(taints, tolerated)
        counts /= max(counts.max(), 1.0)
        return counts
