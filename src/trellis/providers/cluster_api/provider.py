"""The provider clusterapi: orders Machines by replicas, and releases each by its name.

A release only marks a Machine. As soon as a decrease removes exactly the marked Machines of a group, `tend` names them
for deletion and then lowers the replicas. So releases at the same time, a rollout, a pause, and a process that is
killed in between cost no other Machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.api.cluster_api.machines import ClusterApiMachine, InfrastructureTemplate
from trellis.base.reasons import DetailedReason
from trellis.base.times import format_micro_time
from trellis.core.nodes.node_groups import GroupState, InstanceState, find_order_problem, find_release_problems
from trellis.kube.write.actions import Action, PatchObject, PatchScale, build_target
from trellis.kube.write.patches import merge_patch
from trellis.providers.cluster_api.declarations import InvalidMachineGroup
from trellis.providers.cluster_api.objects import (
    ClusterApiObjects,
    GroupScope,
    MachineGroup,
    Resources,
    TemplateKey,
    Templates,
    build_resources,
    find_groups,
)
from trellis.providers.cluster_api.replicas import (
    RELEASED,
    WANTED,
    ReplicaChange,
    ReplicaCounts,
    count_replicas,
    is_released,
    plan_order,
    plan_settlement,
)
from trellis.providers.cluster_api.states import (
    NodeIndex,
    build_instance_id,
    build_state,
    find_suspension,
    needs_infrastructure,
)
from trellis.providers.protocol import UNKNOWN_GROUP, GroupProblem, Groups, Ordered, Released, Steps, Tended

# The value of Cluster API's annotation on Machines that this provider names.
NAMED: Final = "trellis"

ReadObjects = Callable[[], Awaitable[ClusterApiObjects]]
ReadTemplate = Callable[[TemplateKey, float], Awaitable[InfrastructureTemplate | DetailedReason]]


class ClusterApiProvider:
    """Groups of Machines. Each call calls `read_objects` once, which raises if its caches are not current."""

    name: str = "clusterapi"

    def __init__(
        self,
        read_objects: ReadObjects,
        read_template: ReadTemplate,
        scope: GroupScope = GroupScope(),  # noqa: B008 - frozen
        resources: Callable[[], Resources] = build_resources,
    ) -> None:
        self._read_objects = read_objects
        self._read_template = read_template
        self._scope = scope
        self._resources = resources

    async def groups(self, now: float, /) -> Groups:
        """Each group with its Machines; a group that cannot be used is a problem and stops no other."""
        return (await self._build_view(now)).build_groups(now)

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """Raise the replicas of a group, conditional on the version that the order was planned on."""
        view = await self._build_view(now, group)
        members = view.find(group)
        if members is None:
            return Ordered(error=_build_unknown_group(group))
        try:
            state = view.build_state(members, now)
        except InvalidMachineGroup as error:
            return Ordered(error=error.reason)
        refused = find_order_problem(state, target)
        if refused is not None:
            return Ordered(error=refused)
        if target <= state.target:
            return Ordered()
        counts = count_replicas(members)
        return Ordered(steps=((self._build_change(members, counts, plan_order(counts, target)),),))

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Mark Machines as released."""
        view = await self._build_view(now, group)
        members = view.find(group)
        if members is None:
            return Released(refused=dict.fromkeys(instances, _build_unknown_group(group)))
        try:
            state = view.build_state(members, now)
        except InvalidMachineGroup as error:
            return Released(refused=dict.fromkeys(instances, error.reason))
        refused = find_release_problems(state, instances)
        released = tuple(instance for instance in dict.fromkeys(instances) if instance not in refused)
        leaving = {instance.id for instance in state.instances if instance.state is InstanceState.LEAVING}
        machines = {build_instance_id(machine): machine for machine in members.machines}
        marks = (self._build_mark(machines[name], now) for name in released if name not in leaving)
        return Released(released, _build_steps(marks), refused)

    async def tend(self, now: float, /) -> Tended:
        """Carry out releases, and finish orders."""
        view = await self._build_view(now, "")
        # One step, so that a write of one group that is refused keeps back none of another.
        return Tended(_build_steps(action for members in view.groups for action in self._tend_group(members, now)))

    async def _build_view(self, now: float, group: str | None = None) -> _MachineGroupsView:
        """The view; with templates of the infrastructure for all groups, for one group, or with "" for none."""
        objects = await self._read_objects()
        groups = await asyncio.to_thread(find_groups, objects, self._scope)
        nodes = NodeIndex(objects.nodes)
        keys = dict.fromkeys(
            members.template_key
            for members in groups
            if group in (None, members.name) and needs_infrastructure(members, nodes)
        )
        found = await asyncio.gather(*(self._read_template(key, now) for key in keys))
        return _MachineGroupsView(self._scope, groups, nodes, dict(zip(keys, found, strict=True)))

    def _tend_group(self, members: MachineGroup, now: float) -> Iterable[Action]:
        """The writes of a group: first those of its Machines, and when the cache shows them that of its replicas.

        By then Cluster API has been sent the names as well: it reads Machines and replicas by different watches.
        """
        is_suspended = find_suspension(members, f"{self._scope.group}/paused", self._scope.group) is not None
        if members.written.spec.replicas is None or is_suspended:
            return ()
        counts = count_replicas(members)
        settlement = plan_settlement(counts)
        live = [machine for machine in members.machines if machine.metadata.deletion_timestamp is None]
        surplus = [machine for machine in live if not is_released(machine) and not machine.status.node_ref.name]
        surplus.sort(key=_by_age, reverse=True)
        if settlement.surplus and surplus:
            return [self._build_mark(machine, now) for machine in surplus[: settlement.surplus]]
        named = list(self._name_machines(live, names=settlement.names))
        if named or settlement.change is None:
            return named
        return [self._build_change(members, counts, settlement.change)]

    def _name_machines(self, live: Iterable[ClusterApiMachine], *, names: bool) -> Iterable[Action]:
        """Name released Machines, and take the annotation off all others: they would be removed in their place.

        At any other time it is only taken off Machines that this provider named and are not released any more.
        """
        key = f"{self._scope.group}/delete-machine"
        for machine in live:
            value = machine.metadata.annotations.get(key)
            if is_released(machine):
                if names and value is None:
                    yield self._annotate(machine, {key: NAMED})
            elif value is not None and (names or value == NAMED):
                yield self._annotate(machine, {key: None})

    def _build_mark(self, machine: ClusterApiMachine, now: float) -> Action:
        return self._annotate(machine, {RELEASED: format_micro_time(datetime.fromtimestamp(now, UTC))})

    def _annotate(self, machine: ClusterApiMachine, annotations: Mapping[str, str | None]) -> Action:
        target = build_target(self._resources().machines, machine, with_version=False)
        return PatchObject(target, merge_patch({"metadata": {"annotations": annotations}}))

    def _build_change(self, members: MachineGroup, counts: ReplicaCounts, change: ReplicaChange) -> Action:
        """The write of new replicas; with that of the annotation, so that neither is there without the other."""
        target = build_target(self._resources().scalable(members.kind), members.written)
        if change.wanted is None and counts.wanted is None:
            return PatchScale(target, change.replicas)
        wanted = None if change.wanted is None else str(change.wanted)
        document: dict[str, Any] = {
            "metadata": {"annotations": {WANTED: wanted}},
            "spec": {"replicas": change.replicas},
        }
        return PatchObject(target, merge_patch(document))


