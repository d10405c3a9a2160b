"""Creates and deletes pods: through admission and the scheduler's queue, and with a termination period."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from trellis.api.kube.meta import OwnerReference, PodMeta
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.slices import NOTHING
from trellis.core.sizing.shapes import PodShape
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import api_time, as_terminating, new_pod
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent

# Seconds from a pod's deletion until it is gone, if its containers end when they are asked to; as on kubelet 1.36.3.
_TERMINATION_SECONDS: Final = 0.8


class PodLifecycle:
    """Creates and deletes pods for the controllers."""

    def __init__(self, state: ModelState, enqueue: Callable[[ModelPod], None]) -> None:
        self._state = state
        self._enqueue = enqueue

    def create_pod(
        self,
        workload: int,
        name: str,
        owner: OwnerReference,
        *,
        labels: Mapping[str, str] = NOTHING,
        revision: int = 0,
        ordinal: int = 0,
        seconds: float | None = None,
        spec: PodSpec | None = None,
    ) -> ModelPod:
        """Create a pod of a workload, from its template unless a `spec` is given.

        A pod that runs to completion takes `seconds`.
        """
        state, template = self._state, self._state.templates[workload]
        metadata = PodMeta(
            name=name,
            namespace=state.fleet.workloads[workload].namespace,
            uid=state.uid(),
            generation=1,
            creation_timestamp=api_time(state.now),
            labels={**template.metadata.labels, **labels},
            annotations=template.metadata.annotations,
            owner_references=(owner,),
        )
        pod = state.admit(new_pod(metadata, spec or template.spec))
        status = msgspec.structs.replace(pod.status, qos_class=PodShape.from_spec(pod.spec).qos.value)
        pod = msgspec.structs.replace(pod, status=status)
        model_pod = ModelPod(pod, workload, state.now, revision=revision, ordinal=ordinal)
        model_pod.seconds = seconds
        state.add(model_pod)
        self._enqueue(model_pod)
        return model_pod

    def delete(self, model_pod: ModelPod) -> None:
        """Delete a pod: one that never started is gone at once."""
        state = self._state
        if model_pod.terminating:
            return
        state.mark_terminating(model_pod)
        state.release_slot(model_pod)
        for container in model_pod.containers:
            state.rows.ready[container.row], state.rows.terminating[container.row] = False, True
        state.rows.version += 1
        state.put(model_pod, as_terminating(model_pod.pod, state.now))
        if model_pod.containers:
            state.kernel.after(_TERMINATION_SECONDS, lambda: self.remove_pod(model_pod))
        else:
            self.remove_pod(model_pod)
        state.wake_controller(model_pod.workload)

    def remove_pod(self, model_pod: ModelPod) -> None:
        """Remove a pod that has ended."""
        state = self._state
        if state.pods.get(model_pod.key) is model_pod:
            state.remove(model_pod)
            state.wake_controller(model_pod.workload)

    def lose_pod(self, model_pod: ModelPod, text: str) -> None:
        """Remove a pod without a termination period, as when its node is lost."""
        self._state.report(model_pod, PodEvent.LOST, text)
        self._state.mark_terminating(model_pod)
        self.remove_pod(model_pod)
