"""Orders of NodeClaims: never repeated, their failures reported and not lost, and NodePools left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.virtual_time import run
from support.worlds.providers.node_claims import BOOT, LAUNCH_TIMEOUT, ClaimWorld, NodeClass, claim_group
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM, GROUP_AT_MINIMUM, UNKNOWN_INSTANCE
from trellis.kube.write.actions import DeleteObject, PatchObject
from trellis.kube.write.outcomes import Result
from trellis.providers.declared.declarations import GROUP_GONE
from trellis.providers.node_claims.instances import (
    CLAIM_IGNORED,
    CLAIM_NOT_LAUNCHED,
    CLAIM_NOT_REGISTERED,
    CLAIM_WITHOUT_MACHINE,
    RELEASED_ANNOTATION,
    REPORT_FINALIZER,
)
from trellis.providers.node_claims.provider import NODE_CLAIMS_UNREADABLE, UnreadableNodeClaims
from trellis.providers.protocol import UNKNOWN_GROUP
from trellis.testing.scripted_transport import error_response

GROUP_LABEL = "trellis.x-k8s.io/node-group"
NODE_POOL_LABEL = "karpenter.sh/nodepool"


def played(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test on virtual time."""

    @wraps(test)
    def play() -> None:
        async def main() -> None:
            await test()

        run(main())

    return play


@played
async def test_an_order_creates_standalone_claims_that_never_expire() -> None:
    world = ClaimWorld(
        claim_group(
            labels={"team": "builds"},
            taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
            startupTaints=[{"key": "agent", "effect": "NoSchedule"}],
        )
    )
    assert await world.order(2) == ("small-1", "small-2")
    claim = world.claims()["small-1"]
    assert (claim["apiVersion"], claim["kind"]) == ("karpenter.sh/v1", "NodeClaim")
    assert claim["metadata"]["labels"] == {"team": "builds", GROUP_LABEL: "small"}
    assert claim["metadata"]["finalizers"] == [REPORT_FINALIZER]
    assert claim["spec"] == {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "good"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["s-4x"]}],
        "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "agent", "effect": "NoSchedule"}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
        "expireAfter": "Never",
    }
    assert await world.states() == {"small-1": "Ordered", "small-2": "Ordered"}


@played
async def test_a_claim_runs_once_it_is_initialized_and_its_node_is_known() -> None:
    world = ClaimWorld()
    ordered_at = world.now
    await world.order(1)
    await world.wait(1)
    [instance] = (await world.state()).instances
    assert (instance.state, instance.node, instance.since) == ("Ordered", "", ordered_at)
    await world.wait(BOOT)
    [instance] = (await world.state()).instances
    assert (instance.state, instance.node, instance.since) == ("Running", "node-small-1", world.now)


@played
async def test_a_node_that_has_not_registered_is_known_by_its_machine() -> None:
    """Until its claim names it, its taints and what it offers are not to be taken for those of a node that is up."""
    world = ClaimWorld(claim_group(nodeClassRef={"group": "g", "kind": "K", "name": "dead"}))
    await world.order(1)
    await world.wait(1)
    node = {"metadata": {}, "spec": {"providerID": "cloud:///small-1"}, "status": {}}
    world.server.put("/api/v1/nodes/ip-10-0-0-7", node)
    world.server.put("/api/v1/nodes/other", {"metadata": {}, "spec": {"providerID": ""}, "status": {}})
    [instance] = (await world.state()).instances
    assert (instance.state, instance.node) == ("Ordered", "ip-10-0-0-7")


@played
async def test_a_registered_claim_loses_its_finalizer_and_nothing_else() -> None:
    world = ClaimWorld()
    await world.bring_up(2)
    for claim in world.claims().values():
        assert claim["metadata"]["finalizers"] == ["karpenter.sh/termination"]
        assert RELEASED_ANNOTATION not in claim["metadata"].get("annotations", {})
    assert await world.tend() is None


