"""The Deployment controller of the model cluster, rollouts included.

Kubernetes' rules: a quarter more pods than wanted may exist and a quarter fewer than wanted may be Ready, the one
rounded up and the other down. What is old and not Ready goes first. With fewer wanted, those go first that serve least:
without a node, not Ready, beside most others of their own, newest.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import count
from typing import Final

import msgspec

from trellis.api.kube.meta import ObjectMeta, OwnerReference
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.workloads import Deployment, DeploymentSpec, ReplicaSet, ReplicatedSpec
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import api_time, name_suffix
from trellis.sim.cluster.state import ModelState

_SHARE: Final = 0.25
_HASH: Final = "pod-template-hash"
_APPS: Final = "apps/v1"


class DeploymentController:
    """Reconciles the pods of one Deployment."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._workload = workload
        self._revision = 0
        self._sets: dict[int, ReplicaSet] = {}
        self._pods: dict[int, list[ModelPod]] = {}
        self._names = count()
        self._uid = state.uid()

    def begin(self) -> None:
        """Create the Deployment and its pods."""
        state, template = self._state, self._state.templates[self._workload]
        metadata = state.metadata(self._workload, self._uid)
        spec = DeploymentSpec(self._replicas, template.selector, PodTemplateSpec(template.metadata, template.spec))
        state.publish(self._workload, Deployment(metadata, spec))
        self._add_set(self._replicas)
        self.reconcile()

    def roll_out(self) -> None:
        """Begin to roll out a new version."""
        self._revision += 1
        self._add_set(0)
        self.reconcile()

    def reconcile(self) -> None:
        """Create missing pods, and delete surplus ones."""
        for revision in self._pods:
            self._pods[revision] = [pod for pod in self._pods[revision] if self._is_active(pod)]
        new = self._pods[self._revision]
        old = [pod for revision, pods in self._pods.items() if revision != self._revision for pod in pods]
        surge = math.ceil(self._replicas * _SHARE) if old else 0
        missing = min(self._replicas - len(new), self._replicas + surge - len(new) - len(old))
        for _ in range(missing):
            self._create_pod()
        if len(new) > self._replicas:
            self._shrink(len(new) - self._replicas)
        if old:
            self._retire(old)
        self._scale_sets()

    @property
    def _replicas(self) -> int:
        return self._state.replicas[self._workload]

    def _is_active(self, model_pod: ModelPod) -> bool:
        return not model_pod.terminating and self._state.pods.get(model_pod.key) is model_pod

    def _create_pod(self) -> None:
        owner = self._sets[self._revision]
        reference = OwnerReference(_APPS, "ReplicaSet", owner.metadata.name, owner.metadata.uid, controller=True)
        name = f"{owner.metadata.name}-{name_suffix(next(self._names), 5)}"
        labels = {_HASH: owner.metadata.labels[_HASH]}
        model_pod = self._lifecycle.create_pod(self._workload, name, reference, labels=labels, revision=self._revision)
        self._pods[self._revision].append(model_pod)

    def _shrink(self, by: int) -> None:
        """Delete a number of pods of the newest version."""
        new = self._pods[self._revision]
        beside = Counter(pod.node for pod in new if pod.ready)
        newest = list(reversed(new))
        ranked = sorted(newest, key=lambda pod: (pod.node >= 0, pod.ready, -beside[pod.node]))
        for pod in ranked[:by]:
            self._lifecycle.delete(pod)
        self._pods[self._revision] = [pod for pod in new if not pod.terminating]

    def _retire(self, old: list[ModelPod]) -> None:
        new = self._pods[self._revision]
        least = self._replicas - math.floor(self._replicas * _SHARE)
        unready = sum(not pod.ready for pod in new)
        spare = len(old) + len(new) - least - unready
        available = sum(pod.ready for pod in (*old, *new))
        for pod in sorted(old, key=lambda pod: pod.ready):
            if spare <= 0 or (pod.ready and available <= least):
                break
            available -= pod.ready
            spare -= 1
            self._pods[pod.revision].remove(pod)
            self._lifecycle.delete(pod)

    def _add_set(self, replicas: int) -> None:
        state, definition = self._state, self._state.fleet.workloads[self._workload]
        template = state.templates[self._workload]
        hash_ = name_suffix(self._workload * 1009 + self._revision, 8)
        labels = {**template.metadata.labels, _HASH: hash_}
        selector = msgspec.structs.replace(template.selector, match_labels=labels)
        metadata = ObjectMeta(
            name=f"{definition.name}-{hash_}",
            namespace=definition.namespace,
            uid=state.uid(),
            resource_version=state.version(),
            creation_timestamp=api_time(state.now),
            labels=labels,
            owner_references=(OwnerReference(_APPS, "Deployment", definition.name, self._uid, controller=True),),
        )
        pods = PodTemplateSpec(msgspec.structs.replace(template.metadata, labels=labels), template.spec)
        replica_set = ReplicaSet(metadata, ReplicatedSpec(replicas, selector, pods))
        self._sets[self._revision] = replica_set
        self._pods[self._revision] = []
        state.watcher.on_workload("ReplicaSet", None, replica_set)

    def _scale_sets(self) -> None:
        """Set the replicas of each ReplicaSet; an old one without pods is removed."""
        state = self._state
        for revision, old in list(self._sets.items()):
            replicas = len(self._pods[revision])
            if not replicas and revision != self._revision:
                del self._sets[revision], self._pods[revision]
                state.watcher.on_workload("ReplicaSet", old, None)
            elif old.spec.replicas != replicas:
                new = msgspec.structs.replace(
                    old,
                    metadata=msgspec.structs.replace(old.metadata, resource_version=state.version()),
                    spec=msgspec.structs.replace(old.spec, replicas=replicas),
                )
                self._sets[revision] = new
                state.watcher.on_workload("ReplicaSet", old, new)