class _MachineGroupsView(msgspec.Struct, frozen=True):
    """The groups, nodes and infrastructure templates at one moment."""

    scope: GroupScope
    groups: list[MachineGroup]
    nodes: NodeIndex
    templates: Templates

    def find(self, name: str) -> MachineGroup | None:
        return next((members for members in self.groups if members.name == name), None)

    def build_state(self, members: MachineGroup, now: float) -> GroupState:
        self._check_cluster(members)
        return build_state(members, self.scope, self.nodes, self.templates.get(members.template_key), now)

    def build_groups(self, now: float) -> Groups:
        states: list[GroupState] = []
        problems: list[GroupProblem] = []
        for members in self.groups:
            try:
                states.append(self.build_state(members, now))
            except InvalidMachineGroup as error:
                problems.append(GroupProblem(members.name, error.reason))
        return Groups(tuple(states), tuple(problems))

    def _check_cluster(self, members: MachineGroup) -> None:
        """Refuse all groups if it is not known which of them have the nodes of this cluster."""
        names = sorted({other.written.spec.cluster_name for other in self.groups})
        if not self.scope.cluster and len(names) > 1:
            rule = f"the groups belong to the Clusters {', '.join(names)}: name one with --cluster-api-cluster-name"
            raise InvalidMachineGroup(members, "spec.clusterName", rule)


def _by_age(machine: ClusterApiMachine) -> tuple[float, str]:
    created = machine.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0, machine.metadata.name


def _build_unknown_group(group: str) -> DetailedReason:
    return DetailedReason(UNKNOWN_GROUP, f"the node group {group} does not exist")


def _build_steps(actions: Iterable[Action]) -> Steps:
    step = tuple(actions)
    return (step,) if step else ()