@played
async def test_an_executed_order_without_a_response_is_not_repeated() -> None:
    world = ClaimWorld()
    world.server.responses_to_drop = 1
    ordered = await world.provider.order("small", 3, world.now)
    await world.execute(ordered.steps)
    assert [outcome.result for outcome in world.outcomes].count(Result.FAILED) == 1
    world.provider = world.restarted_provider()
    assert await world.order(3) == ()
    assert len(world.claims()) == 3


@played
async def test_an_order_on_an_old_view_uses_taken_names() -> None:
    world = ClaimWorld()
    old = world.read_objects()
    await world.order(2)
    world.read_objects = lambda: old  # type: ignore[method-assign]
    repeated = await world.restarted_provider().order("small", 2, world.now + 5)
    assert repeated.instances == ("small-1", "small-2")
    await world.execute(repeated.steps)
    assert [outcome.result for outcome in world.outcomes[-2:]] == [Result.CONFLICT] * 2
    assert len(world.claims()) == 2


@played
async def test_a_partly_executed_order_is_completed() -> None:
    world = ClaimWorld()
    world.server.faults.append(error_response(500, "InternalError", "etcd is not there"))
    await world.order(3)
    assert len(world.claims()) == 2
    assert len(await world.order(3)) == 1
    assert len(world.claims()) == 3


@played
async def test_names_skip_claims_of_others() -> None:
    world = ClaimWorld()
    world.add_claim("small-7", labels={NODE_POOL_LABEL: "general"})
    assert await world.order(1) == ("small-8",)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {NODE_POOL_LABEL: "general"}},
        # A NodePool whose template carries the label of a group.
        {"labels": {NODE_POOL_LABEL: "general", GROUP_LABEL: "small"}, "finalizers": [REPORT_FINALIZER]},
        {"labels": {GROUP_LABEL: "small"}, "ownerReferences": [{"kind": "NodePool", "name": "general", "uid": "1"}]},
        {"labels": {}},
    ],
)
def test_claims_of_node_pools_are_never_counted_and_never_touched(metadata: dict[str, object]) -> None:
    async def main() -> None:
        world = ClaimWorld()
        world.add_claim("general-x", **metadata)
        state = await world.state()
        assert (state.target, state.instances) == (0, ())
        assert (await world.provider.groups(world.now)).problems == ()
        refused = (await world.provider.release("small", ["general-x"], world.now)).refused
        assert refused["general-x"].reason is UNKNOWN_INSTANCE
        await world.tend()
        await world.bring_up(1)
        await world.release("small-1")
        written = {outcome.action.target.name for outcome in world.outcomes}
        assert written == {"small-1"}

    run(main())


@played
async def test_a_claim_without_capacity_fails_at_once_and_is_kept_until_it_is_released() -> None:
    world = ClaimWorld(claim_group(node_class=NodeClass.MISSING))
    await world.order(1)
    await world.wait(1)
    state = await world.state()
    [instance] = state.instances
    assert instance.error is not None
    assert (state.target, instance.state, instance.since) == (1, "Failed", world.now)
    assert instance.error.reason is CLAIM_WITHOUT_MACHINE
    await world.tend()
    assert await world.states() == {"small-1": "Failed"}
    await world.release("small-1")
    assert world.claims() == {}
    assert (await world.state()).target == 0


@played
async def test_a_claim_that_cannot_be_launched_fails_after_a_time_that_is_a_setting() -> None:
    world = ClaimWorld(claim_group(node_class=NodeClass.BROKEN))
    ordered_at = world.now
    await world.order(1)
    await world.wait(LAUNCH_TIMEOUT - 1)
    assert await world.states() == {"small-1": "Ordered"}
    await world.wait(1)
    [instance] = (await world.state()).instances
    assert instance.error is not None
    assert (instance.state, instance.since) == ("Failed", ordered_at + LAUNCH_TIMEOUT)
    assert instance.error.reason is CLAIM_NOT_LAUNCHED
    assert str(instance.error) == "LaunchFailed: it is LaunchFailed"
    await world.release("small-1")
    assert await world.states() == {"small-1": "Leaving"}
    await world.wait(1)
    assert world.claims() == {}


