"""Everything that a pod requests of a node, read once.

Pods of one template have equal demands, so what is computed for one of them holds for all. Rules about other pods go by
the pod's own name and labels, and are read only where its metadata is given.

A running pod holds what the scheduler counts since in-place resizes (`determineEffectiveRequests` in Kubernetes 1.36):
while the request, the allocated and the actual resources differ, the largest counts. An infeasible resize does not
count.

Host ports follow `GetHostPorts` and `HostPortInfo` in Kubernetes 1.36: a port on all addresses conflicts with the same
port and protocol on any address, and the reverse. Init containers that terminate take no port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import RESIZE_PENDING, Container, ContainerStatus, Pod, PodSpec
from trellis.base.errors import InvalidInput
from trellis.base.selectors import LabelRequirement
from trellis.core.fit.constraints.device_claims import DeviceDemand
from trellis.core.fit.constraints.node_affinity import NodeTerm, read_node_affinity, read_node_selector
from trellis.core.fit.constraints.pod_affinity import PodProfile, PodTerm, read_affinity_terms, read_pod_profile
from trellis.core.fit.constraints.taints import select_hard_tolerations
from trellis.core.fit.constraints.topology_spread import SpreadConstraint, read_spread_constraints
from trellis.core.fit.resources import (
    CPU,
    LARGEST_AMOUNT,
    MEMORY,
    PODS,
    ResourceCounts,
    compute_requests,
    count_from_nanos,
    is_counted_by_scheduler,
    parse_nanos_or_zero,
    read_overhead,
)

ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - how the scheduler writes it; nothing is bound here


class HostPort(NamedTuple):
    """A port of a node."""

    protocol: str
    port: int
    address: str


def list_host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod. On the host network all of its ports are host ports, as the API server defaults them."""
    return tuple(sorted(set(_host_ports(spec))))


def _host_ports(spec: PodSpec) -> Iterator[HostPort]:
    sidecars = (container for container in spec.init_containers if container.is_sidecar)
    for container in chain(spec.containers, sidecars):
        for written in container.ports:
            port = written.host_port or (written.container_port if spec.host_network else 0)
            if port > 0:
                yield HostPort(written.protocol or "TCP", port, written.host_ip or ALL_ADDRESSES)


ResourceAmounts: TypeAlias = tuple[tuple[str, int], ...]

_NONE: Mapping[str, ResourceCounts] = {}
_NO_COUNTS: ResourceCounts = {}
_NO_PROFILE = PodProfile()


