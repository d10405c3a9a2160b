"""The objects of Cluster API that the provider reads, and the groups of Machines that they form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from trellis.api.cluster_api.machines import (
    CLUSTER_API_GROUP,
    ClusterApiMachine,
    InfrastructureReference,
    InfrastructureTemplate,
    MachineCluster,
    ScalableMachines,
)
from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.base.selectors import Selector
from trellis.kube.resources import Resource

# The versions that are read, the best one first.
VERSIONS: Final = ("v1beta2", "v1beta1")

# By these annotations a MachineDeployment and its MachineSets are in step.
REVISION: Final = "machinedeployment.clusters.x-k8s.io/revision"


class ScalableKind(StrEnum):
    """The kinds that have replicas."""

    DEPLOYMENT = "MachineDeployment"
    SET = "MachineSet"
    POOL = "MachinePool"


class Resources(msgspec.Struct, frozen=True):
    """The resources of Cluster API in one version of its group."""

    clusters: Resource[MachineCluster]
    deployments: Resource[ScalableMachines]
    sets: Resource[ScalableMachines]
    pools: Resource[ScalableMachines]
    machines: Resource[ClusterApiMachine]

    def scalable(self, kind: ScalableKind) -> Resource[ScalableMachines]:
        """The resource of a kind that has replicas."""
        match kind:
            case ScalableKind.DEPLOYMENT:
                return self.deployments
            case ScalableKind.SET:
                return self.sets
            case ScalableKind.POOL:
                return self.pools


def build_resources(group: str = CLUSTER_API_GROUP, version: str = VERSIONS[0]) -> Resources:
    """The resources of a version."""

    def scalable(kind: ScalableKind) -> Resource[ScalableMachines]:
        return Resource(group, version, f"{kind.lower()}s", kind.value, True, ScalableMachines)

    return Resources(
        Resource(group, version, "clusters", "Cluster", True, MachineCluster),
        scalable(ScalableKind.DEPLOYMENT),
        scalable(ScalableKind.SET),
        scalable(ScalableKind.POOL),
        Resource(group, version, "machines", "Machine", True, ClusterApiMachine),
    )


class TemplateKey(NamedTuple):
    """A template of machines of an infrastructure provider."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


# A template that cannot be read has a reason in its place.
Templates = Mapping[TemplateKey, InfrastructureTemplate | DetailedReason]


class ClusterApiObjects(msgspec.Struct, frozen=True):
    """The objects of the management cluster, and the nodes."""

    clusters: Collection[MachineCluster] = ()
    deployments: Collection[ScalableMachines] = ()
    sets: Collection[ScalableMachines] = ()
    pools: Collection[ScalableMachines] = ()
    machines: Collection[ClusterApiMachine] = ()
    nodes: Collection[Node] = ()


class GroupScope(msgspec.Struct, frozen=True):
    """Which objects are groups. All Clusters count if `cluster` is empty."""

    group: str = CLUSTER_API_GROUP
    cluster: str = ""
    selector: Selector = Selector.everything()

    @property
    def min_size(self) -> str:
        """The annotation with the minimum size."""
        return f"{self.group}/cluster-api-autoscaler-node-group-min-size"

    @property
    def max_size(self) -> str:
        """The annotation with the maximum size."""
        return f"{self.group}/cluster-api-autoscaler-node-group-max-size"

    def covers(self, written: ScalableMachines) -> bool:
        """Whether an object is a group."""
        annotations = written.metadata.annotations
        return (
            (self.min_size in annotations or self.max_size in annotations)
            and self.cluster in ("", written.spec.cluster_name)
            and self.selector.matches(written.metadata.labels)
        )


