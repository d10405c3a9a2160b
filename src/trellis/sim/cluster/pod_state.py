"""State of a pod and its containers beyond the pod object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.api.kube.pods import Container, Pod, ResourceRequirements
from trellis.core.fit import Demand, PodProfile
from trellis.sim.kernel import Ticket

if TYPE_CHECKING:
    from trellis.sim.fleet import StartProfile


class ModelContainer:
    """One container. `work_left` core-seconds of its start go at `rate` since `rated_at`; `failures` are in a row."""

    __slots__ = (
        "failures",
        "living",
        "name",
        "rate",
        "rated_at",
        "resources",
        "restarts",
        "row",
        "start",
        "ticket",
        "up",
        "work_left",
    )

    def __init__(self, living: ModelPod, name: str, start: StartProfile) -> None:
        self.living = living
        self.name = name
        self.start = start
        self.row = -1
        self.resources = ResourceRequirements()
        self.failures = 0
        self.restarts = 0
        self.up = False
        self.work_left = 0.0
        self.rate = 0.0
        self.rated_at = 0.0
        self.ticket: Ticket | None = None

    def cancel(self) -> None:
        """Cancel its next event."""
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket = None


class ModelPod:
    """One pod that exists. `held` is what the scheduler counts for it on its node, `allocated` what the kubelet does.

    `ordinal` numbers the pods of a StatefulSet, and the runs of a Job; `revision` is that of its template.
    """

    __slots__ = (
        "allocated", "came_up", "down_when_asked", "going", "held", "key", "made", "node", "ordinal", "place",
        "placed_at", "pod", "resident", "resize", "revision", "run", "seconds", "units", "workload",
    )  # fmt: skip

    def __init__(self, pod: Pod, workload: int, made: float, *, revision: int = 0, ordinal: int = 0) -> None:
        self.pod = pod
        self.key = (pod.metadata.namespace, pod.metadata.name)
        self.workload = workload
        self.revision = revision
        self.ordinal = ordinal
        self.made = made
        self.placed_at = made
        self.came_up = False
        self.node = -1
        # Its place, which sets how its demand differs from that of other pods of its workload.
        self.place = -1
        self.units: list[ModelContainer] = []
        self.held: Demand | None = None
        # What rules about other pods see of it, on a node where such rules matter.
        self.resident: PodProfile | None = None
        self.allocated: dict[str, int] = {}
        self.going = False
        # The length of its run, and the event that ends it.
        self.seconds: float | None = None
        self.run: Ticket | None = None
        # The next event of its resize.
        self.resize: Ticket | None = None
        # The containers that were down when the last resize was written.
        self.down_when_asked: frozenset[str] = frozenset()

    @property
    def ready(self) -> bool:
        """Whether it serves: all containers are Ready, and it is not terminating."""
        return not self.going and bool(self.units) and all(unit.up for unit in self.units)

    @property
    def priority(self) -> int:
        """The scheduling priority; higher is placed first."""
        return self.pod.spec.priority or 0

    def container(self, name: str) -> Container:
        """The spec of one of its containers."""
        spec = self.pod.spec
        return next(container for container in (*spec.containers, *spec.init_containers) if container.name == name)
