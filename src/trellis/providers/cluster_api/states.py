"""Groups of Machines as node groups: their description, their instances, and why their size cannot change now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trellis.api.cluster_api.machines import ClusterApiMachine, InfrastructureTemplate
from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidTime
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.times import parse_time
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup, estimate_price
from trellis.providers.cluster_api.declarations import read_declaration
from trellis.providers.cluster_api.objects import GroupScope, MachineGroup, ScalableKind
from trellis.providers.cluster_api.replicas import RELEASED, Phase, count_replicas, is_released
from trellis.providers.cluster_api.templates import build_template, read_devices

MACHINE_GROUP_PAUSED = Reason(
    "MachineGroupPaused", "The group of Machines or its Cluster is paused, or is being deleted.", Severity.WARNING
)
TOPOLOGY_SETS_REPLICAS = Reason(
    "TopologySetsReplicas",
    "The topology of the Cluster sets the replicas of the group, and would undo every change.",
    Severity.WARNING,
)
MACHINES_ROLLING_OUT = Reason(
    "MachinesRollingOut", "Machines of the group are being replaced, and the rollout may remove another one."
)
POOL_WITHOUT_MACHINES = Reason(
    "MachinePoolWithoutMachines",
    "The MachinePool has no Machines, so that it cannot be said which of its nodes is to be removed.",
)
MACHINE_FAILED = Reason("MachineFailed", "Cluster API reports that the Machine failed to start.", Severity.WARNING)

# Taints of nodes whose labels, taints and addresses are not complete yet: no pod can be placed there.
_UNINITIALIZED: Final = ("node.cluster.x-k8s.io/uninitialized", "node.cloudprovider.kubernetes.io/uninitialized")

# How long a node takes where none is there to tell.
_USUAL_BOOT_SECONDS: Final = 180.0


class NodeIndex:
    """Nodes by name and by provider id."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_name: dict[str, Node] = {}
        self._by_provider_id: dict[str, Node] = {}
        for node in nodes:
            self._by_name[node.metadata.name] = node
            if node.spec.provider_id:
                self._by_provider_id[node.spec.provider_id] = node

    def find(self, machine: ClusterApiMachine) -> Node | None:
        """The node of a Machine: Cluster API notes its name later than its provider id."""
        named = self._by_name.get(machine.status.node_ref.name) if machine.status.node_ref.name else None
        return named or (self._by_provider_id.get(machine.spec.provider_id) if machine.spec.provider_id else None)

    def find_by_provider_id(self, provider_id: str) -> Node | None:
        """The node of a provider id."""
        return self._by_provider_id.get(provider_id)


def build_state(
    group: MachineGroup,
    scope: GroupScope,
    nodes: NodeIndex,
    infrastructure: InfrastructureTemplate | DetailedReason | None,
    now: float,
) -> GroupState:
    """The state of a group; raises `InvalidMachineGroup`."""
    declared = read_declaration(group, scope)
    counts = count_replicas(group)
    pairs = [(machine, nodes.find(machine)) for machine in group.machines]
    instances = [_build_instance(machine, node, now) for machine, node in pairs]
    if not group.has_machines:
        instances = list(_list_pool_instances(group, nodes))
    older = [node for _, node in pairs if node is not None and _is_usable(node)]
    template = build_template(group, infrastructure, list_sample_nodes(group, nodes), older)
    node_group = NodeGroup(
        name=group.name,
        template=template,
        max_size=declared.max_size,
        min_size=declared.min_size,
        price=declared.price if declared.price is not None else estimate_price(template),
        boot_seconds=_measure_boot(pairs),
        priority=declared.priority,
        options=declared.options,
        devices=read_devices(group),
    )
    suspended = find_suspension(group, f"{scope.group}/paused", scope.group)
    removals_suspended = None
    if not group.has_machines:
        removals_suspended = DetailedReason(POOL_WITHOUT_MACHINES)
    elif counts.phase is Phase.ROLLING_OUT:
        removals_suspended = DetailedReason(MACHINES_ROLLING_OUT, f"{group.name} is rolling out")
    return GroupState(node_group, counts.target, tuple(instances), suspended, removals_suspended)


def needs_infrastructure(group: MachineGroup, nodes: NodeIndex) -> bool:
    """Whether the infrastructure template must be read to know what a node of the group has."""
    return bool(group.template_key.name) and not list_sample_nodes(group, nodes)


def list_sample_nodes(group: MachineGroup, nodes: NodeIndex) -> list[Node]:
    """The ready nodes of a group, which tell what the next ones have. Those of an old template do not."""
    newest = group.newest_set
    uid = newest.metadata.uid if group.kind is ScalableKind.DEPLOYMENT and newest is not None else ""
    found = [
        nodes.find(machine)
        for machine in group.machines
        if not uid or ((owner := machine.metadata.controller) is not None and owner.uid == uid)
    ]
    if not group.has_machines:
        found = [nodes.find_by_provider_id(provider_id) for provider_id in group.written.spec.provider_id_list]
    return [node for node in found if node is not None and _is_usable(node)]


