"""What does a kubelet make of a resize?

It looks a moment later. What the node can never do is infeasible, and stays so until somebody asks for something else.
What it has no room for now is deferred, and tried again when room appears. Otherwise the new size is set aside at once
and in force soon after; containers whose policy says so are restarted for it. A memory limit below what is in use is
not enforced: the kubelet says that it fails, and tries again.

A resize that is written while every container that changes is down never reaches the pod's cgroup, as on kubelet 1.36:
the status says that it is done, and the limits in force are the lower of the old and the new ones. Each container is
taken by itself: the others' share of the pod's cgroup is not lent to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.containers import Resources
from trellis.api.kube.pods import RESIZE_IN_PROGRESS, RESIZE_PENDING
from trellis.core.fit import Demand
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.sim.cluster.ending import Ending
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.nodes import SET_ASIDE
from trellis.sim.cluster.pods import (
    PENDING,
    allocated,
    running_containers,
    with_condition,
    with_container,
    without_condition,
)
from trellis.sim.cluster.rows import Stage
from trellis.sim.cluster.size_changes import differs, lowers, restarts
from trellis.sim.cluster.starting import Starting
from trellis.sim.cluster.state import State
from trellis.sim.cluster.watching import What
from trellis.sim.faults import DEFER_RESIZES, REFUSE_DOWNSIZES, REFUSE_RESIZES

# Seconds until a kubelet looks at a changed pod, drawn between these, and from its yes to the new size in force.
_SOONEST: Final = 1.0
_LATEST: Final = 3.0
_ENFORCED_AFTER: Final = 0.5
_TRIED_AGAIN_AFTER: Final = 30.0
_IN_USE: Final = "the memory limit would be below the memory in use"


class Resizing:
    """The kubelets of all nodes, as far as they resize."""

    def __init__(self, state: State, starting: Starting, ending: Ending) -> None:
        self._state = state
        self._starting = starting
        self._ending = ending
        self._deferred: defaultdict[int, dict[tuple[str, str], Living]] = defaultdict(dict)
        state.on_room = self.room
        for fault in state.faults.of(DEFER_RESIZES):
            state.kernel.at(max(fault.end, state.now), self._all_again)

    def asked(self, living: Living) -> None:
        """The spec of a pod asks for another size."""
        rows = self._state.rows
        down = (each for each in living.units if rows.stage[each.row] == Stage.DOWN)
        living.down_when_asked = frozenset(each.name for each in down if not math.isnan(rows.started[each.row]))
        delay = float(self._state.rng.uniform(_SOONEST, _LATEST))
        self._later(living, delay, partial(self._look, living))

    def room(self, node: int) -> None:
        """Try again whom a node had no room for: the first who waited goes first."""
        waiting = self._deferred[node]
        for living in list(waiting.values()):
            if living.node == node:
                self._later(living, 0.0, partial(self._look, living))
            else:
                del waiting[living.key]

    def _all_again(self) -> None:
        for node in sorted(self._deferred):
            self.room(node)

    def _later(self, living: Living, delay: float, do: partial[None]) -> None:
        if living.resize is not None:
            living.resize.cancel()
        living.resize = self._state.kernel.after(delay, do)

    def _look(self, living: Living) -> None:
        state = self._state
        living.resize = None
        if not self._is_there(living):
            return
        self._deferred[living.node].pop(living.key, None)
        if living.pod.status.phase == PENDING:
            self._later(living, _SOONEST, partial(self._look, living))
            return
        pod = living.pod
        if not any(differs(each, pod) for each in running_containers(pod.spec)):
            self._settle(living)
            return
        asked = Demand.of(pod.spec).requests
        wanted = {name: asked.get(name, 0) for name in SET_ASIDE}
        if self._is_refused(living) or not state.nodes.could_ever(living.node, wanted):
            self._put_off(living, "Infeasible", What.RESIZE_INFEASIBLE)
        elif self._faulty(living, DEFER_RESIZES) or not state.nodes.has_room(living.node, living, wanted):
            self._deferred[living.node][living.key] = living
            living.down_when_asked = frozenset()
            self._put_off(living, "Deferred", What.RESIZE_DEFERRED)
        else:
            self._accept(living, wanted)

    def _is_there(self, living: Living) -> bool:
        """Whether a kubelet looks after the pod; one whose node is off waits for it."""
        if living.node >= 0 and not self._state.nodes.up[living.node]:
            self._deferred[living.node][living.key] = living
        return self._state.runs(living)

    def _is_refused(self, living: Living) -> bool:
        if self._faulty(living, REFUSE_RESIZES):
            return True
        downwards = any(lowers(each, living.pod) for each in running_containers(living.pod.spec))
        return downwards and self._faulty(living, REFUSE_DOWNSIZES)

    def _faulty(self, living: Living, kind: str) -> bool:
        state = self._state
        node = state.nodes.objects[living.node].metadata.name
        return state.faults.holds(kind, state.now, state.workload_name(living), node)

    def _put_off(self, living: Living, reason: str, what: What) -> None:
        state = self._state
        status = with_condition(living.pod.status, RESIZE_PENDING, True, state.now, reason=reason)
        if status is not living.pod.status:
            state.put(living, msgspec.structs.replace(living.pod, status=status), resized=True)
            state.happened(living, what)
            state.kick()

    def _accept(self, living: Living, wanted: Counts) -> None:
        state = self._state
        state.nodes.allocate(living, wanted)
        pod = living.pod
        for container in running_containers(pod.spec):
            pod = with_container(pod, container.name, allocated_resources=allocated(container.resources))
        status = without_condition(pod.status, RESIZE_PENDING)
        status = with_condition(status, RESIZE_IN_PROGRESS, True, state.now)
        state.put(living, msgspec.structs.replace(pod, status=status), resized=True)
        self._later(living, _ENFORCED_AFTER, partial(self._enforce, living))

    def _enforce(self, living: Living) -> None:
        state = self._state
        living.resize = None
        if not self._is_there(living):
            return
        if self._is_too_tight(living):
            status = with_condition(
                living.pod.status, RESIZE_IN_PROGRESS, True, state.now, reason="Error", message=_IN_USE
            )
            if status is not living.pod.status:
                state.put(living, msgspec.structs.replace(living.pod, status=status))
            self._later(living, _TRIED_AGAIN_AFTER, partial(self._enforce, living))
            return
        pod, restarted = living.pod, []
        changed = [each.name for each in living.units if differs(living.container(each.name), pod)]
        missed = living.down_when_asked.issuperset(changed)
        for unit in living.units:
            container = living.container(unit.name)
            if not differs(container, pod):
                continue
            if restarts(container, pod):
                restarted.append(unit)
            resources = Resources(limits=container.resources.limits, requests=container.resources.requests)
            pod = with_container(pod, unit.name, resources=resources)
        state.put(living, pod, resized=True)
        for unit in living.units:
            self._starting.give(unit, living.container(unit.name).resources, reaches_cgroup=not missed)
        self._settle(living)
        state.tally.resizes[living.workload] += 1
        state.happened(living, What.RESIZED)
        for unit in restarted:
            self._ending.bounce(unit)
        self.room(living.node)
        state.kick()

    def _settle(self, living: Living) -> None:
        status = without_condition(without_condition(living.pod.status, RESIZE_PENDING), RESIZE_IN_PROGRESS)
        if status is not living.pod.status:
            self._state.put(living, msgspec.structs.replace(living.pod, status=status), resized=True)

    def _is_too_tight(self, living: Living) -> bool:
        """Whether a memory limit is to go below what its container uses, which is not restarted for it."""
        rows = self._state.rows
        for unit in living.units:
            container = living.container(unit.name)
            limit = counts(container.resources.limits).get("memory")
            had = float(rows.memory_limit[unit.row])
            if limit is None or limit >= had or rows.stage[unit.row] == Stage.DOWN or restarts(container, living.pod):
                continue
            if min(self._ending.memory_of(unit), had) > limit:
                return True
        return False
