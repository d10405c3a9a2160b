"""Explains a node: its group, why it is not removed, and which pods and chunks are on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.cluster.state import ClusterState
from trellis.core.explain.component_decisions.node_plans import KnownNodeGroups, NodeEvidence, run_node_autoscaler
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.explain.context import find_namespace_events
from trellis.core.explain.explanation.document import ObjectExplanation
from trellis.core.explain.explanation.node import NodeGroupPart, NodePart, NodePodPart, ResourceSharePart
from trellis.core.explain.explanation.values import QuantityTexts, ReasonPart, build_reason_part, format_timestamp
from trellis.core.explain.missing_evidence import find_missing_node_evidence, is_partial
from trellis.core.fit import Demand
from trellis.core.fit.devices import find_device_nodes
from trellis.core.fit.resources import PODS
from trellis.core.nodes.scale_down.decisions import NODE_UNNEEDED
from trellis.core.nodes.scale_down.drainability import DisruptionBudgets, find_device_problem, find_drain_problem
from trellis.core.nodes.scale_down.soft_taints import has_soft_taint
from trellis.core.nodes.scale_down.view import get_utilization_threshold
from trellis.core.nodes.settings import ScaleDownSettings, apply_options
from trellis.core.nodes.state.devices import DeviceClaims
from trellis.core.nodes.state.pods import PlacedPod


def build_node_part(node: Node, node_evidence: NodeEvidence | None) -> NodePart:
    """The part about a node; without plans, only its own state."""
    name = node.metadata.name
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    part = NodePart(name, ready)
    decision = node_evidence.find_decision(name) if node_evidence is not None else None
    if node_evidence is None or decision is None:
        return part
    later_decision = None
    if decision.reason.reason == NODE_UNNEEDED and decision.recheck_at is not None:
        later_decision = node_evidence.find_later_decision(name, decision.recheck_at)
    return msgspec.structs.replace(
        part,
        outcome=decision.outcome.value,
        decision=build_reason_part(decision.reason),
        used=decision.utilization,
        threshold=_get_threshold(node_evidence, name),
        since=format_timestamp(decision.since),
        next_check=format_timestamp(decision.recheck_at),
        later_decision=build_reason_part(later_decision.reason) if later_decision is not None else None,
        group=_group(node_evidence, name),
        shares=tuple(_build_share_parts(node_evidence, name)),
        pods=tuple(_build_pod_parts(node_evidence, name)),
        avoided=has_soft_taint(node),
        chunks=dict(sorted(_chunks(node_evidence, name).items())),
    )


def _get_threshold(node_evidence: NodeEvidence, name: str) -> float:
    settings = node_evidence.components.nodes_down
    member = node_evidence.snapshot.node_instances.instances.get(name)
    if member is not None:
        settings = apply_options(settings, node_evidence.snapshot.groups[member[0]].group.options)
    table = node_evidence.snapshot.table
    return get_utilization_threshold(settings, has_devices=bool(find_device_nodes(table)[table.find(name)]))


def _group(node_evidence: NodeEvidence, name: str) -> NodeGroupPart | None:
    instance_in_group = node_evidence.snapshot.node_instances.instances.get(name)
    if instance_in_group is None:
        return None
    state, instance = node_evidence.snapshot.groups[instance_in_group[0]], instance_in_group[1]
    group = state.group
    since = format_timestamp(instance.since)
    return NodeGroupPart(
        group.name, instance.state.value, since, state.target, group.min_size, group.max_size, group.price
    )


def _build_share_parts(node_evidence: NodeEvidence, name: str) -> Iterator[ResourceSharePart]:
    table, used = node_evidence.snapshot.table, node_evidence.snapshot.running.used
    number = table.find(name)
    for resource, row in table.resources.items():
        offered, requested = int(table.allocatable[row, number]), int(used.amounts[row, number])
        if offered or requested:
            yield ResourceSharePart(
                resource, format_resource_amount(resource, requested), format_resource_amount(resource, offered)
            )


def _build_pod_parts(node_evidence: NodeEvidence, name: str) -> Iterator[NodePodPart]:
    budgets, settings = DisruptionBudgets(node_evidence.view.budgets), node_evidence.components.nodes_down
    device_claims = node_evidence.snapshot.device_claims
    for (namespace, pod), placed in sorted(node_evidence.snapshot.pods_on(name).items()):
        fate, held = _determine_fate(placed, budgets, settings, device_claims)
        yield NodePodPart(namespace, pod, fate, _requests(placed.demand), held)


def _determine_fate(
    placed: PlacedPod, budgets: DisruptionBudgets, settings: ScaleDownSettings, device_claims: DeviceClaims
) -> tuple[str, ReasonPart | None]:
    if placed.is_fixed:
        return "fixed", None
    if placed.pod.metadata.deletion_timestamp is not None:
        return "going", None
    stays = find_drain_problem(placed, budgets, settings) or find_device_problem(placed, device_claims)
    if stays is not None:
        return "stay", build_reason_part(stays)
    # A removal does not wait for a pod that makes way for any other.
    refused = None if placed.is_expendable else budgets.find_eviction_problem(placed.pod)
    return "moved", build_reason_part(refused) if refused is not None else None


def _chunks(node_evidence: NodeEvidence, name: str) -> Counter[str]:
    chunks: Counter[str] = Counter()
    for decision in node_evidence.up.buffers:
        count = decision.nodes.count(name)
        if count:
            chunks["/".join(decision.key)] = count
    return chunks


def _requests(demand: Demand) -> QuantityTexts:
    return {name: format_resource_amount(name, amount) for name, amount in demand.amounts if name != PODS}


NODE_KIND: Final = "node"

# Where a cluster keeps Events about what is in no namespace.
_EVENTS_IN: Final = "default"


def explain_node(
    collected: ClusterState,
    name: str,
    groups: KnownNodeGroups,
    components: CollectedSettings | None = None,
    now: float | None = None,
) -> ObjectExplanation:
    """Explain a node; raises `InvalidInput` if there is none of that name."""
    node = collected.nodes.get("", name)
    if node is None:
        raise _build_unknown_node_error(collected, name)
    settings, at = components or CollectedSettings(), collected.time if now is None else now
    node_evidence = run_node_autoscaler(collected, groups, settings, at)
    part = build_node_part(node, node_evidence)
    missing = tuple(find_missing_node_evidence(collected, groups, settings, node_evidence))
    return ObjectExplanation(
        kind=NODE_KIND,
        namespace="",
        name=name,
        time=format_timestamp(at),
        node=part,
        events=tuple(find_namespace_events(collected, _EVENTS_IN, {("Node", name)})),
        missing=missing,
        partial=is_partial(missing),
    )


def _build_unknown_node_error(collected: ClusterState, name: str) -> InvalidInput:
    for missing in collected.missing:
        if missing.what in ("Node", f"Node {name}"):
            return InvalidInput(name, f"cannot be looked up as Node: {missing.why}")
    if ("", name) in collected.nodes.rejected:
        return InvalidInput(name, f"cannot be read: {collected.nodes.rejected['', name]}")
    guess = suggest_name(name, [node.metadata.name for node in collected.nodes])
    hint = f' (did you mean "{guess}"?)' if guess else "" if collected.is_complete else " (the dump is truncated)"
    return InvalidInput(name, f"there is no Node of that name{hint}")
