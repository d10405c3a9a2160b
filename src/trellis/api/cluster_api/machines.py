"""Kinds of Cluster API: Cluster, MachineDeployment, MachineSet, MachinePool and Machine, in v1beta1 and v1beta2.

The versions differ in the fields of a reference and in where failures and conditions are. One slice reads both.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.meta import Condition, KubeObject
from trellis.api.kube.nodes import NodeSystemInfo, Taint
from trellis.api.kube.slices import NOTHING, Labels, Quantities, Slice

CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"


class InfrastructureReference(Slice, frozen=True):
    """A reference to a template of machines. v1beta1 has the version, v1beta2 the group alone."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    api_group: str = ""

    @property
    def group(self) -> str:
        """The API group of the template."""
        return self.api_group or self.api_version.rpartition("/")[0]


class MachineSpec(Slice, frozen=True):
    """The spec of a Machine, or of the Machines of a template."""

    cluster_name: str = ""
    version: str = ""
    infrastructure_ref: InfrastructureReference = InfrastructureReference()
    provider_id: str = msgspec.field(name="providerID", default="")
    failure_domain: str = ""
    taints: tuple[Taint, ...] = ()


class MachineTemplateMetadata(Slice, frozen=True):
    """The labels that Machines of a template get."""

    labels: Labels = NOTHING


class MachineTemplate(Slice, frozen=True):
    """The template of the Machines of a group."""

    metadata: MachineTemplateMetadata = MachineTemplateMetadata()
    spec: MachineSpec = MachineSpec()


class NodeReference(Slice, frozen=True):
    """The Node of a Machine; v1beta1 has more fields."""

    name: str = ""


class MachineFailure(Slice, frozen=True):
    """Why a Machine will never be a Node. Providers that set no reason may set a message."""

    failure_reason: str = ""
    failure_message: str = ""


class DeprecatedMachineStatus(Slice, frozen=True):
    """Where v1beta2 keeps fields of v1beta1."""

    v1beta1: MachineFailure = MachineFailure()


class MachineStatus(MachineFailure, frozen=True):
    """The status of a Machine. A failure is in the status itself (v1beta1), or in `deprecated` (v1beta2)."""

    node_ref: NodeReference = NodeReference()
    phase: str = ""
    deprecated: DeprecatedMachineStatus = DeprecatedMachineStatus()

    @property
    def failure(self) -> MachineFailure:
        """The failure in either version."""
        return self.deprecated.v1beta1 if self.deprecated.v1beta1 != MachineFailure() else self


class ClusterApiMachine(KubeObject, frozen=True):
    """One machine, on its way or there."""

    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class ScalableMachinesSpec(Slice, frozen=True):
    """The spec that MachineDeployments, MachineSets and MachinePools share. `replicas` is set by a webhook if absent.

    `provider_id_list` is that of a MachinePool.
    """

    cluster_name: str = ""
    replicas: int | None = None
    template: MachineTemplate = MachineTemplate()
    provider_id_list: tuple[str, ...] = msgspec.field(name="providerIDList", default=())


class NewerConditions(Slice, frozen=True):
    """Where v1beta1 keeps the conditions of v1beta2."""

    conditions: tuple[Condition, ...] = ()


class ScalableMachinesStatus(Slice, frozen=True):
    """The status that they share. `node_refs` is that of a MachinePool."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    v1beta2: NewerConditions = NewerConditions()
    node_refs: tuple[NodeReference, ...] = ()

    def has_condition(self, name: str) -> bool:
        """Whether a condition is true, in either version."""
        return any(
            condition.type == name and condition.status == "True"
            for condition in (*self.conditions, *self.v1beta2.conditions)
        )


class ScalableMachines(KubeObject, frozen=True):
    """What MachineDeployments, MachineSets and MachinePools have in common."""

    spec: ScalableMachinesSpec = ScalableMachinesSpec()
    status: ScalableMachinesStatus = ScalableMachinesStatus()


class TopologyWorkers(Slice, frozen=True):
    """A class of workers of a managed topology. `replicas` is unset where an autoscaler sets the size."""

    name: str = ""
    replicas: int | None = None


class WorkersTopology(Slice, frozen=True):
    """The workers of a managed topology."""

    machine_deployments: tuple[TopologyWorkers, ...] = ()
    machine_pools: tuple[TopologyWorkers, ...] = ()


class ClusterTopology(Slice, frozen=True):
    """A topology that Cluster API makes the objects of a Cluster from."""

    workers: WorkersTopology = WorkersTopology()


class MachineClusterSpec(Slice, frozen=True):
    """The spec of a Cluster."""

    paused: bool = False
    topology: ClusterTopology = ClusterTopology()


class MachineCluster(KubeObject, frozen=True):
    """A Cluster: what groups of Machines belong to."""

    spec: MachineClusterSpec = MachineClusterSpec()


class InfrastructureTemplateStatus(Slice, frozen=True):
    """What a machine of a template has, so that a group can be scaled up from zero."""

    capacity: Quantities = NOTHING
    node_info: NodeSystemInfo = NodeSystemInfo()


class InfrastructureTemplate(KubeObject, frozen=True):
    """A template of machines of any infrastructure provider."""

    status: InfrastructureTemplateStatus = InfrastructureTemplateStatus()
