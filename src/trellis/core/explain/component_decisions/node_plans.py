"""Makes the node autoscaler's plans for scale-up and scale-down, from the collected state.

What it remembers from plan to plan is not known here. A node with its leaving taint is taken for one that it is
removing, one with its soft taint for unneeded since the time in it, and chunks of Buffers for being where a plan would
put them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.workloads import DaemonSet
from trellis.core.cluster.dump_format import DEVICE_KINDS
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, key_of
from trellis.core.explain.component_decisions.resize_plans import has_all_nodes_and_pods
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES, DeviceObjects
from trellis.core.nodes import (
    ClusterSnapshot,
    DetailedReason,
    GroupState,
    ScaleDownInput,
    ScaleDownMemory,
    ScaleDownPlan,
    ScaleUpMemory,
    ScaleUpPlan,
)
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, PassInput, PassPlans, plan_pass
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.scale_down.decisions import NODE_NOT_SIMULATED, NodeDecision, SetTaints
from trellis.core.nodes.scale_down.plan import plan_scale_down
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval
from trellis.core.nodes.scale_down.removal_steps import read_leaving_time
from trellis.core.nodes.scale_down.soft_taints import read_unneeded_time
from trellis.core.nodes.scale_up.plan import plan_scale_up
from trellis.core.nodes.state.recommended_sizes import GovernorKey, RecommendedSizes, SizingSources
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor


class KnownNodeGroups(msgspec.Struct, frozen=True):
    """The node groups of a provider, and the problems of those that cannot be used, by name.

    `declared` is False if no declaration of node groups was found.
    """

    states: tuple[GroupState, ...] = ()
    problems: tuple[tuple[str, DetailedReason], ...] = ()
    declared: bool = False


class NodeEvidence(msgspec.Struct, frozen=True):
    """All nodes and pods as they were read, and both plans. `view` is what the plan for fewer nodes was made from."""

    snapshot: ClusterSnapshot
    view: ScaleDownInput
    down: ScaleDownPlan
    up: ScaleUpPlan
    memory: ScaleDownMemory
    groups: KnownNodeGroups
    components: CollectedSettings
    now: float

    def find_decision(self, node: str) -> NodeDecision | None:
        """The decision about a node. One that was not tried in the plan is decided by a plan that tries it first."""
        decision = _decision(self.down, node)
        if decision is None or decision.reason.reason != NODE_NOT_SIMULATED:
            return decision
        first = msgspec.structs.replace(self.memory, unneeded_since={node: self.now})
        return _decision(plan_scale_down(self.view, first, self.now, self.components.nodes_down), node)

    def find_later_decision(self, node: str, at: float) -> NodeDecision | None:
        """The decision about a node at a time, if nothing changes until then."""
        plan = plan_scale_down(self.view, self.down.memory, at, self.components.nodes_down)
        return _decision(plan, node)


def run_node_autoscaler(
    collected: ClusterState, groups: KnownNodeGroups, components: CollectedSettings, now: float
) -> NodeEvidence | None:
    """Both plans; None if not all nodes and pods are known."""
    if not has_all_nodes_and_pods(collected):
        return None
    storage = build_storage(collected)
    snapshot = build_node_snapshot(collected, groups, storage, components.expendable_below)
    _put_recommended_sizes(snapshot, collected, components)
    chunk_nodes = plan_scale_up(snapshot, ScaleUpMemory(), now, components.nodes_up).memory.chunk_nodes
    removals = ScaleDownMemory(
        unneeded_since=dict(_find_unneeded_times(snapshot, now)),
        removals={removal.node: removal for removal in _find_removals(snapshot, now)},
    )
    holds_resizes = components.nodes_up.scale_up_for_resizes
    view = ScaleDownInput(snapshot, tuple(collected.pdbs), chunk_nodes, holds_resizes=holds_resizes)
    memory = AutoscalerMemory(ScaleUpMemory(chunk_nodes=chunk_nodes), removals)
    plans = _plan(snapshot, PassInput(groups.states, view.budgets, memory, now), components)
    return NodeEvidence(snapshot, view, plans.down, plans.up, removals, groups, components, now)


def build_node_snapshot(
    collected: ClusterState, groups: KnownNodeGroups, storage: Storage, expendable_below: int
) -> ClusterSnapshot:
    """Build the snapshot of all collected objects. Volumes come before the pods that have them."""
    snapshot = ClusterSnapshot(expendable_below)
    for namespace in collected.namespaces:
        snapshot.put_namespace(namespace.metadata.name, namespace.metadata.labels)
    snapshot.put_storage(storage)
    snapshot.put_devices(build_devices(collected))
    for node in collected.nodes:
        snapshot.put_node(node.metadata.name, node)
    for pod in collected.pods:
        snapshot.put_pod(key_of(pod), pod)
    for buffer in collected.buffers:
        snapshot.put_buffer(key_of(buffer), with_uid(buffer))
    for daemon_set in collected.workloads[DaemonSet.__name__]:
        if isinstance(daemon_set, DaemonSet):
            snapshot.put_daemon_set(key_of(daemon_set), daemon_set)
    snapshot.put_groups(groups.states)
    return snapshot


def _put_recommended_sizes(snapshot: ClusterSnapshot, collected: ClusterState, components: CollectedSettings) -> None:
    """What VPAs and Hvpas recommend for the pods of the snapshot."""
    governors: dict[GovernorKey, Governor] = {}
    for vpa in collected.vpas:
        if (governor := compile_vpa_governor(vpa)) is not None:
            governors[vpa.kind, *key_of(vpa)] = governor
    for hvpa in collected.hvpas:
        governors[hvpa.kind, *key_of(hvpa)] = compile_hvpa_governor(hvpa)
    sources = SizingSources(
        governors.items,
        {kind: workloads.get for kind, workloads in collected.workloads.items()},
        partial(collected.limit_ranges.by_index, BY_NAMESPACE),
        components.boosts,
    )
    sizes = RecommendedSizes(len(collected.pods), len(collected.pods))
    sizes.note_changes(dict(collected.pods.objects))
    for key, size in sizes.find_changes(snapshot.placed, sources).items():
        snapshot.put_recommended_size(key, size)


def with_uid(buffer: Buffer) -> Buffer:
    """A Buffer with a UID, by which its chunks are known: its name, where it was collected without one."""
    if buffer.metadata.uid:
        return buffer
    metadata = msgspec.structs.replace(buffer.metadata, uid="/".join(key_of(buffer)))
    return msgspec.structs.replace(buffer, metadata=metadata)


def build_storage(collected: ClusterState) -> Storage:
    """All claims, volumes and classes."""
    return Storage(
        claims=collected.claims.objects,
        volumes={volume.metadata.name: volume for volume in collected.volumes},
        classes={storage_class.metadata.name: storage_class for storage_class in collected.storage_classes},
    )


def build_devices(collected: ClusterState) -> DeviceObjects:
    """All resource claims, templates and published devices; not known where not all of them were collected."""
    claims, templates, slices = (
        collected.device_claims,
        collected.device_claim_templates,
        collected.resource_slices,
    )
    is_missing = any(missing.what.partition(" ")[0] in DEVICE_KINDS for missing in collected.missing)
    if is_missing or not (claims.objects or templates.objects or slices.objects):
        return UNKNOWN_DEVICES
    return DeviceObjects(
        claims=claims.objects,
        templates=templates.objects,
        slices={resource_slice.metadata.name: resource_slice for resource_slice in slices},
    )


def _find_removals(snapshot: ClusterSnapshot, now: float) -> Iterator[NodeRemoval]:
    """The removals that nodes with a mark may be part of, as if all pods on them had been there from the start."""
    for name, node in snapshot.nodes.items():
        since, instance_in_group = read_leaving_time(node), snapshot.node_instances.instances.get(name)
        if since is None or instance_in_group is None or instance_in_group[1].state is InstanceState.LEAVING:
            continue
        movable = [placed.pod.metadata.uid for placed in snapshot.pods_on(name).values() if placed.is_drained]
        pods = frozenset(movable)
        group, instance = instance_in_group
        began = min(since, now)
        yield NodeRemoval(
            name, node.metadata.uid, group, instance.id, began, now, pods, bool(pods), len(pods), tainted_at=began
        )


def _find_unneeded_times(snapshot: ClusterSnapshot, now: float) -> Iterator[tuple[str, float]]:
    """Since when nodes with a soft taint are unneeded."""
    for name, node in snapshot.nodes.items():
        since = read_unneeded_time(node)
        if since is not None:
            yield name, min(since, now)


def _plan(snapshot: ClusterSnapshot, pass_input: PassInput, components: CollectedSettings) -> PassPlans:
    """Plan a pass, and take the taints that it sets off the snapshot again."""
    nodes = dict(snapshot.nodes)
    plans = plan_pass(snapshot, pass_input, AutoscalerSettings(components.nodes_up, components.nodes_down))
    for action in plans.down.actions:
        if isinstance(action, SetTaints):
            snapshot.put_node(action.node, nodes[action.node])
    return plans


def _decision(plan: ScaleDownPlan, node: str) -> NodeDecision | None:
    return next((decision for decision in plan.nodes if decision.node == node), None)
