"""Pod shapes: the parts of a pod that its size depends on, and the totals that it needs at a time.

Ordinary containers and native sidecars are sized. Init containers that end are not: they have ended before their usage
is known. They count all the same, for the pod's QoS class and for what it needs while it starts.

A template is read as the pod that the API server makes of it: a limit without a request is also the request, and a pod
with limits of its own has requests of its own (Kubernetes 1.34).

While an init container runs, native sidecars that were started before it run too; after the last one, all ordinary
containers and sidecars run. The most that is needed at any of these stages is what the scheduler sets aside, and what
LimitRanges and the pod's own resources are compared with.

The quality-of-service class follows the rules of Kubernetes 1.36 (`ComputePodQOS`): a container is Guaranteed if it has
limits of CPU and memory and equal requests, BestEffort if it has none of the four. A pod is what all of its containers
are, init containers among them, and Burstable if they differ. Where the pod has resources of its own, these alone
decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from trellis.api.kube.pods import Container, PodSpec, ResourceRequirements
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, parse_amounts
from trellis.core.recommend.capping import PodContainer


class QosClass(StrEnum):
    """The classes there are. A resize that would change the class of a pod is refused."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def compute_qos(resources: Iterable[tuple[ResourceAmounts, ResourceAmounts]]) -> QosClass:
    """The class of a pod whose containers have these requests and limits."""
    classes = {_container_qos(requests, limits) for requests, limits in resources} or {QosClass.BEST_EFFORT}
    return classes.pop() if len(classes) == 1 else QosClass.BURSTABLE


def _container_qos(requests: ResourceAmounts, limits: ResourceAmounts) -> QosClass:
    """Zero is "not set"."""
    limited = 0
    for resource in RESOURCES:
        limit = limits.get(resource, 0)
        if requests.get(resource, 0) != limit:
            return QosClass.BURSTABLE
        limited += limit > 0
    if not limited:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if limited == len(RESOURCES) else QosClass.BURSTABLE


class StartupStage(msgspec.Struct, frozen=True):
    """Containers that run at the same time, by their positions; at most one of them is an init container that ends."""

    running: tuple[int, ...]
    init: int | None = None


def list_startup_stages(
    container_count: int, sidecars: Sequence[tuple[int, int]], inits: Sequence[int]
) -> tuple[StartupStage, ...]:
    """The stages of a pod: first the last one, in which all that is sized runs.

    Of sidecars the position among what is sized and the index among init containers are given, of init containers that
    end the index.
    """
    starting = (
        StartupStage(tuple(position for position, index in sidecars if index < init_index), init)
        for init, init_index in enumerate(inits)
    )
    return StartupStage(tuple(range(container_count))), *starting


def sum_stage(stage: StartupStage, amounts: Sequence[int], inits: Sequence[int]) -> int:
    """What one stage needs."""
    return sum(amounts[position] for position in stage.running) + (inits[stage.init] if stage.init is not None else 0)


def sum_largest_stage(all_stages: Sequence[StartupStage], amounts: Sequence[int], inits: Sequence[int]) -> int:
    """What the pod needs."""
    return max(sum_stage(stage, amounts, inits) for stage in all_stages)


_NONE: ResourceAmounts = {}
_NEVER: frozenset[str] = frozenset()
_RESTARTS = "RestartContainer"


class ContainerList(StrEnum):
    """The list of a pod's spec in which a container stands."""

    CONTAINERS = "containers"
    INIT = "initContainers"


class ContainerShape(PodContainer, frozen=True):
    """A container: where it stands, what it has, and what its spec says in the spec's own words.

    `requests` and `limits` are what sizes are made from: those of the spec, or others (`PodShape.with_resources`).
    `written` is always the spec's, because patches change the spec, and so is `declared` where it differs.
    """

    place: ContainerList = ContainerList.CONTAINERS
    index: int = 0
    restarts_on: frozenset[str] = _NEVER
    written: ResourceRequirements = ResourceRequirements()
    declared: PodContainer | None = None

    @property
    def in_spec(self) -> PodContainer:
        """What the spec says, in millicores and bytes: what the API server judges."""
        return self.declared or self


