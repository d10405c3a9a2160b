"""Slices of pods that the recommender and Hvpas watch: owners, requests, and how containers ended."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.kube.observed_pods import (
    ObservedAmounts,
    ObservedCondition,
    ObservedContainer,
    ObservedContainerStatus,
    ObservedPod,
    ObservedPodMeta,
    ObservedPodSpec,
    ObservedPodStatus,
    ObservedResizePolicy,
    ObservedResources,
    ObservedState,
    ObservedTermination,
)
from trellis.api.kube.pods import Container, ContainerState, ContainerStatus, Pod, ResourceRequirements
from trellis.core.hvpa.view_builder import HvpaPod, HvpaPodMeta

_NO_STATE = ObservedState()


def to_observed_pod(pod: Pod) -> ObservedPod:
    """The slice of a pod."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return ObservedPod(
        ObservedPodMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            owner_references=metadata.owner_references,
            generation=metadata.generation,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=metadata.labels,
            managed_fields=metadata.managed_fields,
        ),
        ObservedPodSpec(tuple(map(_container, spec.init_containers)), tuple(map(_container, spec.containers))),
        ObservedPodStatus(
            status.phase,
            status.start_time,
            tuple(ObservedCondition(condition.type, condition.status) for condition in status.conditions),
            tuple(map(_status, status.init_container_statuses)),
            tuple(map(_status, status.container_statuses)),
        ),
    )


def to_hvpa_pod(pod: Pod) -> HvpaPod:
    """The slice that an Hvpa reads."""
    observed = to_observed_pod(pod)
    metadata = HvpaPodMeta(**msgspec.structs.asdict(observed.metadata), annotations=pod.metadata.annotations)
    return HvpaPod(metadata, observed.spec, observed.status)


def _container(container: Container) -> ObservedContainer:
    policies = tuple(
        ObservedResizePolicy(policy.resource_name, policy.restart_policy) for policy in container.resize_policy
    )
    return ObservedContainer(container.name, _resources(container.resources), container.restart_policy, policies)


def _status(status: ContainerStatus) -> ObservedContainerStatus:
    resources = _resources(status.resources) if status.resources is not None else None
    return ObservedContainerStatus(status.name, _state(status.state), _state(status.last_state), resources)


def _state(state: ContainerState) -> ObservedState:
    ended = state.terminated
    if ended is not None:
        return ObservedState(terminated=ObservedTermination(ended.reason, ended.started_at, ended.finished_at))
    return ObservedState(state.running) if state.running is not None else _NO_STATE


def _resources(resources: ResourceRequirements) -> ObservedResources:
    return ObservedResources(_amounts(resources.limits), _amounts(resources.requests))


def _amounts(written: Mapping[str, str]) -> ObservedAmounts:
    return ObservedAmounts(written.get("cpu", ""), written.get("memory", ""))
