"""The StatefulSet controller of the model cluster: numbered pods, made in order, each after those before it are Ready.

A pod is made again under its name once the old one is gone. Where there are too many, the last goes first, and the next
when it is gone. A new version comes in one by one from the last to the first. All that waits for what is not Ready.
"""

from __future__ import annotations

from trellis.api.kube.meta import OwnerReference
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.workloads import StatefulSet, StatefulSetSpec
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.state import ModelState


class StatefulSetController:
    """Reconciles the pods of one StatefulSet."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._workload = workload
        self._definition = state.fleet.workloads[workload]
        self._revision = 0
        self._uid = state.uid()

    def begin(self) -> None:
        """Create the StatefulSet and its first pod."""
        state, template = self._state, self._state.templates[self._workload]
        metadata = state.metadata(self._workload, self._uid)
        pods = PodTemplateSpec(template.metadata, template.spec)
        spec = StatefulSetSpec(state.replicas[self._workload], template.selector, pods)
        state.publish(self._workload, StatefulSet(metadata, spec))
        self.reconcile()

    def roll_out(self) -> None:
        """Begin to roll out a new version."""
        self._revision += 1
        self.reconcile()

    def reconcile(self) -> None:
        """Create the first missing pod, or delete the last that is surplus or old; one at a time."""
        replicas = self._state.replicas[self._workload]
        pods = [self._pod(ordinal) for ordinal in range(replicas)]
        for ordinal, model_pod in enumerate(pods):
            if model_pod is None:
                self._create_pod(ordinal)
                return
            if not model_pod.ready:
                return
        pods_by_workload = self._state.pods_by_workload[self._workload].values()
        last = max(
            (pod for pod in pods_by_workload if pod.ordinal >= replicas), key=lambda pod: pod.ordinal, default=None
        )
        if last is not None:
            self._lifecycle.delete(last)
            return
        for model_pod in reversed(pods):
            if model_pod is not None and model_pod.revision != self._revision:
                self._lifecycle.delete(model_pod)
                return

    def _pod(self, ordinal: int) -> ModelPod | None:
        return self._state.pods.get((self._definition.namespace, self._name(ordinal)))

    def _name(self, ordinal: int) -> str:
        return f"{self._definition.name}-{ordinal}"

    def _create_pod(self, ordinal: int) -> None:
        owner = OwnerReference("apps/v1", "StatefulSet", self._definition.name, self._uid, controller=True)
        name = self._name(ordinal)
        labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": name}
        self._lifecycle.create_pod(self._workload, name, owner, labels=labels, revision=self._revision, ordinal=ordinal)
