"""Terminations of containers and pods, and restarts.

A container that was killed is started again, the first time at once and then after a back-off that doubles from ten
seconds to five minutes; ten minutes without a kill reset it. A pod that a node has no memory for is gone for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import ObjectMeta, ObjectReference
from trellis.api.kube.observed_pods import OOM_KILLED
from trellis.api.kube.pods import ContainerState, ContainerStateRunning
from trellis.core.resize.settings import backoff
from trellis.sim.cluster.container_table import ContainerStage
from trellis.sim.cluster.demand import FleetDemand
from trellis.sim.cluster.kubelet.starts import PodStarts
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelContainer, ModelPod
from trellis.sim.cluster.pods import (
    FAILED,
    PENDING,
    SUCCEEDED,
    api_time,
    as_finished,
    find_container_status,
    terminated_state,
    with_container,
)
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent

_AT_ONCE: Final = 1.0
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 300.0
_FORGOTTEN_AFTER: Final = 600.0
_KILLED: Final = 137


class Terminations:
    """Ends and restarts containers, for the kubelets of all nodes. `step` is the current step of usage."""

    def __init__(self, state: ModelState, making: PodLifecycle, demand: FleetDemand, starting: PodStarts) -> None:
        self._state = state
        self._making = making
        self._demand = demand
        self._starting = starting
        self.step = 0

    def memory_of(self, unit: ModelContainer) -> float:
        """The bytes that a container demands now."""
        return self._demand.memory_of(self._state.rows, unit.row, self.step, self._state.now)

    def kill_soon(self, unit: ModelContainer) -> None:
        """Schedule the kill of a container that demands more memory than its limit."""
        self._state.kernel.after(0.0, partial(self._kill, unit, unit.restarts))

    def press_out_soon(self, living: ModelPod, used: Mapping[str, float]) -> None:
        """Schedule a node-pressure eviction; `used` has the bytes of containers above their request."""
        self._state.kernel.after(0.0, partial(self._press_out, living, used))

    def restart_for_resize(self, unit: ModelContainer) -> None:
        """Restart a container because of its resize policy."""
        self._stop(unit, "Completed", 0)
        unit.ticket = self._state.kernel.after(_AT_ONCE, partial(self._restart, unit))

    def switch_off(self, node: int) -> None:
        """Stop everything that runs on a node."""
        rows = self._state.rows
        for living in list(self._state.nodes.pods[node].values()):
            if living.run is not None:
                living.run.cancel()
            for unit in living.units:
                unit.cancel()
                unit.up = False
                rows.stage[unit.row] = ContainerStage.DOWN
            rows.version += 1
            self._starting.tell_readiness(living)

    def switch_on(self, node: int) -> None:
        """Start the remaining pods of a node that is back."""
        for living in list(self._state.nodes.pods[node].values()):
            if living.pod.status.phase == PENDING:
                self._starting.begin(living)
            else:
                for unit in living.units:
                    self._restart(unit)

    def check_memory(self, unit: ModelContainer) -> None:
        """Kill a container that has come up with a demand above its memory limit."""
        if self.memory_of(unit) > self._state.rows.memory_limit[unit.row]:
            self.kill_soon(unit)

    def complete(self, living: ModelPod) -> None:
        """End a pod that ran to completion."""
        state = self._state
        if not state.runs(living):
            return
        pod = living.pod
        for unit in living.units:
            terminated = terminated_state(float(state.rows.started[unit.row]), state.now, "Completed", 0)
            pod = with_container(pod, unit.name, state=terminated, ready=False, started=False)
        state.put(living, as_finished(pod, SUCCEEDED, "", state.now))
        state.vacate(living)
        state.report(living, PodEvent.ENDED)
        state.wake(living.workload)

    def _kill(self, unit: ModelContainer, incarnation: int) -> None:
        state, living = self._state, unit.living
        is_it = unit.restarts == incarnation and state.runs(living) and state.rows.holds(unit)
        if not is_it or state.rows.stage[unit.row] == ContainerStage.DOWN:
            return
        if state.now - float(state.rows.started[unit.row]) >= _FORGOTTEN_AFTER:
            unit.failures = 0
        state.tally.oom_kills[living.workload] += 1
        self._stop(unit, OOM_KILLED, _KILLED)
        state.report(living, PodEvent.KILLED, unit.name)
        if living.pod.spec.restart_policy == "Never":
            self._fail(living, "")
            return
        pause = backoff(unit.failures, _FIRST_PAUSE, _LONGEST_PAUSE) if unit.failures else _AT_ONCE
        unit.failures += 1
        unit.ticket = state.kernel.after(pause, partial(self._restart, unit))

    def _stop(self, unit: ModelContainer, reason: str, code: int) -> None:
        state, living, row = self._state, unit.living, unit.row
        unit.cancel()
        if living.run is not None and unit is living.units[0]:
            living.run.cancel()
        unit.up = False
        state.rows.stage[row] = ContainerStage.DOWN
        terminated = terminated_state(float(state.rows.started[row]), state.now, reason, code)
        state.put(living, with_container(living.pod, unit.name, state=terminated, ready=False, started=False))
        self._starting.tell_readiness(living)

    def _restart(self, unit: ModelContainer) -> None:
        state, living = self._state, unit.living
        unit.ticket = None
        if not state.runs(living):
            return
        unit.restarts += 1
        state.tally.restarts[living.workload] += 1
        before = find_container_status(living.pod, unit.name)
        running = with_container(
            living.pod,
            unit.name,
            state=ContainerState(running=ContainerStateRunning(api_time(state.now))),
            last_state=before.state if before is not None else ContainerState(),
            restart_count=unit.restarts,
            started=True,
        )
        state.put(living, running)
        state.report(living, PodEvent.RESTARTED, unit.name)
        self._starting.start(unit)

    def _fail(self, living: ModelPod, reason: str) -> None:
        """End a pod with a failure; its controller creates another."""
        self._state.put(living, as_finished(living.pod, FAILED, reason, self._state.now))
        self._state.dismiss(living)
        self._making.forget(living)

    def _press_out(self, living: ModelPod, used: Mapping[str, float]) -> None:
        state = self._state
        if not state.runs(living):
            return
        state.tally.pressed_out[living.workload] += 1
        state.watcher.event(_eviction(living, used, state.now))
        state.report(living, PodEvent.PRESSED_OUT)
        self._fail(living, "Evicted")


def _eviction(living: ModelPod, used: Mapping[str, float], now: float) -> Event:
    """The Event that a kubelet records for an eviction."""
    about = living.pod.metadata
    annotations = {
        "offending_containers": ",".join(used),
        "offending_containers_usage": ",".join(str(int(amount)) for amount in used.values()),
        "starved_resource": "memory",
    }
    metadata = ObjectMeta(
        name=f"{about.name}.evicted",
        namespace=about.namespace,
        creation_timestamp=api_time(now),
        annotations=annotations,
    )
    return Event(
        metadata,
        ObjectReference(kind="Pod", namespace=about.namespace, name=about.name, uid=about.uid),
        "Evicted",
        "The node was low on resource: memory.",
        first_timestamp=api_time(now),
        last_timestamp=api_time(now),
        count=1,
        type="Warning",
    )
