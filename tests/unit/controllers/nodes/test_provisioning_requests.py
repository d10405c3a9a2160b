"""ProvisioningRequests in a cluster that lives: nodes, conditions, Events and metrics."""

from __future__ import annotations

from support.controllers.nodes import BOOT, World
from support.worlds.providers.kwok_nodes import group
from support.worlds.provisioning import ATOMIC, CHECK
from trellis.controllers.nodes.process import NodeController

ON = {"enable_provisioning_requests": True}


def test_an_atomic_request_gets_its_nodes_and_its_pods_take_them() -> None:
    world = World(requests=ON)

    async def play(_: NodeController) -> None:
        world.add_request("job", 8, ATOMIC)
        await world.wait(3)
        assert len(world.nodes()) == 2
        assert world.conditions("job") == {
            "Accepted": ("True", "Accepted"),
            "Provisioned": ("True", "CapacityIsProvisioned"),
        }
        assert world.metric("trellis_nodes_provisioning_requests", reason="CapacityIsProvisioned") == 1
        await world.wait(BOOT + 10)
        world.add_consumers("job", 8)
        await world.wait(20)
        assert not world.pending()
        assert len(world.nodes()) == 2
        assert world.conditions("job")["BookingExpired"] == ("True", "CapacityBookingConsumed")
        await world.wait(5)

    world.run(play)
    assert world.event_codes("ProvisioningRequest", "job") == ["CapacityIsProvisioned", "CapacityBookingConsumed"]
    assert world.metric("trellis_nodes_provisioning_requests", reason="CapacityIsProvisioned") == 0


def test_a_request_that_does_not_fit_orders_nothing_and_is_written_once() -> None:
    world = World(group(maxSize=1), requests=ON)

    async def play(_: NodeController) -> None:
        world.add_request("job", 8, ATOMIC)
        await world.wait(50)
        assert not world.nodes()
        assert world.conditions("job")["Provisioned"] == ("False", "CapacityIsNotFound")

    world.run(play)
    assert sum(path.endswith("/provisioningrequests/job/status") for _, path in world.writes()) == 1
    assert world.event_codes("ProvisioningRequest", "job") == ["CapacityIsNotFound"]


def test_a_request_is_not_provisioned_if_the_provider_refuses_its_order() -> None:
    world = World(group(fails={"how": "RefuseOrders"}), requests=ON)

    async def play(_: NodeController) -> None:
        world.add_request("job", 8, ATOMIC)
        await world.wait(30)
        assert world.conditions("job")["Provisioned"] == ("False", "CapacityIsNotFound")

    world.run(play)
    assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1
    assert world.event_codes("ProvisioningRequest", "job") == ["CapacityIsNotFound"]


def test_a_check_capacity_request_without_retries_fails_and_a_later_one_is_provisioned() -> None:
    world = World(requests=ON)

    async def play(_: NodeController) -> None:
        world.add_request("early", 4, CHECK, noRetry="true")
        await world.wait(10)
        assert world.conditions("early")["Failed"] == ("True", "CapacityIsNotFound")
        world.add_node("there")
        world.add_request("late", 4, CHECK)
        await world.wait(10)
        assert world.conditions("late")["Provisioned"] == ("True", "CapacityIsFound")
        assert "Provisioned" not in world.conditions("early")
        await world.wait(600)
        assert world.conditions("late")["BookingExpired"] == ("True", "CapacityReservationTimeExpired")
        assert world.conditions("late")["Provisioned"] == ("True", "CapacityIsFound")

    world.run(play)


def test_without_the_flag_no_request_is_served() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_request("job", 8, ATOMIC)
        await world.wait(30)
        assert not world.nodes()
        assert not world.conditions("job")

    world.run(play)
    assert not any("provisioningrequests" in request.path for request in world.server.requests)