class Demand(msgspec.Struct, frozen=True):
    """The requirements of a pod: resources that must be free, and what a node must have or be.

    `amounts` are millicores of CPU and units of other resources, in the order of their names and none of them zero; one
    of `pods` is always among them. `overhead` is the part of them that belongs to no container. One term of each of
    `volumes` must hold; a volume without terms is on no node. The same holds for each of `allocations`, of devices that
    claims of the pod have already. `profile` is what the rules of other pods match.
    """

    amounts: ResourceAmounts = ((PODS, 1),)
    overhead: ResourceAmounts = ()
    node_name: str = ""
    selector: tuple[LabelRequirement, ...] = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    allocations: tuple[tuple[NodeTerm, ...], ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    profile: PodProfile = _NO_PROFILE

    @classmethod
    def of(
        cls,
        spec: PodSpec,
        requests: Mapping[str, ResourceCounts] = _NONE,
        *,
        pod_overrides: ResourceCounts = _NO_COUNTS,
        moves: bool = False,
        metadata: ObjectMeta | None = None,
        volumes: tuple[tuple[NodeTerm, ...], ...] = (),
    ) -> Demand:
        """The demand of a pod or of a template.

        `requests` has, by container, counts that replace those of the spec; `pod_overrides` replace the pod-level
        requests. A pod that `moves` has the demand of a pod without a node. Without `metadata` the demand has no rules
        about other pods; `volumes` is the result of `find_volume_terms`.
        """
        overhead = read_overhead(spec)
        total = compute_requests(spec, requests, pod_overrides)
        for name, nanos in overhead.items():
            total[name] = total.get(name, 0) + nanos
        return cls(
            amounts=tuple(sorted((*_amounts(total), (PODS, 1)))),
            overhead=_amounts(overhead),
            node_name="" if moves else spec.node_name,
            selector=read_node_selector(spec),
            node_affinity=read_node_affinity(spec),
            tolerations=select_hard_tolerations(spec.tolerations),
            ports=list_host_ports(spec),
            volumes=volumes,
            pod_affinity=read_affinity_terms(spec, metadata) if metadata is not None else (),
            spread=read_spread_constraints(spec, metadata) if metadata is not None else (),
            profile=read_pod_profile(spec, metadata) if metadata is not None else _NO_PROFILE,
        )

    @property
    def requests(self) -> ResourceCounts:
        """The amounts by resource, without resources that are not requested."""
        return dict(self.amounts)

    def with_devices(self, devices: DeviceDemand) -> Demand:
        """The demand with that of the pod's resource claims."""
        if not (devices.amounts or devices.allocations):
            return self
        amounts = tuple(sorted((*self.amounts, *devices.amounts)))
        return msgspec.structs.replace(self, amounts=amounts, allocations=devices.allocations)

    def without(self, resource: str) -> Demand:
        """The demand without one resource."""
        others = tuple(amount for amount in self.amounts if amount[0] != resource)
        return msgspec.structs.replace(self, amounts=others)


def _amounts(nanos: Mapping[str, int]) -> ResourceAmounts:
    # One more than any node can have, so that larger amounts fit nowhere.
    counts = (
        (name, count_from_nanos(name, amount, LARGEST_AMOUNT + 1))
        for name, amount in nanos.items()
        if is_counted_by_scheduler(name)
    )
    return tuple(sorted(count for count in counts if count[1]))


_RESIZED = (CPU, MEMORY)


def read_running_demand(pod: Pod) -> Demand:
    """The demand of a placed pod. Raises `InvalidInput` if an amount cannot be read."""
    status = pod.status
    pending = status.find_condition(RESIZE_PENDING)
    infeasible = pending is not None and pending.reason == "Infeasible"
    reported = {
        container.name: container for container in (*status.container_statuses, *status.init_container_statuses)
    }
    requests = dict(_list_allocations(_list_resizable(pod), reported, infeasible))
    pod_requests = pod.spec.resources.requests if pod.spec.resources is not None else {}
    pod_overrides: ResourceCounts = {}
    if pod_requests and status.resources is not None:
        sources = [status.resources.requests, status.allocated_resources]
        allocated = _find_largest(sources if infeasible else [pod_requests, *sources])
        pod_overrides = {name: allocated.get(name, 0) for name in _RESIZED if name in pod_requests}
    return Demand.of(pod.spec, requests, pod_overrides=pod_overrides)


def read_running_demand_or_empty(pod: Pod) -> Demand:
    """The demand of a placed pod; with an amount that cannot be read, only that of a pod slot."""
    try:
        return read_running_demand(pod)
    except InvalidInput:
        return Demand()


def _list_resizable(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.containers
    yield from (container for container in pod.spec.init_containers if container.is_sidecar)


def _list_allocations(
    containers: Iterable[Container], reported: Mapping[str, ContainerStatus], infeasible: bool
) -> Iterator[tuple[str, ResourceCounts]]:
    for container in containers:
        status = reported.get(container.name)
        if status is None or status.resources is None:
            continue
        sources = [status.resources.requests, status.allocated_resources]
        allocated = _find_largest(sources if infeasible else [container.resources.requests, *sources])
        # A resource that the status does not name is not allocated, even if the spec has it.
        yield container.name, {name: allocated.get(name, 0) for name in _RESIZED}


def _find_largest(sources: Iterable[Mapping[str, str]]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for source in sources:
        for name in _RESIZED:
            if name in source:
                largest[name] = max(
                    largest.get(name, 0), count_from_nanos(name, parse_nanos_or_zero(source[name]), LARGEST_AMOUNT)
                )
    return largest
