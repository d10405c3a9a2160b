"""Terminations of containers and pods, and restarts.

A container that was killed is started again, the first time at once and then after a back-off that doubles from ten
seconds to five minutes; ten minutes without a kill reset it. A pod that is evicted for want of memory on its node does
not come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import ObjectMeta, ObjectReference
from trellis.api.kube.observed_pods import OOM_KILLED
from trellis.api.kube.pods import ContainerState, ContainerStateRunning
from trellis.core.resize.state.attempts import compute_backoff
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

# Measured on kubelet 1.36.3: seconds from a kill to the first restart and from a resize to the restart it asks for. A
# back-off lasts some seconds longer than its length says, drawn between these.
_RESTART_SECONDS: Final = 1.0
_RESIZE_RESTART_SECONDS: Final = 0.2
_BACKOFF_DELAY_SECONDS: Final = (2.0, 7.0)
_FIRST_BACKOFF_SECONDS: Final = 10.0
_MAX_BACKOFF_SECONDS: Final = 300.0
_BACKOFF_RESET_SECONDS: Final = 600.0
_KILLED_EXIT_CODE: Final = 137


class Terminations:
    """Ends and restarts containers, for the kubelets of all nodes. `step` is the current step of usage."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, demand: FleetDemand, starts: PodStarts) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._demand = demand
        self._starts = starts
        self.step = 0

    def get_memory_demand(self, container: ModelContainer) -> float:
        """The bytes that a container demands now."""
        return self._demand.get_memory_demand(self._state.rows, container.row, self.step, self._state.now)

    def kill_soon(self, container: ModelContainer) -> None:
        """Schedule the kill of a container that demands more memory than its limit."""
        self._state.kernel.after(0.0, partial(self._kill, container, container.restarts))

    def evict_for_memory(self, model_pod: ModelPod, used: Mapping[str, float]) -> None:
        """Schedule a node-pressure eviction; `used` has the bytes of containers above their request."""
        self._state.kernel.after(0.0, partial(self._evict_for_memory, model_pod, used))

    def restart_for_resize(self, container: ModelContainer) -> None:
        """Restart a container because of its resize policy, which counts towards its back-off."""
        self._stop(container, "Completed", 0)
        self._restart_later(container, _RESIZE_RESTART_SECONDS)

    def switch_off(self, node: int) -> None:
        """Stop everything that runs on a node."""
        rows = self._state.rows
        for model_pod in list(self._state.nodes.pods[node].values()):
            if model_pod.run is not None:
                model_pod.run.cancel()
            for container in model_pod.containers:
                container.cancel()
                container.up = False
                rows.stage[container.row] = ContainerStage.DOWN
            rows.version += 1
            self._starts.update_readiness(model_pod)

    def switch_on(self, node: int) -> None:
        """Start the remaining pods of a node that is back."""
        for model_pod in list(self._state.nodes.pods[node].values()):
            if model_pod.pod.status.phase == PENDING:
                self._starts.begin(model_pod)
            else:
                for container in model_pod.containers:
                    self._restart(container)

    def check_memory(self, container: ModelContainer) -> None:
        """Kill a container that has come up with a demand above its memory limit."""
        if self.get_memory_demand(container) > self._state.rows.memory_limit[container.row]:
            self.kill_soon(container)

    def complete(self, model_pod: ModelPod) -> None:
        """End a pod that ran to completion."""
        state = self._state
        if not state.should_run(model_pod):
            return
        pod = model_pod.pod
        for container in model_pod.containers:
            terminated = terminated_state(float(state.rows.started[container.row]), state.now, "Completed", 0)
            pod = with_container(pod, container.name, state=terminated, ready=False, started=False)
        state.put(model_pod, as_finished(pod, SUCCEEDED, "", state.now))
        state.remove_from_node(model_pod)
        state.report(model_pod, PodEvent.ENDED)
        state.wake_controller(model_pod.workload)

    def _kill(self, container: ModelContainer, incarnation: int) -> None:
        state, model_pod = self._state, container.model_pod
        is_same_run = (
            container.restarts == incarnation and state.should_run(model_pod) and state.rows.has_row(container)
        )
        if not is_same_run or state.rows.stage[container.row] == ContainerStage.DOWN:
            return
        state.counters.oom_kills[model_pod.workload] += 1
        self._stop(container, OOM_KILLED, _KILLED_EXIT_CODE)
        state.report(model_pod, PodEvent.KILLED, container.name)
        if model_pod.pod.spec.restart_policy == "Never":
            self._fail(model_pod, "")
            return
        self._restart_later(container, _RESTART_SECONDS)

    def _restart_later(self, container: ModelContainer, first_pause: float) -> None:
        """Restart a container that has ended: soon if it ran long enough, else after its back-off."""
        state, pause = self._state, first_pause
        if state.now - float(state.rows.started[container.row]) >= _BACKOFF_RESET_SECONDS:
            container.failures = 0
        if container.failures:
            length = compute_backoff(container.failures, _FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
            pause = length + float(state.rng.uniform(*_BACKOFF_DELAY_SECONDS))
        container.failures += 1
        container.ticket = state.kernel.after(pause, partial(self._restart, container))

    def _stop(self, container: ModelContainer, reason: str, code: int) -> None:
        state, model_pod, row = self._state, container.model_pod, container.row
        container.cancel()
        if model_pod.run is not None and container is model_pod.containers[0]:
            model_pod.run.cancel()
        container.up = False
        state.rows.stage[row] = ContainerStage.DOWN
        terminated = terminated_state(float(state.rows.started[row]), state.now, reason, code)
        state.put(
            model_pod, with_container(model_pod.pod, container.name, state=terminated, ready=False, started=False)
        )
        self._starts.update_readiness(model_pod)

    def _restart(self, container: ModelContainer) -> None:
        state, model_pod = self._state, container.model_pod
        container.ticket = None
        if not state.should_run(model_pod):
            return
        container.restarts += 1
        state.counters.restarts[model_pod.workload] += 1
        before = find_container_status(model_pod.pod, container.name)
        running = with_container(
            model_pod.pod,
            container.name,
            state=ContainerState(running=ContainerStateRunning(api_time(state.now))),
            last_state=before.state if before is not None else ContainerState(),
            restart_count=container.restarts,
            started=True,
        )
        state.put(model_pod, running)
        state.report(model_pod, PodEvent.RESTARTED, container.name)
        self._starts.start(container)

    def _fail(self, model_pod: ModelPod, reason: str) -> None:
        """End a pod with a failure; its controller creates another."""
        self._state.put(model_pod, as_finished(model_pod.pod, FAILED, reason, self._state.now))
        self._state.mark_terminating(model_pod)
        self._lifecycle.remove_pod(model_pod)

    def _evict_for_memory(self, model_pod: ModelPod, used: Mapping[str, float]) -> None:
        state = self._state
        if not state.should_run(model_pod):
            return
        state.counters.pressed_out[model_pod.workload] += 1
        state.watcher.on_eviction(_eviction(model_pod, used, state.now))
        state.report(model_pod, PodEvent.PRESSED_OUT)
        self._fail(model_pod, "Evicted")


def _eviction(model_pod: ModelPod, used: Mapping[str, float], now: float) -> Event:
    """The Event that a kubelet records for an eviction."""
    about = model_pod.pod.metadata
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
