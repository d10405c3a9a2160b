"""Pods and their containers: spec, resources, volumes and status."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import force_setattr

from trellis.api.kube.meta import Condition, KubeObject, ObjectMeta, PodMeta
from trellis.api.kube.placement import (
    Affinity,
    PodResourceClaim,
    PodResourceClaimStatus,
    SchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from trellis.api.kube.slices import NOTHING, Labels, Presence, Quantities, QuantityText, Slice, Time


class ResourceClaim(Slice, frozen=True):
    """A container's use of one of its pod's claims."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Slice, frozen=True):
    """Requests and limits as text, of a container, a pod, or as a node reports them."""

    limits: Quantities = NOTHING
    requests: Quantities = NOTHING
    claims: tuple[ResourceClaim, ...] = ()


class ResizePolicy(Slice, frozen=True):
    """Whether a resize of one resource restarts the container. Without one, it does not."""

    resource_name: str = ""
    restart_policy: str = "NotRequired"


class ContainerPort(Slice, frozen=True):
    """A port; only one with a `host_port` takes something of a node that another pod cannot have."""

    host_port: int = 0
    container_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(Slice, frozen=True):
    """A container's spec, without commands, images, environments and mounts."""

    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ResizePolicy, ...] = ()
    restart_policy: str = ""
    readiness_probe: Presence | None = None
    startup_probe: Presence | None = None

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: it keeps running beside the others (stable since Kubernetes 1.33).

        Ordinary containers may have a restart policy too since 1.34; for them this property means nothing.
        """
        return self.restart_policy == "Always"


class ContainerStateWaiting(Slice, frozen=True):
    """Not running yet, or not running again."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Slice, frozen=True):
    """Running since."""

    started_at: Time | None = None


class ContainerStateTerminated(Slice, frozen=True):
    """Ended. `reason` is `OOMKilled` after an out-of-memory kill."""

    exit_code: int = 0
    reason: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Slice, frozen=True):
    """At most one of the three; none reads as waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Slice, frozen=True):
    """The status of a container as the kubelet reports it.

    `resources` is what the runtime enforces now, `allocated_resources` the requests the node has set aside;
    while a resize is under way they differ from the spec and from each other. Both are absent before the
    first report.
    """

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    allocated_resources: Quantities = NOTHING
    resources: ResourceRequirements | None = None


# Condition types of a pod. The two about resizing exist since Kubernetes 1.33.
POD_SCHEDULED: Final = "PodScheduled"
READY: Final = "Ready"
RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"


class EmptyDirVolumeSource(Slice, frozen=True):
    """Scratch space: on the node's disk, or in its memory, where it counts against the containers' limits."""

    medium: str = ""
    size_limit: QuantityText = ""


class PersistentVolumeClaimVolumeSource(Slice, frozen=True):
    """A volume that outlives the pod and may bind it to a zone."""

    claim_name: str = ""
    read_only: bool = False


class Volume(Slice, frozen=True):
    """A volume, as far as it ties a pod to a node or zone or is lost with it; others read as empty.

    Only files on the node are known by name: the token that every pod gets has another name in each, and pods that are
    alike are to stay so.
    """

    name: str = ""
    host_path: Presence | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: Presence | None = None

    def __post_init__(self) -> None:
        if self.name and self.host_path is None and self.empty_dir is None:
            force_setattr(self, "name", "")


class PodOS(Slice, frozen=True):
    """The operating system that a pod requires."""

    name: str = ""


class PodReadinessGate(Slice, frozen=True):
    """A condition that another controller must set before the pod counts as Ready."""

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
    resources: ResourceRequirements | None = None


class PodStatus(Slice, frozen=True):
    """A pod's status. `observed_generation` is the spec that the kubelet has observed (Kubernetes 1.33)."""

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
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    allocated_resources: Quantities = NOTHING
    resources: ResourceRequirements | None = None

    def find_condition(self, type_: str) -> Condition | None:
        """The condition of that type, if the pod has it."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


class Pod(KubeObject, frozen=True):
    """A pod."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Slice, frozen=True):
    """The template of a workload's pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(KubeObject, frozen=True):
    """A stored template, as upstream's capacity buffers refer to it."""

    template: PodTemplateSpec = PodTemplateSpec()
