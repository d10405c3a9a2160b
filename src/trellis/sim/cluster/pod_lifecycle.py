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

# Seconds from a pod's deletion until its containers have ended.
_TERMINATION: Final = 2.0


class PodLifecycle:
    """Creates and deletes pods for the controllers."""

    def __init__(self, state: ModelState, enqueue: Callable[[ModelPod], None]) -> None:
        self._state = state
        self._enqueue = enqueue

    def make(
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
        status = msgspec.structs.replace(pod.status, qos_class=PodShape.of(pod.spec).qos.value)
        pod = msgspec.structs.replace(pod, status=status)
        living = ModelPod(pod, workload, state.now, revision=revision, ordinal=ordinal)
        living.seconds = seconds
        state.add(living)
        self._enqueue(living)
        return living

    def delete(self, living: ModelPod) -> None:
        """Delete a pod: one that never started is gone at once."""
        state = self._state
        if living.going:
            return
        state.dismiss(living)
        state.leave_place(living)
        for unit in living.units:
            state.rows.ready[unit.row], state.rows.going[unit.row] = False, True
        state.rows.version += 1
        state.put(living, as_terminating(living.pod, state.now))
        if living.units:
            state.kernel.after(_TERMINATION, lambda: self.forget(living))
        else:
            self.forget(living)
        state.wake(living.workload)

    def forget(self, living: ModelPod) -> None:
        """Remove a pod that has ended."""
        state = self._state
        if state.pods.get(living.key) is living:
            state.remove(living)
            state.wake(living.workload)

    def lose(self, living: ModelPod, text: str) -> None:
        """Remove a pod without a termination period, as when its node is lost."""
        self._state.report(living, PodEvent.LOST, text)
        self._state.dismiss(living)
        self.forget(living)
