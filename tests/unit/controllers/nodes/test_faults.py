"""What the node autoscaler makes of providers that hang, refuse or lie, of kills, and of objects that break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from support import virtual_time
from support.controllers.nodes import BOOT, BUFFERS, NODES, START, World, seconds
from support.worlds.providers.kwok_nodes import failing, group
from trellis.base.errors import Unreachable
from trellis.controllers.nodes.executor import NodeExecutor, NodePlanResult
from trellis.controllers.nodes.process import NodeController
from trellis.core.nodes.autoscaler_pass import NodePlanner, PassInput, PassPlans
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.kube.transport.requests import Request
from trellis.providers.kwok import KwokProvider
from trellis.providers.kwok.plugin import follow_kwok_objects
from trellis.providers.plugins import ProviderContext
from trellis.providers.protocol import Groups
from trellis.testing.scripted_transport import ScriptedResponse, error_response

MARK = "trellis.x-k8s.io/leaving"
QUICK = {
    "scale_down_unneeded_time": seconds(60),
    "scale_down_delay_after_add": seconds(0),
    "unremovable_node_recheck_timeout": seconds(10),
}


def in_processes(world: World, *plays: Callable[[NodeController], Awaitable[None]]) -> None:
    """Each play has a process of its own; between two of them the process before is killed."""

    async def main() -> None:
        for play in plays:
            async with world.controlling() as controller:
                await asyncio.sleep(2.0)
                await play(controller)

    virtual_time.run(main(), start=START)


def test_a_node_group_that_hangs_delays_no_other_and_is_backed_off() -> None:
    world = World(failing("Hang"), group("slow", priority=-1))
    world.add_buffer()

    async def play(_: NodeController) -> None:
        await world.wait(20)
        # Its order is not answered yet, and the Buffer has its status all the same.
        assert world.provisioned()[0] == "False"
        await world.wait(60)
        assert [node["metadata"]["labels"]["kwok-nodegroup"] for node in world.nodes().values()] == ["slow"]

    world.run(play)
    assert world.metric("trellis_nodes_provider_failures_total", call="order", reason="ProviderTimedOut") == 1
    assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1


def test_a_group_that_refuses_is_backed_off_and_the_pod_reports_it() -> None:
    world = World(failing("RefuseOrders"))

    async def play(_: NodeController) -> None:
        world.add_pod("web")
        await world.wait(290)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1
        assert 0 < world.metric("trellis_nodes_group_backoff_seconds", group="small") < 30
        await world.wait(60)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 2
        # Each failure doubles the backoff of 300 s.
        assert 500 < world.metric("trellis_nodes_group_backoff_seconds", group="small") <= 600

    world.run(play)
    assert not world.nodes()
    [message] = [event[3] for event in world.events if event[2] == "NotTriggerScaleUp"][:1]
    assert "GroupBackedOff" in message


def test_after_a_lost_order_another_group_is_used() -> None:
    world = World(failing("LoseOrders"), group("sound", priority=-1), up={"max_node_provision_time": seconds(120)})

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(100)
        assert not world.nodes()
        await world.wait(30 + BOOT)
        assert list(world.nodes()) == ["sound-1"]
        assert not world.pending()
        assert world.metric("trellis_nodes_group_backoff_seconds", group="small") > 0
        assert world.metric("trellis_nodes_group_backoff_seconds", group="sound") == 0

    world.run(play)
    assert world.metric("trellis_nodes_ordered_total", group="small") == 1
    assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1


class Boasting(KwokProvider):
    """It counts a node that it never shows."""

    async def groups(self, now: float, /) -> Groups:
        reported = await super().groups(now)
        return Groups(tuple(msgspec.structs.replace(state, target=state.target + 1) for state in reported.states))


def test_a_lost_order_counts_once() -> None:
    world = World(up={"max_node_provision_time": seconds(120)})
    world.providers = (lambda context: Boasting(follow_kwok_objects(context)),)

    async def play(_: NodeController) -> None:
        await world.wait(100)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 0
        await world.wait(200)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1

    world.run(play)


@pytest.mark.parametrize("how", ["NeverComeUp", "FailToStart"])
def test_a_node_that_does_not_come_up_is_released(how: str) -> None:
    world = World(failing(how), group("sound", priority=-1), up={"max_node_provision_time": seconds(120)})

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(10)
        assert list(world.nodes()) == ["small-1"]
        await world.wait(120 + BOOT)
        assert list(world.nodes()) == ["sound-1"]
        assert not world.pending()

    world.run(play)
    assert world.metric("trellis_nodes_released_total", group="small") == 1


def test_nodes_of_another_shape_count_as_they_are_and_end_the_orders() -> None:
    shape = {"cpu": "500m", "memory": "1Gi"}
    world = World(group(maxSize=3, fails={"how": "OtherShape", "resources": shape}))

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=2)
        await world.wait(600)
        assert len(world.nodes()) <= 3
        assert world.provisioned()[0] == "False"

    world.run(play)


def test_a_process_killed_while_nodes_boot_orders_none_twice() -> None:
    world = World()

    async def orders(_: NodeController) -> None:
        world.add_pods(7)
        await world.wait(2)
        assert len(world.nodes()) == 2

    async def continue_after(_: NodeController) -> None:
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 2
        assert not world.pending()

    in_processes(world, orders, continue_after)


def test_an_interrupted_order_is_completed_and_not_repeated() -> None:
    world = World()
    created: list[str] = []

    def cut_off(request: Request) -> ScriptedResponse | None:
        """The second Node is refused, and the answer to the first is lost."""
        if request.method == "POST" and request.path == NODES:
            created.append(request.path)
            if len(created) == 2:
                return Unreachable("the connection was refused")
        return None

    world.fault = cut_off

    async def play(_: NodeController) -> None:
        world.add_pods(12)
        world.server.responses_to_drop = 1
        await world.wait(15)
        assert len(world.nodes()) == 3
        await world.wait(BOOT + 10)
        assert not world.pending()
        assert len(world.nodes()) == 3

    world.run(play)


def test_the_leaving_taint_of_a_killed_process_is_removed_and_the_node_later() -> None:
    world = World(down=QUICK)

    async def marks(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        world.delete_pods()
        while MARK not in world.taints("small-1"):
            await world.wait(1)

    async def take_over_after(_: NodeController) -> None:
        assert MARK not in world.taints("small-1")
        await world.wait(120)
        assert not world.nodes()

    in_processes(world, marks, take_over_after)


def test_a_node_that_is_needed_again_during_its_removal_is_kept() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        world.delete_pods()
        while MARK not in world.taints("small-1"):
            await world.wait(1)
        world.add_pod()
        await world.wait(10)
        assert world.taints("small-1") == []
        assert list(world.nodes()) == ["small-1"]
        assert not world.pending()

    world.run(play)
    assert "NodeNeededAgain" in world.event_codes("Node", "small-1")


def test_a_node_that_cannot_be_tainted_is_tainted_later() -> None:
    world = World(down=QUICK)
    refused: list[str] = []

    def refuse(request: Request) -> ScriptedResponse | None:
        if request.method == "PATCH" and b"leaving" in (request.body or b"") and len(refused) < 3:
            refused.append(request.path)
            return error_response(500, "InternalError")
        return None

    world.fault = refuse

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        world.delete_pods()
        await world.wait(150)
        assert len(refused) == 3
        assert not world.nodes()

    world.run(play)


def test_during_an_api_server_outage_nothing_is_decided_and_passes_continue_later() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=4)
        await world.wait(5)
        world.fault = lambda _request: Unreachable("nobody listens")
        world.server.break_watches()
        await world.wait(60)
        world.fault = lambda _request: None
        await world.wait(60)
        assert len(world.nodes()) == 1
        assert world.provisioned() == ("True", "BufferProvisioned")

    world.run(play)


@pytest.mark.parametrize("asks", [True, False], ids=["somebody else of the process asks", "nobody else asks"])
def test_orders_resume_soon_after_an_api_server_outage(asks: bool) -> None:
    world = World(loop={"scan_interval": seconds(60)})

    async def play(_: NodeController) -> None:
        await world.wait(10)
        world.fault = lambda _request: Unreachable("nobody listens")
        world.server.break_watches()
        await world.wait(300)
        world.add_pod()
        world.fault = lambda _request: None
        if asks:
            await world.server.client.discover()
            # All watches within 1.6 s, and the next look 2 s later at most.
            await world.wait(4)
        else:
            await world.wait(8 + 4)
        assert len(world.nodes()) == 1

    world.run(play)


def test_an_unreadable_buffer_reports_it_and_affects_no_other() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer("well", chunks=1)
        world.add_buffer("ill", chunks=3, cpu="much")
        await world.wait(BOOT + 5)
        assert world.provisioned("well")[0] == "True"
        assert world.provisioned("ill") == ("False", "ChunksUnreadable")

    world.run(play)
    assert world.event_codes("Buffer", "ill") == ["ChunksUnreadable"]
    assert world.metric("trellis_nodes_unreadable_objects", kind="Buffer") == 1


def test_invalid_pods_and_nodes_do_not_stop_the_autoscaler() -> None:
    world = World()
    world.is_cluster_active = False
    world.add_node("absurd", cpu="9" * 30)
    world.add_node("broken", cpu="many")
    world.add_pod("ill", cpu="much")

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(10)
        assert world.provisioned() == ("True", "BufferProvisioned")

    world.run(play)
    assert world.event_codes("Pod", "ill") == ["PodDemandUnreadable"]


def test_an_invalid_declaration_of_a_group_affects_no_other() -> None:
    world = World(group("wrong", maxSize=-1), group("right"))

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        assert list(world.nodes()) == ["right-1"]

    world.run(play)
    assert world.metric("trellis_nodes_group_problems", reason="NodeGroupRefused") == 1


def test_a_buffer_deleted_during_a_status_write_causes_no_failure() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(5)
        world.server.delete(f"{BUFFERS}/spare")
        await world.wait(BOOT + 30)

    world.run(play)
    assert world.metric("trellis_nodes_buffer_chunks", buffer_name="spare") == 0


class Silent(KwokProvider):
    """It says nothing of its groups for a while, or what is worse."""

    def __init__(self, context: ProviderContext, hangs: bool) -> None:
        super().__init__(follow_kwok_objects(context))
        self._hangs = hangs
        self._asked = 0

    async def groups(self, now: float, /) -> Groups:
        self._asked += 1
        if self._asked <= 2 and self._hangs:
            await asyncio.get_running_loop().create_future()
        if self._asked <= 2:
            raise OSError("the cloud is closed")
        return await super().groups(now)


@pytest.mark.parametrize(("hangs", "reason"), [(True, "ProviderTimedOut"), (False, "ProviderFailed")])
def test_a_provider_that_fails_to_report_its_groups_is_called_again(hangs: bool, reason: str) -> None:
    world = World()
    world.providers = (lambda context: Silent(context, hangs),)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(90 + BOOT)
        assert not world.pending()

    world.run(play)
    assert world.metric("trellis_nodes_provider_failures_total", call="groups", reason=reason) == 2


def test_after_a_failed_pass_the_next_starts_with_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    plan = NodePlanner.plan
    failures: list[str] = []

    def failing_twice(planning: NodePlanner, news: ClusterSnapshotChanges, asked: PassInput) -> PassPlans:
        if len(failures) < 2:
            failures.append("broken")
            planning.update(news)
            raise ValueError("a bug")
        return plan(planning, news, asked)

    monkeypatch.setattr(NodePlanner, "plan", failing_twice)

    async def play(_: NodeController) -> None:
        world.add_pods(3)
        world.add_buffer(chunks=1)
        await world.wait(60 + BOOT)
        assert len(world.nodes()) == 1
        assert not world.pending()
        assert world.provisioned()[0] == "True"

    world.run(play)
    assert len(failures) == 2


def test_a_plan_that_could_not_be_executed_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(down=QUICK)
    execute = NodeExecutor.execute
    failures: list[str] = []

    async def failing_once(executor: NodeExecutor, plans: PassPlans, now: float) -> NodePlanResult:
        if not failures and plans.down.actions:
            failures.append("broken")
            raise ValueError("a bug")
        return await execute(executor, plans, now)

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(BOOT + 5)
        world.delete_pods()
        while MARK not in world.taints("small-1"):
            await world.wait(1)
        # The mark is to be taken off, and is not.
        monkeypatch.setattr(NodeExecutor, "execute", failing_once)
        world.add_pod()
        await world.wait(30)
        assert world.taints("small-1") == []
        assert not world.pending()

    world.run(play)
    assert failures


def test_conditions_of_another_autoscaler_on_unmanaged_buffers_stay() -> None:
    world = World(scope={"ignored_vpa_object_namespaces": ("shop",)})
    world.add_buffer(chunks=1)
    status = world.buffer()
    reason = {"type": "Provisioned", "status": "True", "reason": "BufferProvisioned", "message": ""}
    world.edit_buffer(status={**status, "conditions": [*status["conditions"], reason]})

    async def play(_: NodeController) -> None:
        await world.wait(30)
        assert world.provisioned() == ("True", "BufferProvisioned")

    world.run(play)
    assert not world.writes()