class PodShape(msgspec.Struct, frozen=True):
    """A pod as far as sizes depend on it: first the ordinary containers in order, then native sidecars.

    `init_peak` is the most that is needed at a time while init containers run. With `has_own_resources` the pod has
    requests or limits of its own, which bound those of its containers.
    """

    containers: tuple[ContainerShape, ...]
    init_containers: tuple[ContainerShape, ...] = ()
    has_pod_resources: bool = False
    pod_requests: ResourceAmounts = _NONE
    pod_limits: ResourceAmounts = _NONE
    init_peak: ResourceAmounts = _NONE
    qos: QosClass = QosClass.BEST_EFFORT

    @classmethod
    def from_spec(cls, spec: PodSpec) -> PodShape:
        """The shape of a pod, or of a template."""
        ordinary = [
            _shape(container, ContainerList.CONTAINERS, index) for index, container in enumerate(spec.containers)
        ]
        if not spec.init_containers and spec.resources is None:
            # As most pods are.
            return cls(tuple(ordinary), qos=compute_qos(_amounts(ordinary)))
        inits = [_shape(container, ContainerList.INIT, index) for index, container in enumerate(spec.init_containers)]
        sidecars = [container for container in inits if spec.init_containers[container.index].is_sidecar]
        completing = [container for container in inits if not spec.init_containers[container.index].is_sidecar]
        without_resources = cls((*ordinary, *sidecars), tuple(completing), spec.resources is not None)
        requests, limits = _resolve_pod_resources(spec.resources, without_resources)
        return msgspec.structs.replace(
            without_resources,
            pod_requests=requests,
            pod_limits=limits,
            init_peak=_largest_requests(without_resources, without_resources.stages[1:]) if completing else _NONE,
            qos=compute_qos(
                [(requests, limits)]
                if without_resources.has_pod_resources
                else _amounts((*without_resources.containers, *completing))
            ),
        )

    @property
    def stages(self) -> tuple[StartupStage, ...]:
        """Which containers run at the same time; positions are those in `containers` and `plain_inits`."""
        sidecars = [
            (place, container.index)
            for place, container in enumerate(self.containers)
            if container.place is ContainerList.INIT
        ]
        return list_startup_stages(
            len(self.containers), sidecars, [container.index for container in self.init_containers]
        )

    def with_resources(self, by_name: Mapping[str, ResourceRequirements]) -> PodShape:
        """The same pod with other amounts for some containers: those in force, or those it had before a boost."""
        return msgspec.structs.replace(
            self,
            containers=tuple(
                _with_resources(container, by_name[container.name]) if container.name in by_name else container
                for container in self.containers
            ),
        )


def _shape(container: Container, place: ContainerList, index: int) -> ContainerShape:
    written = container.resources
    requests, limits = parse_amounts(written.requests), parse_amounts(written.limits)
    return ContainerShape(
        container.name,
        limits | requests if limits else requests,
        limits,
        place,
        index,
        _restarts(container) if container.resize_policy else _NEVER,
        written,
    )


def _restarts(container: Container) -> frozenset[str]:
    return frozenset(policy.resource_name for policy in container.resize_policy if policy.restart_policy == _RESTARTS)


def _with_resources(container: ContainerShape, resources: ResourceRequirements) -> ContainerShape:
    limits = parse_amounts(resources.limits)
    return msgspec.structs.replace(
        container, requests=limits | parse_amounts(resources.requests), limits=limits, declared=container.in_spec
    )


def _amounts(containers: Iterable[ContainerShape]) -> list[tuple[ResourceAmounts, ResourceAmounts]]:
    return [(container.requests, container.limits) for container in containers]


def _resolve_pod_resources(
    resources: ResourceRequirements | None, pod: PodShape
) -> tuple[ResourceAmounts, ResourceAmounts]:
    """The pod's own requests and limits; requests that are left out are filled in only beside some limit."""
    if resources is None:
        return _NONE, _NONE
    requests, limits = parse_amounts(resources.requests), parse_amounts(resources.limits)
    return (limits | _largest_requests(pod, pod.stages) | requests if resources.limits else requests), limits


def _largest_requests(pod: PodShape, stages: Sequence[StartupStage]) -> dict[str, int]:
    """What the containers request at these stages; what none of them names, be it as zero, is left out."""
    largest = {}
    for resource in RESOURCES:
        if any(resource in container.requests for container in (*pod.containers, *pod.init_containers)):
            amounts = [container.requests.get(resource, 0) for container in pod.containers]
            inits = [container.requests.get(resource, 0) for container in pod.init_containers]
            largest[resource] = sum_largest_stage(stages, amounts, inits)
    return largest


_WINDOWS = "windows"


def is_resizable(spec: PodSpec) -> bool:
    """Whether the API server lets such a pod be resized at all: not if it is for Windows (Kubernetes 1.36)."""
    return spec.os is None or spec.os.name != _WINDOWS