def find_suspension(group: MachineGroup, paused_annotation: str, api_group: str) -> DetailedReason | None:
    """Why the size of a group cannot change now; None if it can."""
    written, cluster = group.written, group.cluster
    for name, metadata in ((group.name, written.metadata), ("the Cluster", cluster.metadata if cluster else None)):
        if metadata is not None and paused_annotation in metadata.annotations:
            return DetailedReason(MACHINE_GROUP_PAUSED, f"{name} has the annotation {paused_annotation}")
        if metadata is not None and metadata.deletion_timestamp is not None:
            return DetailedReason(MACHINE_GROUP_PAUSED, f"{name} is being deleted")
    if cluster is None:
        return None
    if cluster.spec.paused:
        return DetailedReason(MACHINE_GROUP_PAUSED, f"the Cluster {cluster.metadata.name} has spec.paused")
    return _find_topology_problem(group, f"topology.{api_group}")


def _find_topology_problem(group: MachineGroup, prefix: str) -> DetailedReason | None:
    labels = group.written.metadata.labels
    if group.cluster is None or f"{prefix}/owned" not in labels:
        return None
    workers = group.cluster.spec.topology.workers
    pools = group.kind is ScalableKind.POOL
    name = labels.get(f"{prefix}/{'pool' if pools else 'deployment'}-name", "")
    field = "machinePools" if pools else "machineDeployments"
    for entry in workers.machine_pools if pools else workers.machine_deployments:
        if entry.name == name and entry.replicas is not None:
            where = f"spec.topology.workers.{field}[{name}].replicas of the Cluster {group.cluster.metadata.name}"
            return DetailedReason(TOPOLOGY_SETS_REPLICAS, f"{where} must be unset")
    return None


def build_instance_id(machine: ClusterApiMachine) -> str:
    """The id of an instance: a Machine has its provider id only later."""
    return f"{machine.metadata.namespace}/{machine.metadata.name}"


def _build_instance(machine: ClusterApiMachine, node: Node | None, now: float) -> Instance:
    metadata, instance_id = machine.metadata, build_instance_id(machine)
    name = node.metadata.name if node is not None else machine.status.node_ref.name
    created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else now
    if metadata.deletion_timestamp is not None:
        return Instance(instance_id, InstanceState.LEAVING, metadata.deletion_timestamp.timestamp(), name)
    if is_released(machine):
        return Instance(instance_id, InstanceState.LEAVING, _read_release_time(machine, created), name)
    if node is not None and _is_initialized(node):
        joined = node.metadata.creation_timestamp
        return Instance(instance_id, InstanceState.RUNNING, joined.timestamp() if joined is not None else created, name)
    failure = machine.status.failure
    if failure.failure_reason or failure.failure_message or machine.status.phase == "Failed":
        details = ": ".join(filter(None, (failure.failure_reason, failure.failure_message)))
        return Instance(
            instance_id, InstanceState.FAILED, created, name, DetailedReason(MACHINE_FAILED, details or "phase Failed")
        )
    return Instance(instance_id, InstanceState.ORDERED, created, name)


def _read_release_time(machine: ClusterApiMachine, otherwise: float) -> float:
    try:
        return parse_time(machine.metadata.annotations[RELEASED]).timestamp()
    except InvalidTime:
        return otherwise


def _list_pool_instances(group: MachineGroup, nodes: NodeIndex) -> Iterable[Instance]:
    """The instances of a MachinePool without Machines that are nodes; the others show in its target alone."""
    for provider_id in dict.fromkeys(group.written.spec.provider_id_list):
        node = nodes.find_by_provider_id(provider_id)
        if node is not None:
            joined = node.metadata.creation_timestamp
            since = joined.timestamp() if joined is not None else 0.0
            yield Instance(provider_id, InstanceState.RUNNING, since, node.metadata.name)


def _measure_boot(pairs: Sequence[tuple[ClusterApiMachine, Node | None]]) -> float:
    """The median time from a Machine to its node."""
    seconds = sorted(
        node.metadata.creation_timestamp.timestamp() - machine.metadata.creation_timestamp.timestamp()
        for machine, node in pairs
        if node is not None
        and node.metadata.creation_timestamp is not None
        and machine.metadata.creation_timestamp is not None
    )
    return max(0.0, round(seconds[len(seconds) // 2])) if seconds else _USUAL_BOOT_SECONDS


def _is_initialized(node: Node) -> bool:
    return not any(taint.key in _UNINITIALIZED for taint in node.spec.taints)


def _is_usable(node: Node) -> bool:
    return _is_initialized(node) and any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )
