"""A container of a pod: what it asks for, what it has, how it is doing."""

from __future__ import annotations

import msgspec

from trellis.api.kube.slices import NOTHING, Presence, Quantities, Slice, Time


class ResourceClaim(Slice, frozen=True):
    """A container's use of one of its pod's claims."""

    name: str = ""
    request: str = ""


class Resources(Slice, frozen=True):
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
    """A container's spec. Commands, images, environments and mounts are none of our business."""

    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()
    resize_policy: tuple[ResizePolicy, ...] = ()
    restart_policy: str = ""
    readiness_probe: Presence | None = None
    startup_probe: Presence | None = None

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: it keeps running beside the others (stable since Kubernetes 1.33).

        An ordinary container may have a restart policy too since 1.34; asked of one, this means nothing.
        """
        return self.restart_policy == "Always"


class Waiting(Slice, frozen=True):
    """Not running yet, or not running again."""

    reason: str = ""
    message: str = ""


class Running(Slice, frozen=True):
    """Running since."""

    started_at: Time | None = None


class Terminated(Slice, frozen=True):
    """Ended. `reason` is `OOMKilled` after an out-of-memory kill."""

    exit_code: int = 0
    reason: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Slice, frozen=True):
    """At most one of the three; none reads as waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Slice, frozen=True):
    """What the kubelet says about a container.

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
    resources: Resources | None = None