class MachineGroup(msgspec.Struct, frozen=True):
    """An object that has replicas, with its Machines and its Cluster. A MachineDeployment has MachineSets as well."""

    kind: ScalableKind
    written: ScalableMachines
    machines: tuple[ClusterApiMachine, ...] = ()
    sets: tuple[ScalableMachines, ...] = ()
    cluster: MachineCluster | None = None

    @property
    def name(self) -> str:
        """The name of the group, as in Cluster Autoscaler."""
        return f"{self.kind}/{self.written.metadata.namespace}/{self.written.metadata.name}"

    @property
    def template_key(self) -> TemplateKey:
        """The infrastructure template of its Machines."""
        return build_template_key(self.written)

    @property
    def has_machines(self) -> bool:
        """Whether each of its nodes has a Machine: not in a MachinePool of a provider that makes none."""
        return self.kind is not ScalableKind.POOL or bool(self.machines) or not self.written.spec.provider_id_list

    @property
    def newest_set(self) -> ScalableMachines | None:
        """The MachineSet of a MachineDeployment that makes new Machines."""
        return max(self.sets, key=read_revision, default=None)


def build_template_key(written: ScalableMachines) -> TemplateKey:
    """The infrastructure template of the Machines of an object."""
    reference: InfrastructureReference = written.spec.template.spec.infrastructure_ref
    return TemplateKey(reference.group, reference.kind, written.metadata.namespace, reference.name)


def read_revision(written: ScalableMachines) -> tuple[int, str]:
    """The revision of a MachineDeployment or of one of its MachineSets; 0 if it has none yet."""
    text = written.metadata.annotations.get(REVISION, "")
    return (int(text) if text.isdecimal() else 0, written.metadata.name)


def find_groups(objects: ClusterApiObjects, scope: GroupScope) -> list[MachineGroup]:
    """The groups of a scope. MachineSets of a MachineDeployment are none, although they inherit its annotations."""
    clusters = {(cluster.metadata.namespace, cluster.metadata.name): cluster for cluster in objects.clusters}
    machines_by_owner, machines_by_pool = _index_machines(objects.machines, scope.group)
    sets_by_deployment: dict[str, list[ScalableMachines]] = {}
    for machine_set in objects.sets:
        owner = machine_set.metadata.controller
        if owner is not None:
            sets_by_deployment.setdefault(owner.uid, []).append(machine_set)

    def build(kind: ScalableKind, written: ScalableMachines) -> MachineGroup:
        uid, namespace = written.metadata.uid, written.metadata.namespace
        sets = tuple(sets_by_deployment.get(uid, ())) if kind is ScalableKind.DEPLOYMENT else ()
        machines: Iterable[ClusterApiMachine] = machines_by_owner.get(uid, ())
        if kind is ScalableKind.POOL:
            machines = machines_by_pool.get((namespace, written.metadata.name), ())
        elif sets:
            machines = (machine for member in sets for machine in machines_by_owner.get(member.metadata.uid, ()))
        ordered = tuple(sorted(machines, key=lambda machine: machine.metadata.name))
        return MachineGroup(kind, written, ordered, sets, clusters.get((namespace, written.spec.cluster_name)))

    standalone = (machine_set for machine_set in objects.sets if machine_set.metadata.controller is None)
    candidates = (
        *((ScalableKind.DEPLOYMENT, written) for written in objects.deployments),
        *((ScalableKind.SET, written) for written in standalone),
        *((ScalableKind.POOL, written) for written in objects.pools),
    )
    return [build(kind, written) for kind, written in candidates if scope.covers(written)]


def _index_machines(
    machines: Iterable[ClusterApiMachine], group: str
) -> tuple[dict[str, list[ClusterApiMachine]], dict[tuple[str, str], list[ClusterApiMachine]]]:
    """Machines by the UID of the MachineSet that controls them, and by namespace and name of their MachinePool."""
    by_owner: dict[str, list[ClusterApiMachine]] = {}
    by_pool: dict[tuple[str, str], list[ClusterApiMachine]] = {}
    pool_label = f"{group}/pool-name"
    for machine in machines:
        owner, pool = machine.metadata.controller, machine.metadata.labels.get(pool_label)
        if owner is not None and owner.kind == ScalableKind.SET:
            by_owner.setdefault(owner.uid, []).append(machine)
        elif pool is not None:
            by_pool.setdefault((machine.metadata.namespace, pool), []).append(machine)
    return by_owner, by_pool
