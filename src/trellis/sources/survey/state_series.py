"""What does kube-state-metrics say of a cluster? Its series as the objects that they were made from.

As far as sizes need it, so that whatever works from a cluster works from this too. What an object says that no metric
has, such as the labels of a pod, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trellis.api.kube.meta import KubeObject, ObjectMeta, OwnerReference
from trellis.api.kube.observed_pods import (
    Amounts,
    ObservedContainer,
    ObservedPod,
    ObservedPodMeta,
    ObservedPodSpec,
    ObservedPodStatus,
    ObservedResources,
)
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    DaemonSetStatus,
    Deployment,
    DeploymentSpec,
    StatefulSet,
    StatefulSetSpec,
)
from trellis.sources.survey.state_hpas import StateHpas
from trellis.sources.survey.state_metrics import (
    AMOUNTS,
    CONTAINER,
    HPAS,
    OWNERS,
    PHASE,
    SETS,
    SIDECAR,
    Labels,
    Name,
    Sample,
    Spelling,
)

_API_VERSIONS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Node": "v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
    "StatefulSet": "apps/v1",
}
_POD: Final = "Pod"
_NOBODY: Final = ("", "<none>")
_ALWAYS: Final = "Always"
_MOST: Final = 1e18

_Owners = dict[Name, OwnerReference | None]


class StateSeries:
    """Takes in series by the names of their metrics, and says what there is."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._now: _Owners = {}
        self._past: _Owners = {}
        self._makers: dict[str, _Owners] = {"ReplicaSet": {}, "Job": {}}
        self._running: dict[Name, dict[str, str]] = {}
        self._amounts: dict[Name, dict[str, dict[str, dict[str, str]]]] = {}
        self._phases: dict[Name, str] = {}
        self._sets: dict[str, dict[Name, int]] = {}
        self._hpas = StateHpas(spelling)

    @property
    def is_empty(self) -> bool:
        """Whether nobody told anything."""
        return not (self._now or self._sets)

    def take_past(self, found: Iterable[Labels]) -> None:
        """Owners of what there was at any time."""
        for labels in found:
            self._owner(labels.get("__name__", ""), labels, self._past)

    def take(self, found: Iterable[Sample]) -> None:
        """What there is now."""
        for labels, value in found:
            metric = labels.get("__name__", "")
            if metric in OWNERS:
                self._owner(metric, labels, self._now)
            elif metric in AMOUNTS:
                self._amount(AMOUNTS[metric], labels, value)
            elif metric in SETS:
                kind, label = SETS[metric]
                self._sets.setdefault(kind, {})[self._spelling.named(labels, label)] = int(value)
            elif metric in HPAS:
                self._hpas.take(metric, labels, value)
            elif metric == PHASE:
                self._phases[self._pod_in(labels)] = labels.get("phase", "")
            elif metric == CONTAINER or (metric == SIDECAR and labels.get("restart_policy") == _ALWAYS):
                restarts = _ALWAYS if metric == SIDECAR else ""
                self._running.setdefault(self._pod_in(labels), {})[self._spelling.of(labels, "container")] = restarts

    def pods(self) -> list[ObservedPod]:
        """Those that there are now."""
        return [self._pod(name, owner) for name, owner in sorted(self._now.items())]

    def gone(self) -> list[ObservedPod]:
        """Those that there were."""
        return [self._pod(name, owner) for name, owner in sorted(self._past.items()) if name not in self._now]

    def workloads(self) -> dict[str, list[KubeObject]]:
        """What makes pods now, by kind."""
        return {
            kind: [_set(kind, *name, replicas) for name, replicas in sorted(sets.items())]
            for kind, sets in self._sets.items()
        }

    def makers(self) -> dict[str, list[KubeObject]]:
        """ReplicaSets and Jobs, with who made them; they may be gone."""
        return {
            kind: [
                KubeObject(ObjectMeta(name=name, namespace=namespace, owner_references=(owner,) if owner else ()))
                for (namespace, name), owner in sorted(owners.items())
            ]
            for kind, owners in self._makers.items()
        }

    def hpas(self) -> list[HorizontalPodAutoscaler]:
        """HPAs."""
        return self._hpas.found()

    def _pod_in(self, labels: Labels) -> Name:
        return self._spelling.named(labels, "pod")

    def _owner(self, metric: str, labels: Labels, pods: _Owners) -> None:
        if metric not in OWNERS:
            return
        kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
        is_controlled = labels.get("owner_is_controller", "true") == "true"
        owner = OwnerReference(_API_VERSIONS.get(kind, ""), kind, name, "", True)
        of, label = OWNERS[metric]
        known, at = pods if of == _POD else self._makers[of], self._spelling.named(labels, label)
        if all(at):
            is_owned = is_controlled and kind not in _NOBODY and name not in _NOBODY
            known[at] = owner if is_owned else known.get(at)

    def _amount(self, what: str, labels: Labels, value: float) -> None:
        resource, container = labels.get("resource", ""), self._spelling.of(labels, "container")
        at = self._pod_in(labels)
        if resource not in ("cpu", "memory") or not (container and all(at)) or not 0 <= value < _MOST:
            return
        sizes = self._amounts.setdefault(at, {}).setdefault(container, {"requests": {}, "limits": {}})
        sizes[what][resource] = f"{round(value * 1000)}m" if resource == "cpu" else str(round(value))

    def _pod(self, name: Name, owner: OwnerReference | None) -> ObservedPod:
        sizes = self._amounts.get(name, {})
        found = self._running.get(name) or dict.fromkeys(sizes, "")
        containers = [
            ObservedContainer(each, _resources(sizes.get(each, {})), restarts)
            for each, restarts in sorted(found.items())
        ]
        spec = ObservedPodSpec(
            tuple(each for each in containers if each.is_sidecar),
            tuple(each for each in containers if not each.is_sidecar),
        )
        metadata = ObservedPodMeta(name=name[1], namespace=name[0], owner_references=(owner,) if owner else ())
        return ObservedPod(metadata, spec, ObservedPodStatus(phase=self._phases.get(name, "Running")))


def _resources(sizes: Mapping[str, Mapping[str, str]]) -> ObservedResources:
    return ObservedResources(Amounts(**sizes.get("limits", {})), Amounts(**sizes.get("requests", {})))


def _set(kind: str, namespace: str, name: str, replicas: int) -> KubeObject:
    metadata = ObjectMeta(name=name, namespace=namespace)
    match kind:
        case "Deployment":
            return Deployment(metadata, DeploymentSpec(replicas=replicas))
        case "StatefulSet":
            return StatefulSet(metadata, StatefulSetSpec(replicas=replicas))
        case "DaemonSet":
            return DaemonSet(metadata, status=DaemonSetStatus(desired_number_scheduled=replicas))
        case _:
            return CronJob(metadata)