@pytest.mark.parametrize(
    ("node_class", "seconds", "reason"),
    [(NodeClass.BROKEN, 301.0, CLAIM_NOT_LAUNCHED), (NodeClass.DEAD, 901.0, CLAIM_NOT_REGISTERED)],
)
def test_what_karpenter_gives_up_has_failed_with_its_reason(
    node_class: NodeClass, seconds: float, reason: object
) -> None:
    async def main() -> None:
        world = ClaimWorld(claim_group(node_class=node_class))
        await world.order(1)
        await world.wait(1)
        await world.wait(seconds)
        [instance] = (await world.state()).instances
        assert instance.error is not None
        assert (instance.state, instance.error.reason, instance.since) == ("Failed", reason, world.now)
        assert "deletionTimestamp" in world.claims()["small-1"]["metadata"]
        await world.release("small-1")
        assert world.claims() == {}

    run(main())


@played
async def test_a_claim_that_karpenter_does_not_take_up_fails_after_five_minutes() -> None:
    world = ClaimWorld(claim_group(node_class=NodeClass.FOREIGN))
    await world.order(1)
    await world.wait(299)
    assert await world.states() == {"small-1": "Ordered"}
    await world.wait(1)
    [instance] = (await world.state()).instances
    assert instance.error is not None
    assert instance.error.reason is CLAIM_IGNORED
    await world.release("small-1")
    assert world.claims() == {}


@played
async def test_a_running_node_that_others_delete_leaves_and_has_not_failed() -> None:
    """An interrupted spot machine, a repaired node: the group does not back off."""
    world = ClaimWorld()
    await world.bring_up(2)
    world.delete("small-1")
    assert await world.states() == {"small-1": "Leaving", "small-2": "Running"}
    assert (await world.state()).target == 1
    await world.wait(1)
    assert await world.order(2) == ("small-3",)


@played
async def test_a_running_node_that_others_delete_before_it_was_tended_leaves_too() -> None:
    world = ClaimWorld()
    await world.order(1)
    await world.wait(1)
    await world.wait(BOOT)
    world.delete("small-1")
    assert await world.states() == {"small-1": "Leaving"}
    await world.tend()
    await world.wait(1)
    assert world.claims() == {}


@played
async def test_a_released_claim_that_has_not_registered_is_marked_before_it_is_deleted() -> None:
    world = ClaimWorld()
    await world.order(1)
    await world.wait(1)
    released = await world.provider.release("small", ["small-1"], world.now)
    [[mark], [deletion]] = released.steps
    assert isinstance(mark, PatchObject)
    assert isinstance(deletion, DeleteObject)
    assert mark.target.resource_version
    assert (deletion.target.uid, deletion.target.resource_version) == (mark.target.uid, "")
    # The process ends in between, and the next one completes it.
    await world.execute(released.steps[:1])
    assert await world.states() == {"small-1": "Leaving"}
    assert (await world.state()).target == 0
    world.provider = world.restarted_provider()
    await world.tend()
    await world.wait(1)
    assert world.claims() == {}


@played
async def test_a_claim_that_changed_since_is_not_released_by_halves() -> None:
    world = ClaimWorld()
    await world.order(1)
    released = await world.provider.release("small", ["small-1"], world.now)
    await world.wait(1)
    await world.execute(released.steps[:1])
    assert world.outcomes[-1].result is Result.CONFLICT
    assert await world.states() == {"small-1": "Ordered"}


@played
async def test_a_running_claim_is_deleted_by_its_uid_alone() -> None:
    world = ClaimWorld(claim_group(minSize=1))
    await world.bring_up(3)
    released = await world.provider.release("small", ["small-2", "nobody", "small-1", "small-3"], world.now)
    assert released.instances == ("small-2", "small-1")
    assert {name: reason.reason for name, reason in released.refused.items()} == {
        "nobody": UNKNOWN_INSTANCE,
        "small-3": GROUP_AT_MINIMUM,
    }
    [step] = released.steps
    uid = world.claims()["small-2"]["metadata"]["uid"]
    assert all(isinstance(action, DeleteObject) for action in step)
    assert (step[0].target.uid, step[0].target.resource_version) == (uid, "")
    await world.execute(released.steps)
    assert await world.states() == {"small-1": "Leaving", "small-2": "Leaving", "small-3": "Running"}
    again = await world.provider.release("small", ["small-2"], world.now)
    assert (again.instances, again.steps) == (("small-2",), ())
    await world.wait(1)
    assert list(world.claims()) == ["small-3"]


