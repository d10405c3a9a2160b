"""Nodes and node groups of a scenario, as manifests, counted and priced."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from trellis.api.kinds.kwok_node_group import GROUP_LABEL
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.scenario.nodes import DEFAULT_BOOT_TIME, ScenarioNodeGroup, ScenarioNodes
from trellis.base.prices import Prices
from trellis.core.cluster.node_manifest import build_node_manifest
from trellis.sim.fleet import NodePool, NodeShape, SimulatedWorkload
from trellis.sim.scenario.usage import parse_amount, parse_seconds

# Headroom for rollouts, boosts and growth above the first requests.
_HEADROOM_FACTOR: Final = 4 / 3
_GIB: Final = 2.0**30
_PODS: Final = 110
_DAEMON_SET: Final = "DaemonSet"
_DEFAULT: Final = ScenarioNodes(name="node", cpu="8", memory="32Gi")
# The first version whose kubelets resize in place without a gate, and report it in conditions.
_KUBELET: Final = "v1.34.0"


Amounts: TypeAlias = tuple[float, float, float]
Shape: TypeAlias = ScenarioNodes | ScenarioNodeGroup


def compile_nodes(
    written: Sequence[ScenarioNodes] | None, workloads: Sequence[SimulatedWorkload], prices: Prices
) -> tuple[NodeShape, ...]:
    """Every node shape with its count; a last one without a count gets enough for first requests and a third more."""
    requested = [sum(amounts) for amounts in zip(*(_workload_request(workload) for workload in workloads), strict=True)]
    daemon_requests = [
        sum(amounts) for amounts in zip(*(_daemon_request(workload) for workload in workloads), strict=True)
    ]
    counted: list[NodeShape] = []
    for shape in written or (_DEFAULT,):
        # What the pods of DaemonSets leave of each node; a node that they fill is no help.
        offered = tuple(
            max(capacity - daemon_share, 0.0)
            for capacity, daemon_share in zip(_offered(shape), daemon_requests, strict=True)
        )
        pairs = [(request, capacity) for request, capacity in zip(requested, offered, strict=True) if capacity]
        count = shape.count or max(
            [1, *(math.ceil(_HEADROOM_FACTOR * request / capacity) for request, capacity in pairs)]
        )
        requested = [
            max(0.0, request - capacity * count / _HEADROOM_FACTOR)
            for request, capacity in zip(requested, offered, strict=True)
        ]
        counted.append(NodeShape(shape.name, count, _document(shape, {}), _price(shape, prices)))
    return tuple(counted)


def compile_pools(written: Sequence[ScenarioNodeGroup] | None, prices: Prices) -> tuple[NodePool, ...]:
    """Every node group, with its initial nodes."""
    return tuple(_pool(group, prices) for group in written or ())


def find_unschedulable_pods(
    nodes: Sequence[ScenarioNodes] | None,
    groups: Sequence[ScenarioNodeGroup] | None,
    workloads: Sequence[SimulatedWorkload],
) -> Iterator[tuple[int, str]]:
    """The number of each workload whose pods are larger than any node, and the resource that they have too much of."""
    shapes: Sequence[Shape] = (*(nodes or ()), *(groups or ()))
    offers = [_offered(shape) for shape in shapes or (_DEFAULT,)]
    for number, workload in enumerate(workloads):
        demand = _pod_request(workload)
        if not any(demand[0] <= offer[0] and demand[1] <= offer[1] for offer in offers):
            yield (
                number,
                (f"a pod requests {demand[0]:g} CPU and {demand[1] / _GIB:.3g}Gi of memory, more than any node has"),
            )


def _pool(group: ScenarioNodeGroup, prices: Prices) -> NodePool:
    least = group.min_size or 0
    return NodePool(
        name=group.name,
        count=least if group.size is None else group.size,
        document=_document(group, {GROUP_LABEL: group.name}),
        price=_price(group, prices),
        max_size=group.max_size or 0,
        min_size=least,
        boot_seconds=parse_seconds(group.boot_time or DEFAULT_BOOT_TIME),
        priority=group.priority or 0,
    )


def _price(shape: Shape, prices: Prices) -> float:
    """The given price, or the price of its CPU and memory."""
    return prices.cost_per_hour(*_offered(shape)[:2]) if shape.price is None else shape.price


def _offered(shape: Shape) -> Amounts:
    return parse_amount(shape.cpu), parse_amount(shape.memory), float(shape.pods or _PODS)


def _daemon_request(workload: SimulatedWorkload) -> Amounts:
    return _pod_request(workload) if workload.kind == _DAEMON_SET else (0.0, 0.0, 0.0)


def _workload_request(workload: SimulatedWorkload) -> Amounts:
    if workload.kind == _DAEMON_SET:
        return 0.0, 0.0, 0.0
    cpu, memory, pods = _pod_request(workload)
    return workload.replicas * cpu, workload.replicas * memory, workload.replicas * pods


def _pod_request(workload: SimulatedWorkload) -> Amounts:
    containers = convert_object(workload.template, PodTemplateSpec).spec.containers
    requests = [container.resources.requests for container in containers]
    cpu, memory = (sum(parse_amount(request.get(resource)) for request in requests) for resource in ("cpu", "memory"))
    return cpu, memory, 1.0


def _document(shape: Shape, further_labels: dict[str, str]) -> dict[str, Any]:
    """A Node manifest without a name; its capacity is allocatable in full."""
    offered = {"cpu": str(shape.cpu), "memory": str(shape.memory), "pods": str(shape.pods or _PODS)}
    return build_node_manifest(offered, {**(shape.labels or {}), **further_labels}, shape.taints, _KUBELET)
