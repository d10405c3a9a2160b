"""State of a pod and its containers beyond the pod object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.api.kube.pods import Container, Pod, ResourceRequirements
from trellis.core.fit import Demand, PodProfile
from trellis.sim.kernel import Ticket

if TYPE_CHECKING:
    from trellis.sim.fleet import StartProfile


class ModelContainer:
    """One container. `remaining_work` core-seconds of its start remain, at `rate` cores since `rated_at`.

    `failures` are consecutive.
    """

    __slots__ = (
        "failures",
        "model_pod",
        "name",
        "rate",
        "rated_at",
        "remaining_work",
        "resources",
        "restarts",
        "row",
        "start",
        "ticket",
        "up",
    )

    def __init__(self, model_pod: ModelPod, name: str, start: StartProfile) -> None:
        self.model_pod = model_pod
        self.name = name
        self.start = start
        self.row = -1
        self.resources = ResourceRequirements()
        self.failures = 0
        self.restarts = 0
        self.up = False
        self.remaining_work = 0.0
        self.rate = 0.0
        self.rated_at = 0.0
        self.ticket: Ticket | None = None

    def cancel(self) -> None:
        """Cancel its next event."""
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket = None


class ModelPod:
    """One pod. `occupied` is what the scheduler counts for it on its node, `allocated` what the kubelet allocates.

    `ordinal` numbers the pods of a StatefulSet, and the runs of a Job; `revision` is that of its template.
    """

    __slots__ = (
        "allocated", "containers", "created_at", "down_at_resize", "has_started", "key", "node", "occupied", "ordinal",
        "placed_at", "pod", "profile", "resize", "revision", "run", "seconds", "slot", "terminating", "workload",
    )  # fmt: skip

    def __init__(self, pod: Pod, workload: int, created_at: float, *, revision: int = 0, ordinal: int = 0) -> None:
        self.pod = pod
        self.key = (pod.metadata.namespace, pod.metadata.name)
        self.workload = workload
        self.revision = revision
        self.ordinal = ordinal
        self.created_at = created_at
        self.placed_at = created_at
        self.has_started = False
        self.node = -1
        # The number that sets how its demand differs from that of other pods of its workload.
        self.slot = -1
        self.containers: list[ModelContainer] = []
        self.occupied: Demand | None = None
        # Its labels and affinity, where the placement of a pod depends on other pods.
        self.profile: PodProfile | None = None
        self.allocated: dict[str, int] = {}
        self.terminating = False
        # The length of its run, and the event that ends it.
        self.seconds: float | None = None
        self.run: Ticket | None = None
        # The next event of its resize.
        self.resize: Ticket | None = None
        # The containers that were down when the last resize was written.
        self.down_at_resize: frozenset[str] = frozenset()

    @property
    def ready(self) -> bool:
        """Whether it serves: all containers are Ready, and it is not terminating."""
        return not self.terminating and bool(self.containers) and all(container.up for container in self.containers)

    @property
    def priority(self) -> int:
        """The scheduling priority; higher is placed first."""
        return self.pod.spec.priority or 0

    def container_spec(self, name: str) -> Container:
        """The spec of one of its containers."""
        spec = self.pod.spec
        return next(container for container in (*spec.containers, *spec.init_containers) if container.name == name)