@played
async def test_a_group_never_grows_above_its_maximum() -> None:
    world = ClaimWorld()
    ordered = await world.provider.order("small", 11, world.now)
    assert ordered.error is not None
    assert (ordered.error.reason, ordered.instances, ordered.steps) == (GROUP_AT_MAXIMUM, (), ())


@played
async def test_claims_that_cannot_be_read_are_not_taken_for_none() -> None:
    world = ClaimWorld()
    await world.bring_up(1)
    world.readable = False
    with pytest.raises(UnreadableNodeClaims, match=r"nodeclaims\.karpenter\.sh is not served"):
        await world.provider.groups(world.now)
    ordered = await world.provider.order("small", 3, world.now)
    released = await world.provider.release("small", ["small-1"], world.now)
    assert ordered.error is not None
    assert (ordered.error.reason, ordered.steps) == (NODE_CLAIMS_UNREADABLE, ())
    assert (released.refused["small-1"].reason, released.steps) == (NODE_CLAIMS_UNREADABLE, ())
    assert (await world.provider.tend(world.now)).steps == ()


@played
async def test_claims_of_an_undeclared_group_are_reported_and_kept() -> None:
    world = ClaimWorld()
    await world.bring_up(2)
    world.declare(claim_group("other"))
    result = await world.provider.groups(world.now)
    assert [state.group.name for state in result.states] == ["other"]
    [problem] = result.problems
    assert (problem.group, problem.reason.reason) == ("small", GROUP_GONE)
    assert str(problem.reason) == "the node group small of 2 NodeClaims is not declared"
    released = await world.provider.release("small", ["small-1"], world.now)
    assert released.refused["small-1"].reason is UNKNOWN_GROUP
    await world.tend()
    assert len(world.claims()) == 2


@played
async def test_failed_claims_of_an_undeclared_group_go_in_the_end() -> None:
    world = ClaimWorld(claim_group(node_class=NodeClass.MISSING))
    await world.order(1)
    await world.wait(1)
    world.declare(claim_group("other"))
    assert await world.tend() == world.now + 300
    assert len(world.claims()) == 1
    await world.wait(300)
    assert await world.tend() is None
    assert world.claims() == {}


STEPS = st.lists(
    st.tuples(st.sampled_from(["order", "release", "tend", "wait", "restart", "lose", "interrupt"]), st.integers(0, 6)),
    max_size=25,
)


@given(STEPS, st.sampled_from([NodeClass.GOOD, NodeClass.MISSING, NodeClass.BROKEN, NodeClass.DEAD]))
def test_groups_stay_within_limits_and_nothing_is_left_behind_under_faults(
    steps: list[tuple[str, int]], node_class: NodeClass
) -> None:
    async def main() -> None:
        world = ClaimWorld(claim_group(maxSize=5, node_class=node_class))
        for what, number in steps:
            match what:
                case "order":
                    ordered = await world.provider.order("small", number, world.now)
                    await world.execute(ordered.steps)
                    await world.execute(ordered.steps)
                    assert (ordered.error is not None) == (number > 5)
                case "release" | "interrupt":
                    ids = [instance.id for instance in (await world.state()).instances]
                    released = await world.provider.release("small", ids[:number], world.now)
                    await world.execute(released.steps[:1] if what == "interrupt" else released.steps)
                case "tend":
                    await world.tend()
                case "wait":
                    await world.wait(number * 60.0)
                case "restart":
                    world.provider = world.restarted_provider()
                case "lose":
                    world.server.responses_to_drop = number
            assert (await world.state()).target <= 5
        world.server.responses_to_drop = 0
        for _ in range(3):
            await world.wait(1.0)
            await world.tend()
            await world.release(*(await world.states()))
        await world.wait(1.0)
        await world.tend()
        assert (world.claims(), world.stored_nodes()) == ({}, ())

    run(main())
