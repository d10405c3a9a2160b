"""Orders of kwok nodes: durable, never repeated, up after their boot time, and failing only as declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_time import run
from support.worlds.providers.kwok_nodes import BOOT, KwokWorld, failing, group, taint_keys
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM, GROUP_AT_MINIMUM, UNKNOWN_INSTANCE
from trellis.kube.write.actions import DeleteObject
from trellis.kube.write.outcomes import Result
from trellis.providers.declared.declarations import GROUP_GONE
from trellis.providers.declared.orders import generate_names
from trellis.providers.kwok.instances import NODE_FAILED_TO_START
from trellis.providers.kwok.provider import ORDER_REFUSED
from trellis.providers.protocol import UNKNOWN_GROUP
from trellis.testing.scripted_transport import error_response

STARTING = "trellis.x-k8s.io/starting"
KWOK = "kwok.x-k8s.io/node"


def played(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test on virtual time."""

    @wraps(test)
    def play() -> None:
        async def main() -> None:
            await test()

        run(main())

    return play


@played
async def test_an_order_creates_a_node_without_kwok_label_and_with_a_taint() -> None:
    world = KwokWorld(group(taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
    assert await world.order(2) == ("small-1", "small-2")
    node = world.documents()["small-1"]
    assert taint_keys(node) == ["dedicated", STARTING]
    assert node["spec"]["providerID"] == "kwok://small-1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "small-1"
    assert node["metadata"]["labels"]["kwok-nodegroup"] == "small"
    assert KWOK not in node["metadata"]["labels"]
    assert node["status"]["allocatable"] == {"pods": "110", "cpu": "4", "memory": "16Gi"}
    assert "conditions" not in node["status"]
    assert await world.states() == {"small-1": "Ordered", "small-2": "Ordered"}


@played
async def test_a_node_gets_the_kwok_label_after_its_boot_time_and_loses_its_taint_once_ready() -> None:
    world = KwokWorld()
    ordered_at = world.now
    await world.order(1)
    assert await world.tend() == pytest.approx(ordered_at + BOOT)
    await world.wait(BOOT - 1)
    await world.tend()
    assert KWOK not in world.documents()["small-1"]["metadata"]["labels"]
    world.now += 1
    assert await world.tend() is None
    node = world.documents()["small-1"]
    assert node["metadata"]["labels"][KWOK] == "fake"
    assert taint_keys(node) == [STARTING]
    assert await world.states() == {"small-1": "Ordered"}
    await world.wait(0)
    await world.tend()
    assert taint_keys(world.documents()["small-1"]) == []
    [instance] = (await world.state()).instances
    assert (instance.state, instance.node) == ("Running", "small-1")
    assert instance.since == pytest.approx(ordered_at + BOOT)


@played
async def test_where_kwok_reads_annotations_the_taint_keeps_pods_off_a_booting_node() -> None:
    world = KwokWorld(by="annotations")
    await world.order(1)
    await world.wait(1)
    assert world.documents()["small-1"]["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
    await world.tend()
    assert taint_keys(world.documents()["small-1"]) == [STARTING]
    assert await world.states() == {"small-1": "Ordered"}
    await world.wait(BOOT)
    await world.tend()
    await world.tend()
    assert await world.states() == {"small-1": "Running"}


@played
async def test_taints_that_others_set_meanwhile_stay() -> None:
    world = KwokWorld(group(taints=[{"key": "dedicated", "value": "x", "effect": "NoExecute"}]))
    await world.order(1)
    world.now += BOOT
    await world.tend()
    await world.wait(0)
    node = world.documents()["small-1"]
    noted = {"key": "noted", "effect": "NoSchedule", "timeAdded": "2026-11-15T18:00:00Z"}
    world.add_node("small-1", **{**node, "spec": {**node["spec"], "taints": [noted, *node["spec"]["taints"]]}})
    await world.tend()
    assert world.documents()["small-1"]["spec"]["taints"] == [
        noted,
        {"key": "dedicated", "value": "x", "effect": "NoExecute"},
    ]


@played
async def test_a_taint_is_not_removed_from_a_node_that_has_changed_since() -> None:
    world = KwokWorld()
    await world.order(1)
    world.now += BOOT
    await world.tend()
    await world.wait(0)
    tended = await world.provider.tend(world.now)
    world.change("small-1", labels={"kwok-nodegroup": "small", "seen": "yes"})
    await world.execute(tended.steps)
    assert world.outcomes[-1].result is Result.CONFLICT
    assert taint_keys(world.documents()["small-1"]) == [STARTING]


@played
async def test_an_executed_order_without_a_response_is_not_repeated() -> None:
    world = KwokWorld()
    world.server.responses_to_drop = 1
    ordered = await world.provider.order("small", 3, world.now)
    await world.execute(ordered.steps)
    assert [outcome.result for outcome in world.outcomes].count(Result.FAILED) == 1
    world.provider = world.restarted_provider()
    assert await world.order(3) == ()
    assert len(world.documents()) == 3


@played
async def test_a_partly_executed_order_is_completed() -> None:
    world = KwokWorld()
    world.server.faults.append(error_response(500, "InternalError", "etcd is not there"))
    await world.order(3)
    [existing] = {"small-1", "small-2", "small-3"} - world.documents().keys()
    assert existing == "small-1"
    assert len(await world.order(3)) == 1
    assert len(world.documents()) == 3


@played
async def test_an_order_on_an_old_view_uses_taken_names() -> None:
    world = KwokWorld()
    old = world.read_objects()
    await world.order(2)
    world.read_objects = lambda: old  # type: ignore[method-assign]
    late = world.restarted_provider()
    repeated = await late.order("small", 2, world.now + 5)
    assert repeated.instances == ("small-1", "small-2")
    await world.execute(repeated.steps)
    assert [outcome.result for outcome in world.outcomes[-2:]] == [Result.CONFLICT] * 2
    assert len(world.documents()) == 2


@played
async def test_names_continue_after_the_highest_and_skip_nodes_of_others() -> None:
    world = KwokWorld()
    world.add_node("small-7")
    world.add_node("small-x")
    assert await world.order(2) == ("small-8", "small-9")


def test_names_restart_when_the_highest_is_used() -> None:
    used = {"g-9999999", "g-1", "h-4"}
    names = generate_names("g", used)
    assert [next(names), next(names)] == ["g-2", "g-3"]


@played
async def test_a_group_never_grows_above_its_maximum() -> None:
    world = KwokWorld()
    ordered = await world.provider.order("small", 11, world.now)
    assert ordered.error is not None
    assert (ordered.error.reason, ordered.instances, ordered.steps) == (GROUP_AT_MAXIMUM, (), ())


@played
async def test_instances_are_deleted_by_deleting_the_observed_node() -> None:
    world = KwokWorld(group(minSize=1))
    await world.bring_up(3)
    uid = world.documents()["small-2"]["metadata"]["uid"]
    released = await world.provider.release("small", ["small-2", "nobody", "small-1", "small-3"], world.now)
    assert released.instances == ("small-2", "small-1")
    assert {name: reason.reason for name, reason in released.refused.items()} == {
        "nobody": UNKNOWN_INSTANCE,
        "small-3": GROUP_AT_MINIMUM,
    }
    [step] = released.steps
    assert all(isinstance(action, DeleteObject) for action in step)
    assert (step[0].target.uid, step[0].target.resource_version) == (uid, "")
    await world.execute(released.steps)
    assert list(world.documents()) == ["small-3"]


@played
async def test_a_leaving_node_does_not_count_and_is_not_deleted_again() -> None:
    world = KwokWorld()
    await world.bring_up(2)
    world.change("small-1", deletionTimestamp="2026-11-15T18:00:00Z", finalizers=["example.com/wait"])
    state = await world.state()
    assert state.target == 1
    assert await world.states() == {"small-1": "Leaving", "small-2": "Running"}
    released = await world.provider.release("small", ["small-1"], world.now)
    assert (released.instances, released.steps) == (("small-1",), ())
    assert await world.order(2) == ("small-3",)


@played
async def test_an_unknown_group_is_a_refusal() -> None:
    world = KwokWorld()
    ordered = await world.provider.order("large", 1, world.now)
    released = await world.provider.release("large", ["a", "b"], world.now)
    assert ordered.error is not None
    assert ordered.error.reason is UNKNOWN_GROUP
    assert [reason.reason for reason in released.refused.values()] == [UNKNOWN_GROUP] * 2


@played
async def test_nodes_of_an_undeclared_group_are_reported_kept_and_still_come_up() -> None:
    world = KwokWorld()
    await world.order(2)
    world.declare(group("other"))
    result = await world.provider.groups(world.now)
    assert [state.group.name for state in result.states] == ["other"]
    [problem] = result.problems
    assert (problem.group, problem.reason.reason) == ("small", GROUP_GONE)
    world.now += BOOT
    await world.tend()
    await world.wait(0)
    await world.tend()
    assert all(taint_keys(node) == [] for node in world.documents().values())


@played
async def test_an_invalid_declaration_is_reported_once() -> None:
    world = KwokWorld()
    await world.order(1)
    world.declare(group(maxSize=None), group("other"))
    result = await world.provider.groups(world.now)
    assert [state.group.name for state in result.states] == ["other"]
    assert [problem.group for problem in result.problems] == ["small"]


@played
async def test_a_change_of_the_declarations_is_followed() -> None:
    world = KwokWorld()
    await world.order(1)
    world.declare(group(maxSize=20, bootTime="10m"))
    state = await world.state()
    assert (state.group.max_size, state.group.boot_seconds) == (20, 600.0)
    world.now += BOOT
    await world.tend()
    assert world.documents()["small-1"]["metadata"]["labels"][KWOK] == "fake"


@played
async def test_a_node_with_invalid_annotations_is_up_at_its_creation() -> None:
    world = KwokWorld()
    await world.order(1)
    notes = {"trellis.x-k8s.io/ordered-at": "yesterday", "trellis.x-k8s.io/boot-seconds": "nan"}
    world.change("small-1", annotations=notes, creationTimestamp="2026-01-15T18:00:00Z")
    await world.tend()
    assert world.documents()["small-1"]["metadata"]["labels"][KWOK] == "fake"


@played
async def test_a_node_created_externally_for_a_group_belongs_to_it() -> None:
    world = KwokWorld()
    world.add_node("by-hand", metadata={"labels": {"kwok-nodegroup": "small"}})
    assert await world.states() == {"by-hand": "Running"}
    assert await world.order(2) == ("small-1",)


@played
async def test_refused_orders_have_an_error_and_earlier_ones_are_filled() -> None:
    world = KwokWorld(failing("RefuseOrders", after=2))
    ordered = await world.provider.order("small", 5, world.now)
    assert ordered.instances == ("small-1", "small-2")
    assert ordered.error is not None
    assert (ordered.error.reason, str(ordered.error)) == (ORDER_REFUSED, "small has no machine for 3 of 5 nodes")
    await world.execute(ordered.steps)
    assert (await world.state()).target == 2


@played
async def test_lost_orders_are_confirmed_without_instances() -> None:
    world = KwokWorld(failing("LoseOrders", after=1))
    assert await world.order(3) == ("small-1", "small-2", "small-3")
    state = await world.state()
    assert (state.target, [instance.id for instance in state.instances]) == (1, ["small-1"])


@played
async def test_an_order_that_hangs_ends_at_the_callers_timeout_and_blocks_no_other() -> None:
    world = KwokWorld(failing("Hang"), group("other"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.provider.order("small", 1, world.now), 60)
    assert await world.order(1, "other") == ("other-1",)
    assert await world.order(0) == ()


@pytest.mark.parametrize("by", ["labels", "annotations"])
def test_nodes_that_never_come_up_stay_ordered(by: str) -> None:
    async def main() -> None:
        world = KwokWorld(failing("NeverComeUp", after=1), by=by)
        await world.bring_up(2)
        assert await world.states() == {"small-1": "Running", "small-2": "Ordered"}
        assert "conditions" not in world.documents()["small-2"]["status"]
        assert await world.tend() is None

    run(main())


@played
async def test_nodes_that_fail_to_start_have_an_error_and_can_be_released_below_the_minimum() -> None:
    world = KwokWorld(group(minSize=2, fails={"how": "FailToStart", "after": 1}))
    ordered_at = world.now
    await world.order(2)
    assert await world.tend() == pytest.approx(ordered_at + BOOT)
    await world.bring_up(2)
    instance = (await world.state()).index_by_id()["small-2"]
    assert instance.error is not None
    assert (instance.state, instance.error.reason) == ("Failed", NODE_FAILED_TO_START)
    assert instance.since == pytest.approx(ordered_at + BOOT)
    assert (await world.state()).target == 2
    released = await world.provider.release("small", ["small-2"], world.now)
    assert (released.instances, released.refused) == (("small-2",), {})


@played
async def test_nodes_of_another_shape_show_it_and_the_group_does_not() -> None:
    world = KwokWorld(failing("OtherShape", after=1, resources={"cpu": "1", "memory": "2Gi"}))
    await world.bring_up(2)
    result = {name: node["status"]["allocatable"]["cpu"] for name, node in world.documents().items()}
    assert result == {"small-1": "4", "small-2": "1"}
    assert (await world.state()).group.template.status.allocatable["cpu"] == "4"


@played
async def test_the_failure_of_a_node_is_decided_with_its_order() -> None:
    world = KwokWorld(failing("NeverComeUp"))
    await world.order(1)
    world.declare(group())
    await world.bring_up(2)
    assert await world.states() == {"small-1": "Ordered", "small-2": "Running"}


STEPS = st.lists(
    st.tuples(st.sampled_from(["order", "release", "tend", "wait", "restart", "lose"]), st.integers(0, 6)), max_size=25
)


@given(STEPS)
def test_groups_stay_within_limits_and_no_order_is_repeated_under_faults(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        world = KwokWorld(group(maxSize=5, minSize=1))
        highest = 0
        for what, number in steps:
            match what:
                case "order":
                    ordered = await world.provider.order("small", number, world.now)
                    await world.execute(ordered.steps)
                    await world.execute(ordered.steps)
                    assert (ordered.error is not None) == (number > 5)
                    highest = max(highest, number if number <= 5 else 0)
                case "release":
                    running = [instance.id for instance in (await world.state()).instances]
                    released = await world.provider.release("small", running[:number], world.now)
                    await world.execute(released.steps)
                case "tend":
                    await world.tend()
                case "wait":
                    await world.wait(number * 10.0)
                case "restart":
                    world.provider = world.restarted_provider()
                case "lose":
                    world.server.responses_to_drop = number
            state = await world.state()
            assert state.target == len(world.documents()) <= highest
        world.server.responses_to_drop = 0
        await world.bring_up((await world.state()).target)
        assert set((await world.states()).values()) <= {"Running"}

    run(main())


def test_a_node_differs_from_the_template_of_its_group_in_its_identity_only() -> None:
    result: dict[str, Any] = {}

    async def main() -> None:
        world = KwokWorld(group(labels={"zone": "a"}, taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
        await world.bring_up(1)
        result["template"] = (await world.state()).group.template
        result["node"] = convert_object(world.documents()["small-1"], Node)

    run(main())
    template, node = result["template"], result["node"]
    assert node.spec.taints == template.spec.taints
    assert node.status.allocatable == template.status.allocatable
    assert dict(node.metadata.labels) == {**template.metadata.labels, "kubernetes.io/hostname": "small-1"}
