"""The pod that a chunk is modelled on, and the part of its spec that scheduling reads.

The newest live pod stands for all pods of a target: it is what the target makes now.

Requests, selectors, affinity, tolerations, spread, host ports, priority, overhead, runtime class and scheduler: this
and nothing else of a pod is published. What a pod got from the node it runs on, or is given by the API server on its
way there, is left out as well. The scheduler reads no limits, but where no request is written the limit is the request,
and is written as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec

from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import Container, ContainerPort, PodSpec, ResourceRequirements
from trellis.api.kube.slices import NOTHING, Labels, Quantities
from trellis.core.fit.resources import is_pod_level_resource

_FINISHED: Final = ("Succeeded", "Failed")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class _PodMetadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def creation_timestamp(self) -> datetime | None: ...
    @property
    def deletion_timestamp(self) -> datetime | None: ...


class _PodStatus(Protocol):
    @property
    def phase(self) -> str: ...


class AnyPod(Protocol):
    """A pod, in any slice of its fields."""

    @property
    def metadata(self) -> _PodMetadata:
        """Its name, and the times of its creation and deletion."""

    @property
    def status(self) -> _PodStatus:
        """Its status."""


P = TypeVar("P", bound=AnyPod)


def is_live(pod: AnyPod) -> bool:
    """Whether a pod is neither finished nor being deleted."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def find_newest_live(pods: Iterable[P]) -> P | None:
    """The newest live pod; of equally new pods the last by name."""
    live = [pod for pod in pods if is_live(pod)]
    return max(live, key=lambda pod: (pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.name), default=None)


# The tolerations that admission adds to every pod for a limited time.
_DEFAULT_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Labels that differ between pods of a workload, or say where a pod runs.
_PER_POD_LABELS: Final = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_ALWAYS: Final = "Always"


def select_scheduling_fields(spec: PodSpec) -> PodSpec:
    """The fields of a pod that scheduling reads, as a new pod of the same workload would have them."""
    return PodSpec(
        init_containers=tuple(_build_container(container, spec, is_init=True) for container in spec.init_containers),
        containers=tuple(_build_container(container, spec, is_init=False) for container in spec.containers),
        node_selector=spec.node_selector or NOTHING,
        host_network=spec.host_network,
        affinity=spec.affinity,
        scheduler_name=spec.scheduler_name,
        tolerations=tuple(toleration for toleration in spec.tolerations if not _is_default_toleration(toleration)),
        priority_class_name=spec.priority_class_name,
        priority=spec.priority,
        runtime_class_name=spec.runtime_class_name,
        overhead=spec.overhead or NOTHING,
        topology_spread_constraints=spec.topology_spread_constraints,
        resources=_select_pod_level_requests(spec),
    )


def select_shared_labels(labels: Labels) -> dict[str, str]:
    """The labels that all pods of the workload share; rules about other pods match them."""
    return {name: value for name, value in labels.items() if name not in _PER_POD_LABELS}


def to_document(spec: PodSpec) -> dict[str, Any]:
    """A spec as a JSON document; equal specs have equal documents."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec, order="deterministic"))
    return document


def _build_container(container: Container, spec: PodSpec, *, is_init: bool) -> Container:
    return Container(
        name=container.name,
        ports=_select_ports(container.ports, host_network=spec.host_network),
        resources=ResourceRequirements(requests=_read_requests(container.resources)),
        restart_policy=_ALWAYS if is_init and container.is_sidecar else "",
    )


def _read_requests(resources: ResourceRequirements) -> Quantities:
    return {**resources.limits, **resources.requests} or NOTHING


def _select_ports(ports: Iterable[ContainerPort], *, host_network: bool) -> tuple[ContainerPort, ...]:
    """The host ports; on the host network all ports are host ports."""
    host_ports = (msgspec.structs.replace(port, host_port=port.host_port or port.container_port) for port in ports)
    return tuple(host_ports) if host_network else tuple(port for port in ports if port.host_port)


def _select_pod_level_requests(spec: PodSpec) -> ResourceRequirements | None:
    """The pod-level requests: a limit counts as a request if no container requests the resource."""
    resources = spec.resources
    if resources is None:
        return None
    requested = {
        name for container in (*spec.containers, *spec.init_containers) for name in _read_requests(container.resources)
    }
    from_limits = {name: text for name, text in resources.limits.items() if _is_request(name, requested)}
    requests: Mapping[str, str] = {**from_limits, **resources.requests}
    return ResourceRequirements(requests=requests) if requests else None


def _is_request(name: str, requested: set[str]) -> bool:
    return is_pod_level_resource(name) and (name not in requested or name.startswith("hugepages-"))


def _is_default_toleration(toleration: Toleration) -> bool:
    return toleration.toleration_seconds is not None and toleration.key in _DEFAULT_TOLERATIONS
