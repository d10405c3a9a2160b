"""What would the updater do to the pods of one namespace, told what was collected? Its own plans.

Nothing is remembered of earlier attempts: only the process that made them knows those. Whether a successor would fit
is asked only if the pods of all namespaces are known, because nodes would else seem emptier than they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.kinds import HVPA, VPA
from trellis.core.boost.memory import before_boost, read_memory
from trellis.core.boost.phases import PodPhases
from trellis.core.explain.settings import Components
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import NOT_SERVED
from trellis.core.model.keys import BY_NAMESPACE, key_of
from trellis.core.resize.candidates import phases_of
from trellis.core.resize.gathering import Gathering
from trellis.core.resize.governed import Workload
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Planned, Planner
from trellis.core.resize.rooms import Rooms
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.resize.withheld import is_renewed
from trellis.core.sizing.governors import hvpa_governor, vpa_governor
from trellis.core.sizing.sizes import PodSize, size_pod


class Updated(msgspec.Struct, frozen=True):
    """Plans by workload, and by uid: pods as they were read for them, the sizes they should have, and their boosts.

    `sized` says whether somebody sizes the pods that come after evictions, None if nobody could see that; `rooms` is
    whether room on nodes was counted.
    """

    plans: Mapping[Workload, Planned]
    views: Mapping[str, PodView]
    sizes: Mapping[str, PodSize]
    phases: Mapping[str, PodPhases]
    sized: bool | None
    rooms: bool


def updated_in(collected: Collected, namespace: str, components: Components, now: float) -> Updated:
    """Plans for all workloads of a namespace that something governs, made together: they share budgets."""
    rooms = knows_rooms(collected)
    gathering = _gathered(collected, namespace, rooms=rooms)
    memory = Memory(gathering, components.updates)
    planner = Planner(components.updates, Rooms(must_know=True) if rooms else None)
    known = (*gathering.governed.in_namespace(namespace), *gathering.ungoverned(namespace))
    plans = planner.plan_all(memory.batch(known, now))
    sized = _is_sized(collected, components, now)
    found = {each.gathered.workload: each for each in memory.settled(plans, sized=sized is not False)}
    views: dict[str, PodView] = {}
    sizes: dict[str, PodSize] = {}
    phases: dict[str, PodPhases] = {}
    for gathered in (each.gathered for each in found.values()):
        governor = gathered.governor
        for pod in gathered.pods:
            uid = pod.metadata.uid
            view = views[uid] = PodView.of(pod)
            shape = before_boost(view.in_force, read_memory(pod.metadata.annotations))
            sizes[uid] = size_pod(shape, governor.advice, governor.vpa, gathered.limits)
            phases[uid] = phases_of(WorkloadView(governor, (view,)), view, now, components.updates)
    return Updated(found, views, sizes, phases, sized, rooms)


def _gathered(collected: Collected, namespace: str, *, rooms: bool) -> Gathering:
    gathering = Gathering(knows_rooms=rooms)
    withdraws = knows_governors(collected)
    gathering.withdraws_in = lambda _namespace: withdraws
    for vpa in collected.vpas.by(BY_NAMESPACE, namespace):
        gathering.put_governor(vpa.kind, key_of(vpa), vpa_governor(vpa), vpa.metadata.annotations)
    for hvpa in collected.hvpas.by(BY_NAMESPACE, namespace):
        gathering.put_governor(hvpa.kind, key_of(hvpa), hvpa_governor(hvpa), hvpa.metadata.annotations)
    for kind, snapshot in collected.workloads.items():
        for workload in snapshot.by(BY_NAMESPACE, namespace):
            gathering.put_workload(kind, key_of(workload), None, workload)
    for pod in collected.pods if rooms else collected.pods.by(BY_NAMESPACE, namespace):
        gathering.put_pod(key_of(pod), None, pod)
    gathering.put_limits(namespace, collected.limit_ranges.by(BY_NAMESPACE, namespace))
    for node in collected.nodes:
        gathering.put_node(node.metadata.name, node)
    for each in collected.namespaces:
        gathering.put_namespace(each.metadata.name, each.metadata.annotations)
    for hpa in collected.hpas.by(BY_NAMESPACE, namespace):
        gathering.put_hpa(key_of(hpa), None, hpa)
    gathering.put_switch(collected.freeze)
    gathering.put_scales(collected.scales)
    return gathering


def knows_governors(collected: Collected) -> bool:
    """Whether all VPAs and Hvpas could be read: otherwise one of them may govern a pod that seems to have none."""
    hidden = {each.what.partition(" ")[0] for each in collected.missing if each.why != NOT_SERVED}
    return not hidden & {VPA.name, HVPA.name}


def knows_rooms(collected: Collected) -> bool:
    """Whether all nodes and all pods are known."""
    about = collected.about
    hidden = {each.what.partition(" ")[0] for each in collected.missing}
    seen = (about.everywhere or about.all_pods) and not hidden & {"Pod", "Node", "Namespace"}
    return seen and len(collected.nodes) > 0


def _is_sized(collected: Collected, components: Components, now: float) -> bool | None:
    """Whether evictions may go on; None if the Lease could not be seen."""
    if not components.heeds_admission:
        return True
    lease = collected.leases.get(*components.admission_lease)
    if lease is not None:
        return is_renewed(lease, components.admission_timeout, now)
    return None if any(each.what.startswith("Lease") for each in collected.missing) else False
