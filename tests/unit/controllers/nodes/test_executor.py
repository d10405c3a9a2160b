"""Execution of a plan that orders nodes of a group and releases others of the same group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from support import virtual_time
from support.api_server.server import ModelServer
from support.worlds.nodes import START, a_group, a_node, a_pod
from support.worlds.scale_down import ShrinkingCluster
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.events import ActionReporter
from trellis.controllers.nodes.executor import NodeExecutor, NodePlanResult
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, PassInput, PassPlans, plan_pass
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.scale_down.decisions import ReleaseNode, ScaleDownPlan
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval, ScaleDownMemory
from trellis.core.nodes.scale_down.removal_steps import add_leaving_taint
from trellis.core.nodes.scale_up.decisions import FOR_PODS, NodeOrder, ReleaseFailedInstance, ScaleUpPlan
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory, UnconfirmedOrder, record_release
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.upcoming_nodes import INSTANCE_FAILED
from trellis.kube.write.writer import Writer
from trellis.providers.plugins import RunningProvider
from trellis.providers.protocol import Groups, Ordered, Released, Tended
from trellis.runtime.telemetry.metrics import Metrics

GROUP = a_group("small")


class SlowProvider:
    """A provider that releases at once and executes an order seconds later, by the target it then has."""

    name = "slow"

    def __init__(self, *instances: str) -> None:
        self._numbers = count(len(instances) + 1)
        self.instances = {
            instance: Instance(instance, InstanceState.RUNNING, START - 3600, instance) for instance in instances
        }

    def state(self) -> GroupState:
        return GroupState(GROUP, len(self.instances), tuple(self.instances.values()))

    async def groups(self, _now: float, /) -> Groups:
        return Groups((self.state(),))

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        await asyncio.sleep(3.0)
        names = [f"{group}-{next(self._numbers)}" for _ in range(len(self.instances), target)]
        self.instances |= {name: Instance(name, InstanceState.ORDERED, now) for name in names}
        return Ordered(tuple(names))

    async def release(self, _group: str, instances: Sequence[str], _now: float, /) -> Released:
        for instance in instances:
            del self.instances[instance]
        return Released(tuple(instances))

    async def tend(self, _now: float, /) -> Tended:
        return Tended()


def execute(plans: PassPlans, provider: SlowProvider) -> NodePlanResult:
    metrics = Metrics(NODE_METRICS, about_process=False)
    writer = Writer(ModelServer().client, record=lambda _outcome: None)
    client = ProviderClient([RunningProvider(provider, writer)], 30.0, metrics)
    reporter = ActionReporter(metrics, lambda _about, _reason, _message: None)
    executor = NodeExecutor(writer, client, reporter, ScaleUpSettings())

    async def read_and_execute() -> NodePlanResult:
        await client.groups(START)
        return await executor.execute(plans, START)

    return virtual_time.run(read_and_execute())


def removing_and_waiting() -> tuple[ShrinkingCluster, AutoscalerMemory]:
    """A full node, and one about to be released that is too small for the pod that needs a node."""
    cluster = ShrinkingCluster(GROUP)
    small = a_node("small-2", cpu="2")
    taints = add_leaving_taint(small, START - 60).taints
    cluster.nodes(a_node("small-1"), replace(small, spec=replace(small.spec, taints=taints)))
    cluster.run("small-1", a_pod("web", cpu="4")).create(a_pod("new", cpu="4"))
    removal = NodeRemoval("small-2", "", "small", "small-2", START - 60, START - 60, tainted_at=START - 50)
    return cluster, AutoscalerMemory(down=ScaleDownMemory(removals={"small-2": removal}))


def plan(cluster: ShrinkingCluster, provider: SlowProvider, memory: AutoscalerMemory, now: float) -> PassPlans:
    pass_input = PassInput((provider.state(),), (), memory, now)
    return plan_pass(cluster.snapshot, pass_input, AutoscalerSettings())


def test_a_release_in_the_same_group_does_not_add_to_an_order() -> None:
    cluster, memory = removing_and_waiting()
    provider = SlowProvider("small-1", "small-2")
    plans = plan(cluster, provider, memory, START)
    assert [(order.count, order.target) for order in plans.up.orders] == [(1, 3)]
    assert [type(action) for action in plans.down.actions] == [ReleaseNode]
    execute(plans, provider)
    assert list(provider.instances) == ["small-1", "small-3"]


def test_an_order_is_confirmed_although_the_group_released_an_instance_since() -> None:
    cluster, memory = removing_and_waiting()
    provider = SlowProvider("small-1", "small-2")
    memory = execute(plan(cluster, provider, memory, START), provider).memory
    cluster.snapshot.put_node("small-2", None)
    cluster.create(a_pod("another", cpu="4"))
    plans = plan(cluster, provider, memory, START + 10)
    assert [(order.count, order.target) for order in plans.up.orders] == [(1, 3)], "of two pods one has a node coming"
    memory = execute(plans, provider).memory
    plans = plan(cluster, provider, memory, START + 20)
    assert (plans.up.orders, plans.up.memory.unconfirmed_orders) == ((), {})


def test_a_failed_instance_is_released_after_the_order_of_its_group() -> None:
    provider = SlowProvider("small-1", "small-2")
    reason = DetailedReason(INSTANCE_FAILED)
    order = NodeOrder("small", 1, 3, DetailedReason(FOR_PODS))
    up = ScaleUpPlan(
        orders=(order,),
        releases=(ReleaseFailedInstance("small", "small-2", reason),),
        pods=(),
        buffers=(),
        notes={},
        memory=ScaleUpMemory(unconfirmed_orders={"small": UnconfirmedOrder(3, START)}),
    )
    memory = execute(PassPlans(up, ScaleDownPlan((), (), ScaleDownMemory()), {}), provider).memory
    assert list(provider.instances) == ["small-1", "small-3"]
    assert memory.up.unconfirmed_orders["small"].released == ("small-2",)


def test_a_release_lowers_an_unconfirmed_order_once_the_group_shows_it() -> None:
    provider = SlowProvider("small-1", "small-2")
    memory = ScaleUpMemory(unconfirmed_orders={"small": UnconfirmedOrder(3, START)})
    assert record_release(memory, "other", "other-1") == memory
    order = record_release(memory, "small", "small-2").unconfirmed_orders["small"]
    assert order.without_confirmed_releases(provider.state()) == order
    provider.instances["small-2"] = replace(provider.instances["small-2"], state=InstanceState.LEAVING)
    assert order.without_confirmed_releases(provider.state()) == UnconfirmedOrder(2, START)
    del provider.instances["small-2"]
    assert order.without_confirmed_releases(provider.state()) == UnconfirmedOrder(2, START)
