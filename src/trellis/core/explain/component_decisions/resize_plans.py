"""Makes the updater's plans for the pods of one namespace, from the collected state.

Nothing is remembered of earlier attempts: they are known to the updater's process alone. Whether a successor would fit
is checked only if the pods of all namespaces are known, because nodes would otherwise seem emptier than they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.registry import HVPA, VPA
from trellis.core.boost.phases import PodBoostPhases
from trellis.core.cluster.dump_format import NOT_SERVED
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, key_of
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.resize.candidates import read_boost_phases, restore_unboosted_shape
from trellis.core.resize.planner import PlanResult, UpdateMemory, UpdatePlanner, is_lease_renewed
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.core.resize.view import PodView, WorkloadView
from trellis.core.sizing.governors import compile_hvpa_governor, compile_vpa_governor
from trellis.core.sizing.sizes import PodSize, size_pod


class ResizeEvidence(msgspec.Struct, frozen=True):
    """Plans by workload, and by uid: pods as they were read for them, the sizes they should have, and their boosts.

    `sized` says whether an admission controller sizes the pods that come after evictions, None if that is unknown;
    `has_headroom` is whether headroom on nodes was computed.
    """

    plans: Mapping[WorkloadKey, PlanResult]
    views: Mapping[str, PodView]
    sizes: Mapping[str, PodSize]
    phases: Mapping[str, PodBoostPhases]
    sized: bool | None
    has_headroom: bool


def run_updater(collected: ClusterState, namespace: str, components: CollectedSettings, now: float) -> ResizeEvidence:
    """Plans for all workloads of a namespace that something governs, made together: they share budgets."""
    has_headroom = has_all_nodes_and_pods(collected)
    cache = _workload_cache(collected, namespace, has_headroom=has_headroom)
    memory = UpdateMemory(cache, components.updates)
    planner = UpdatePlanner(components.updates, NodeHeadroom(counts_all=True) if has_headroom else None)
    workloads = (*cache.governors.list_in_namespace(namespace), *cache.list_ungoverned(namespace))
    plans = planner.plan_all(memory.build_batch(workloads, now))
    sized = _is_sized(collected, components, now)
    results = {
        result.snapshot.workload: result
        for result in memory.filter_evictions(plans, is_admission_live=sized is not False)
    }
    views: dict[str, PodView] = {}
    sizes: dict[str, PodSize] = {}
    phases: dict[str, PodBoostPhases] = {}
    for snapshot in (result.snapshot for result in results.values()):
        governor = snapshot.governor
        for pod in snapshot.pods:
            uid = pod.metadata.uid
            view = views[uid] = PodView.from_pod(pod)
            sizes[uid] = size_pod(restore_unboosted_shape(view), governor.advice, governor.vpa, snapshot.limits)
            phases[uid] = read_boost_phases(WorkloadView(governor, (view,)), view, now, components.updates)
    return ResizeEvidence(results, views, sizes, phases, sized, has_headroom)


def _workload_cache(collected: ClusterState, namespace: str, *, has_headroom: bool) -> WorkloadCache:
    withdraws = has_all_governors(collected)
    cache = WorkloadCache(tracks_headroom=has_headroom, withdraws_in=lambda _namespace: withdraws)
    for vpa in collected.vpas.by_index(BY_NAMESPACE, namespace):
        cache.put_governor(vpa.kind, key_of(vpa), compile_vpa_governor(vpa), vpa.metadata.annotations)
    for hvpa in collected.hvpas.by_index(BY_NAMESPACE, namespace):
        cache.put_governor(hvpa.kind, key_of(hvpa), compile_hvpa_governor(hvpa), hvpa.metadata.annotations)
    for kind, snapshot in collected.workloads.items():
        for workload in snapshot.by_index(BY_NAMESPACE, namespace):
            cache.put_workload(kind, key_of(workload), None, workload)
    for pod in collected.pods if has_headroom else collected.pods.by_index(BY_NAMESPACE, namespace):
        cache.put_pod(key_of(pod), None, pod)
    cache.put_limits(namespace, collected.limit_ranges.by_index(BY_NAMESPACE, namespace))
    for node in collected.nodes:
        cache.put_node(node.metadata.name, node)
    for entry in collected.namespaces:
        cache.put_namespace(entry.metadata.name, entry.metadata.annotations)
    for hpa in collected.hpas.by_index(BY_NAMESPACE, namespace):
        cache.put_hpa(key_of(hpa), None, hpa)
    cache.put_freeze_config(collected.freeze)
    cache.put_scales(collected.scales)
    return cache


def has_all_governors(collected: ClusterState) -> bool:
    """Whether all VPAs and Hvpas could be read: otherwise one of them may govern a pod that seems to have none."""
    hidden = {missing.what.partition(" ")[0] for missing in collected.missing if missing.why != NOT_SERVED}
    return not hidden & {VPA.name, HVPA.name}


def has_all_nodes_and_pods(collected: ClusterState) -> bool:
    """Whether all nodes and all pods are known."""
    about = collected.about
    hidden = {missing.what.partition(" ")[0] for missing in collected.missing}
    is_complete = (about.everywhere or about.all_pods) and not hidden & {"Pod", "Node", "Namespace"}
    return is_complete and len(collected.nodes) > 0


def _is_sized(collected: ClusterState, components: CollectedSettings, now: float) -> bool | None:
    """Whether evictions may go on; None if the Lease could not be seen."""
    if not components.heeds_admission:
        return True
    lease = collected.leases.get(*components.admission_lease)
    if lease is not None:
        return is_lease_renewed(lease, components.admission_timeout, now)
    return None if any(missing.what.startswith("Lease") for missing in collected.missing) else False
