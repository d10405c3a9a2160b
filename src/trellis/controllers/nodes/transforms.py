"""The transform of pods: it keeps what a pod requests of a node, who owns it, and what forbids its eviction.

A cluster has a hundred thousand pods, and those of one workload are mostly alike: what is equal is stored once.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import Condition, OwnerReference, PodMeta
from trellis.api.kube.pods import (
    POD_SCHEDULED,
    READY,
    RESIZE_PENDING,
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.boost.annotation import ANNOTATION_PREFIX
from trellis.core.nodes.scale_down.drainability import DO_NOT_DISRUPT, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT
from trellis.core.nodes.state.pods import MIRROR_POD_ANNOTATION

_CONDITIONS: Final = frozenset({POD_SCHEDULED, READY, RESIZE_PENDING})
_ANNOTATIONS: Final = frozenset({SAFE_TO_EVICT, SAFE_LOCAL_VOLUMES, DO_NOT_DISRUPT, MIRROR_POD_ANNOTATION})
# Fields of a spec that pods of one workload have alike, each of them on its own: some have volumes of their own.
_PARTS: Final = (
    "volumes",
    "init_containers",
    "containers",
    "node_selector",
    "affinity",
    "tolerations",
    "overhead",
    "topology_spread_constraints",
)
_RESIZED: Final = ("cpu", "memory")
# Workloads whose last pod is remembered.
_MOST_WORKLOADS: Final = 8_192


class PodTransform:
    """Makes pods small."""

    def __init__(self) -> None:
        self._last: dict[str, Pod] = {}

    def slim(self, found: Pod) -> Pod:
        """The same pod, smaller."""
        owner = found.metadata.controller
        like = self._last.get(owner.uid) if owner is not None else None
        pod = Pod(_metadata(found.metadata, owner, like), _spec(found.spec, like), _status(found))
        if owner is not None:
            if len(self._last) >= _MOST_WORKLOADS:
                self._last.clear()
            self._last[owner.uid] = pod
        return pod


def _metadata(found: PodMeta, owner: OwnerReference | None, like: Pod | None) -> PodMeta:
    labels: Labels = {intern(key): intern(value) for key, value in found.labels.items()} or NOTHING
    owners = (owner,) if owner is not None else ()
    if like is not None:
        labels = like.metadata.labels if like.metadata.labels == labels else labels
        owners = like.metadata.owner_references if like.metadata.owner_references == owners else owners
    return PodMeta(
        name=found.name,
        namespace=intern(found.namespace),
        uid=found.uid,
        resource_version=found.resource_version,
        deletion_timestamp=found.deletion_timestamp,
        labels=labels,
        annotations=_annotations(found.annotations),
        owner_references=owners,
    )


def _annotations(written: Labels) -> Labels:
    kept = {key: value for key, value in written.items() if key in _ANNOTATIONS or key.startswith(ANNOTATION_PREFIX)}
    return kept or NOTHING


def _spec(found: PodSpec, like: Pod | None) -> PodSpec:
    shared: dict[str, Any] = {}
    if like is not None:
        shared = {part: theirs for part in _PARTS if (theirs := getattr(like.spec, part)) == getattr(found, part)}
    return msgspec.structs.replace(
        found,
        **shared,
        node_name=intern(found.node_name),
        restart_policy=intern(found.restart_policy),
        scheduler_name=intern(found.scheduler_name),
        priority_class_name=intern(found.priority_class_name),
    )


def _status(found: Pod) -> PodStatus:
    status = found.status
    return PodStatus(
        phase=intern(status.phase),
        conditions=tuple(_condition(each.type, each.status, each.reason) for each in _conditions_read(status)),
        nominated_node_name=intern(status.nominated_node_name),
        init_container_statuses=_differing(found.spec.init_containers, status.init_container_statuses),
        container_statuses=_differing(found.spec.containers, status.container_statuses),
        allocated_resources=status.allocated_resources if found.spec.resources is not None else NOTHING,
        resources=status.resources if found.spec.resources is not None else None,
    )


def _conditions_read(status: PodStatus) -> tuple[Condition, ...]:
    return tuple(each for each in status.conditions if each.type in _CONDITIONS)


@lru_cache(maxsize=64)
def _condition(type_: str, status: str, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason)


def _differing(containers: tuple[Container, ...], reported: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    """What is reported of containers that have something else than their spec asks for: they are being resized."""
    specs = {each.name: each for each in containers}
    return tuple(
        ContainerStatus(name=each.name, allocated_resources=each.allocated_resources, resources=each.resources)
        for each in reported
        if each.resources is not None and each.name in specs and not _is_as_asked(specs[each.name], each)
    )


def _is_as_asked(container: Container, reported: ContainerStatus) -> bool:
    asked, allocated = container.resources.requests, reported.allocated_resources
    enforced = reported.resources.requests if reported.resources is not None else NOTHING
    return all(
        asked.get(name) == enforced.get(name) and allocated.get(name) in {None, asked.get(name)} for name in _RESIZED
    )
