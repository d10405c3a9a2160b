"""A provider in memory that is no API server: a cloud that assigns its own ids, later."""

from __future__ import annotations

from collections.abc import Sequence

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node, NodeSpec, NodeStatus
from trellis.base.reasons import DetailedReason
from trellis.core.nodes import GroupState, Instance, InstanceState, NodeGroup, find_order_problem, find_release_problems
from trellis.providers.protocol import UNKNOWN_GROUP, Groups, Ordered, Released, Steps, Tended

NAME = "pool"
BOOT = 120.0


class Cloud:
    """Machines by id, each with the time of its order."""

    def __init__(self) -> None:
        self.machines: dict[str, float] = {}
        self.id_count = 0

    def add(self, now: float) -> None:
        self.id_count += 1
        self.machines[f"cloud:///m-{self.id_count:04}"] = now


def template() -> Node:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "30"}
    return Node(metadata=ObjectMeta(labels={"pool": NAME}), status=NodeStatus(amounts, amounts))


class CloudProvider:
    """A sound one: what others break."""

    name = "cloud"
    group = NodeGroup(NAME, template(), max_size=4, min_size=1, price=0.1, boot_seconds=BOOT)

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    async def groups(self, now: float, /) -> Groups:
        return Groups((self.state(now),))

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        if group != NAME:
            return Ordered(error=DetailedReason(UNKNOWN_GROUP, group))
        refused = find_order_problem(self.state(now), target)
        if refused is not None:
            return Ordered(error=refused)
        while len(self.cloud.machines) < target:
            self.cloud.add(now)
        return Ordered()

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        if group != NAME:
            return Released(refused=dict.fromkeys(instances, DetailedReason(UNKNOWN_GROUP, group)))
        refused = find_release_problems(self.state(now), instances)
        released = tuple(name for name in dict.fromkeys(instances) if name not in refused)
        for machine in released:
            del self.cloud.machines[machine]
        return Released(released, refused=refused)

    async def tend(self, _now: float, /) -> Tended:
        return Tended()

    def state(self, now: float) -> GroupState:
        machines = self.cloud.machines
        return GroupState(
            self.group, len(machines), tuple(self.instance(machine, machines[machine], now) for machine in machines)
        )

    def instance(self, machine: str, ordered: float, now: float) -> Instance:
        if now < ordered + BOOT:
            return Instance(machine, InstanceState.ORDERED, ordered)
        return Instance(machine, InstanceState.RUNNING, ordered + BOOT)


class CloudEnvironment:
    """The cloud and a provider of it."""

    hanging_group = ""
    broken_group = ""

    def __init__(self, make: type[CloudProvider] = CloudProvider) -> None:
        self.cloud = Cloud()
        self.make = make
        self.now = 1_000_000.0
        self.provider: CloudProvider = make(self.cloud)

    async def execute(self, steps: Steps) -> None:
        assert not steps, "nobody here writes to an API server"

    async def wait(self, seconds: float) -> None:
        self.now += seconds

    def restarted_provider(self) -> CloudProvider:
        return self.make(self.cloud)

    async def list_nodes(self) -> Sequence[Node]:
        """As they join the cluster: under names that the cloud does not know."""
        up = [name for name, ordered in self.cloud.machines.items() if self.now >= ordered + BOOT]
        return [
            Node(
                metadata=ObjectMeta(name=f"ip-10-0-0-{at}", labels={"pool": NAME}),
                spec=NodeSpec(provider_id=machine),
                status=self.joined_status(),
            )
            for at, machine in enumerate(up)
        ]

    def joined_status(self) -> NodeStatus:
        return template().status
