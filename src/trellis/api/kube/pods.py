"""A pod: what it asks for, where it may run, how it is doing."""

from __future__ import annotations

from typing import Final

from msgspec.structs import force_setattr

from trellis.api.kube.containers import Container, ContainerStatus, Resources
from trellis.api.kube.meta import Condition, KubeObject, ObjectMeta, PodMeta
from trellis.api.kube.placement import (
    Affinity,
    PodResourceClaim,
    SchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from trellis.api.kube.slices import NOTHING, Labels, Presence, Quantities, QuantityText, Slice, Time

# Condition types of a pod. The two about resizing exist since Kubernetes 1.33.
POD_SCHEDULED: Final = "PodScheduled"
READY: Final = "Ready"
RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"


class EmptyDir(Slice, frozen=True):
    """Scratch space: on the node's disk, or in its memory, where it counts against the containers' limits."""

    medium: str = ""
    size_limit: QuantityText = ""


class ClaimVolume(Slice, frozen=True):
    """A volume that stays when the pod goes, and may tie it to a zone."""

    claim_name: str = ""
    read_only: bool = False


class Volume(Slice, frozen=True):
    """A volume, as far as it ties a pod to a node or zone or is lost with it; others read as empty.

    Only files on the node are known by name: the token that every pod gets has another name in each, and pods that are
    alike are to stay so.
    """

    name: str = ""
    host_path: Presence | None = None
    empty_dir: EmptyDir | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Presence | None = None

    def __post_init__(self) -> None:
        if self.name and self.host_path is None and self.empty_dir is None:
            force_setattr(self, "name", "")


class PodOS(Slice, frozen=True):
    """The operating system a pod is written for."""

    name: str = ""


class PodReadinessGate(Slice, frozen=True):
    """A condition somebody else must set before the pod counts as Ready."""

    condition_type: str = ""


class PodSpec(Slice, frozen=True):
    """A pod's spec. `resources` is the request of the pod as a whole (beta in Kubernetes 1.34)."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: Labels = NOTHING
    node_name: str = ""
    host_network: bool = False
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str = ""
    overhead: Quantities = NOTHING
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    os: PodOS | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: Resources | None = None


class PodStatus(Slice, frozen=True):
    """How a pod is doing. `observed_generation` says which spec the kubelet has seen (Kubernetes 1.33)."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    allocated_resources: Quantities = NOTHING
    resources: Resources | None = None

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, if the pod has it."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


class Pod(KubeObject, frozen=True):
    """A pod."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Slice, frozen=True):
    """The pod a workload would make."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(KubeObject, frozen=True):
    """A stored template, as upstream's capacity buffers refer to it."""

    template: PodTemplateSpec = PodTemplateSpec()
