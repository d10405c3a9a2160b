"""Pods as Buffers read them: labels, age, what a pod holds on its node, and the node of a DaemonSet's pod.

Of a target's tens of thousands of pods one shows the shape, and that one is read as a whole. A process that needs no
more of pods keeps summaries; where another component shares the cache, the same is read from its wider slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

from trellis.api.kube.meta import PodMeta
from trellis.api.kube.observed_workloads import CountedReplicationController, CountedWorkload
from trellis.api.kube.pods import RESIZE_PENDING, Pod, PodStatus
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.kube.workloads import Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from trellis.core.buffers.pods import is_live
from trellis.core.cluster.pod_annotations import BOOST_ANNOTATION_PREFIX
from trellis.core.fit import read_running_demand_or_empty
from trellis.core.fit.demand import ResourceAmounts

# A workload whose count is watched: its slice for Buffers, or a wider one that is shared with the updater.
CountedTarget: TypeAlias = (
    CountedWorkload | CountedReplicationController | Deployment | ReplicaSet | StatefulSet | Job | ReplicationController
)

_DAEMON_SET: Final = "DaemonSet"


class PodSummary(Pod, frozen=True):
    """A pod cut to few fields. `held` is what it uses on its node; `daemon_on` is that node, for a DaemonSet's pod."""

    held: ResourceAmounts = ()
    daemon_on: str = ""


class PodSummaryTransform:
    """Cuts pods to summaries. Lists are sorted by name, so that the pods of a workload follow each other."""

    def __init__(self) -> None:
        self._labels: Labels = NOTHING
        self._held: ResourceAmounts = ()

    def __call__(self, pod: Pod) -> Pod:
        metadata = pod.metadata
        summary_metadata = PodMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=self._share_labels(metadata.labels),
            annotations=_select_boosts(metadata.annotations),
        )
        return PodSummary(
            metadata=summary_metadata,
            status=_intern_phase(pod.status.phase),
            held=self._share_held(pod),
            daemon_on=intern(find_daemon_node(pod)),
        )

    def _share_labels(self, labels: Labels) -> Labels:
        if labels != self._labels:
            self._labels = {intern(key): intern(value) for key, value in labels.items()}
        return self._labels

    def _share_held(self, pod: Pod) -> ResourceAmounts:
        held = read_running_demand_or_empty(pod).amounts
        if held != self._held:
            self._held = tuple((intern(name), amount) for name, amount in held)
        return self._held


def find_daemon_node(pod: Pod) -> str:
    """The node of a pod that a DaemonSet made; empty for any other pod."""
    if isinstance(pod, PodSummary):
        return pod.daemon_on
    controller = pod.metadata.controller
    return pod.spec.node_name if controller is not None and controller.kind == _DAEMON_SET else ""


# The parts of a pod that decide what it holds; pods of one workload mostly share the very objects.
_Parts: TypeAlias = tuple[Any, ...]
# The number of different pods that are remembered.
_MAX_REMEMBERED: Final = 8_192


class PodDemands:
    """The amounts that pods use on their nodes, computed once (60 us) for all pods that share the same parts."""

    def __init__(self) -> None:
        # By the identities of the parts, which are referenced so that no other object gets their identities.
        self._demands: dict[tuple[int, ...], tuple[_Parts, ResourceAmounts]] = {}

    def find(self, pod: Pod) -> ResourceAmounts:
        """The amounts by resource, sorted."""
        if isinstance(pod, PodSummary):
            return pod.held
        spec, status = pod.spec, pod.status
        pending = status.find_condition(RESIZE_PENDING)
        parts: _Parts = (
            *(spec.containers, spec.init_containers, spec.overhead, spec.resources),
            *(status.container_statuses, status.init_container_statuses, status.resources, status.allocated_resources),
            intern(pending.reason) if pending is not None else None,
        )
        key = tuple(map(id, parts))
        cached = self._demands.get(key)
        if cached is None:
            if len(self._demands) >= _MAX_REMEMBERED:
                self._demands.clear()
            cached = self._demands[key] = (parts, read_running_demand_or_empty(pod).amounts)
        return cached[1]

    def is_relevant_change(self, old: Pod | None, new: Pod | None) -> bool:
        """Whether a change of a pod can affect a Buffer; most changes report that a container became ready."""
        if old is None or new is None:
            return True
        return is_live(old) is not is_live(new) or self._build_key(old) != self._build_key(new)

    def _build_key(self, pod: Pod) -> tuple[object, ...]:
        metadata = pod.metadata
        return (
            *(metadata.uid, metadata.generation, metadata.labels, _select_boosts(metadata.annotations)),
            *(self.find(pod), find_daemon_node(pod)),
        )


def is_relevant_workload_change(old: CountedTarget | None, new: CountedTarget | None) -> bool:
    """Whether a change of a workload can affect a Buffer: by its spec, its count, or its identity."""
    if old is None or new is None:
        return True
    return _build_workload_key(old) != _build_workload_key(new)


def count_replicas(workload: CountedTarget) -> int:
    """How many replicas a workload reports; a Job reports none."""
    return 0 if isinstance(workload, Job) else workload.status.replicas


def read_parallelism(workload: CountedTarget) -> int | None:
    """How many pods a Job asks for; other workloads have no such field."""
    return workload.spec.parallelism if isinstance(workload, CountedWorkload | Job) else None


def _build_workload_key(workload: CountedTarget) -> tuple[object, ...]:
    return workload.metadata.uid, workload.metadata.generation, count_replicas(workload)


@lru_cache(maxsize=16)
def _intern_phase(phase: str) -> PodStatus:
    return PodStatus(phase=intern(phase))


def _select_boosts(annotations: Mapping[str, str]) -> Labels:
    return {key: value for key, value in annotations.items() if key.startswith(BOOST_ANNOTATION_PREFIX)} or NOTHING
