"""Nodes of a dump, and the node groups of which more can be ordered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import READY, Pod
from trellis.base.json_lines import encode_payload
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.base.quantities import Quantity
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import KnownNodeGroups
from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, PODS
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.sim.fleet import Document, NodePool, NodeShape, SimulatedWorkload
from trellis.sim.results import NotPlayedObjects
from trellis.sim.scenario.nodes import compile_nodes
from trellis.sim.scenario.usage import parse_amount

_HOST_NAME: Final = "kubernetes.io/hostname"


def build_pools(groups: KnownNodeGroups, ledger: NotPlayedObjects) -> tuple[NodePool, ...]:
    """The node groups, each with the nodes that run; one that cannot be read is not simulated."""
    for name, problem in groups.problems:
        ledger.add("node group", f"{name or 'a document'} is invalid: {problem}")
    return tuple(_pool(state) for state in groups.states)


def build_nodes(
    collected: ClusterState, groups: KnownNodeGroups, static: Mapping[str, Sequence[Pod]], ledger: NotPlayedObjects
) -> tuple[NodeShape, ...]:
    """Ready nodes of no group, equal ones together; what static pods request is not offered."""
    grouped = {instance.node for state in groups.states for instance in state.instances}
    shapes: dict[bytes, tuple[Document, int]] = {}
    for node in collected.nodes:
        if node.metadata.name in grouped:
            continue
        if any(condition.type == READY and condition.status != "True" for condition in node.status.conditions):
            ledger.add("Node", "not ready")
            continue
        document = _document(node, static.get(node.metadata.name, ()))
        key = msgspec.json.encode(document, order="sorted")
        shapes[key] = (document, shapes[key][1] + 1 if key in shapes else 1)
    return tuple(
        NodeShape(f"node{number}", count, document, _price(document, EXAMPLE_PRICES))
        for number, (document, count) in enumerate(shapes.values(), start=1)
    )


def assume_nodes(workloads: Sequence[SimulatedWorkload]) -> tuple[NodeShape, ...]:
    """Enough nodes for all pods, where a dump has none."""
    return compile_nodes(None, workloads, EXAMPLE_PRICES)


def _pool(state: GroupState) -> NodePool:
    group = state.group
    running = state.count(InstanceState.RUNNING)
    return NodePool(
        name=group.name,
        count=running,
        document=msgspec.json.decode(encode_payload(group.template)),
        price=group.price,
        max_size=group.max_size,
        min_size=group.min_size,
        boot_seconds=group.boot_seconds,
        priority=group.priority,
    )


def _document(node: Node, static: Iterable[Pod]) -> Document:
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOST_NAME}
    offered = dict(node.status.allocatable or node.status.capacity)
    for pod in static:
        offered = _without(offered, pod)
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels},
        "spec": msgspec.json.decode(encode_payload(msgspec.structs.replace(node.spec, provider_id=""))),
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "nodeInfo": msgspec.json.decode(encode_payload(node.status.node_info)),
        },
    }
    return document


def _without(offered: dict[str, str], pod: Pod) -> dict[str, str]:
    """What a node offers to other pods than this one."""
    remaining = dict(offered)
    for name, request in Demand.of(pod.spec).requests.items():
        if name == PODS or name not in remaining:
            continue
        quantity = Quantity.parse(remaining[name])
        milli = quantity.milli - (request if name == CPU else request * 1000)
        remaining[name] = str(Quantity.from_milli(max(milli, 0)))
    return remaining


def _price(node: Document, prices: Prices) -> float:
    offered = node["status"]["allocatable"]
    return prices.cost_per_hour(parse_amount(offered.get("cpu")), parse_amount(offered.get("memory")))
