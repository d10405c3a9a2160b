"""What of a pod do sizes depend on?

Ordinary containers and native sidecars are sized. Init containers that end are not: they are gone before anybody knows
what they use. They count all the same, for the pod's class and for what it needs while it starts.

A template is read as the pod that the API server makes of it: a limit without a request is also the request, and a pod
with limits of its own has requests of its own (Kubernetes 1.34).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.pods import PodSpec
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import PodContainer
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.core.sizing.qos import QosClass, qos_of
from trellis.core.sizing.totals import Stage, most_needed, stages

_NONE: Counts = {}
_NEVER: frozenset[str] = frozenset()
_RESTARTS = "RestartContainer"


class Place(StrEnum):
    """The list of a pod's spec in which a container stands."""

    CONTAINERS = "containers"
    INIT = "initContainers"


class ContainerShape(PodContainer, frozen=True):
    """A container: where it stands, what it has, and what its spec says in the spec's own words.

    `requests` and `limits` are what sizes are made from: those of the spec, or others (`PodShape.with_resources`).
    `written` is always the spec's, because patches change the spec, and so is `declared` where it differs.
    """

    place: Place = Place.CONTAINERS
    index: int = 0
    restarts_on: frozenset[str] = _NEVER
    written: Resources = Resources()
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
    plain_inits: tuple[ContainerShape, ...] = ()
    has_own_resources: bool = False
    pod_requests: Counts = _NONE
    pod_limits: Counts = _NONE
    init_peak: Counts = _NONE
    qos: QosClass = QosClass.BEST_EFFORT

    @classmethod
    def of(cls, spec: PodSpec) -> PodShape:
        """The shape of a pod, or of a template."""
        ordinary = [_shape(each, Place.CONTAINERS, index) for index, each in enumerate(spec.containers)]
        if not spec.init_containers and spec.resources is None:
            # As most pods are.
            return cls(tuple(ordinary), qos=qos_of(_amounts(ordinary)))
        inits = [_shape(each, Place.INIT, index) for index, each in enumerate(spec.init_containers)]
        sidecars = [each for each in inits if spec.init_containers[each.index].is_sidecar]
        plain = [each for each in inits if not spec.init_containers[each.index].is_sidecar]
        bare = cls((*ordinary, *sidecars), tuple(plain), spec.resources is not None)
        requests, limits = _own_resources(spec.resources, bare)
        return msgspec.structs.replace(
            bare,
            pod_requests=requests,
            pod_limits=limits,
            init_peak=_most(bare, bare.stages[1:]) if plain else _NONE,
            qos=qos_of([(requests, limits)] if bare.has_own_resources else _amounts((*bare.containers, *plain))),
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Which containers run at the same time; positions are those in `containers` and `plain_inits`."""
        sidecars = [(place, each.index) for place, each in enumerate(self.containers) if each.place is Place.INIT]
        return stages(len(self.containers), sidecars, [each.index for each in self.plain_inits])

    def with_resources(self, by_name: Mapping[str, Resources]) -> PodShape:
        """The same pod with other amounts for some containers: those in force, or those it had before a boost."""
        return msgspec.structs.replace(
            self,
            containers=tuple(
                _with_resources(each, by_name[each.name]) if each.name in by_name else each for each in self.containers
            ),
        )


def _shape(container: Container, place: Place, index: int) -> ContainerShape:
    written = container.resources
    requests, limits = counts(written.requests), counts(written.limits)
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
    return frozenset(each.resource_name for each in container.resize_policy if each.restart_policy == _RESTARTS)


def _with_resources(container: ContainerShape, resources: Resources) -> ContainerShape:
    limits = counts(resources.limits)
    return msgspec.structs.replace(
        container, requests=limits | counts(resources.requests), limits=limits, declared=container.in_spec
    )


def _amounts(containers: Iterable[ContainerShape]) -> list[tuple[Counts, Counts]]:
    return [(each.requests, each.limits) for each in containers]


def _own_resources(own: Resources | None, pod: PodShape) -> tuple[Counts, Counts]:
    """The pod's own requests and limits; requests that are left out are filled in only beside some limit."""
    if own is None:
        return _NONE, _NONE
    requests, limits = counts(own.requests), counts(own.limits)
    return (limits | _most(pod, pod.stages) | requests if own.limits else requests), limits


def _most(pod: PodShape, when: Sequence[Stage]) -> dict[str, int]:
    """What the containers request at these stages; what none of them names, be it as zero, is left out."""
    found = {}
    for resource in RESOURCES:
        if any(resource in each.requests for each in (*pod.containers, *pod.plain_inits)):
            amounts = [each.requests.get(resource, 0) for each in pod.containers]
            inits = [each.requests.get(resource, 0) for each in pod.plain_inits]
            found[resource] = most_needed(when, amounts, inits)
    return found
