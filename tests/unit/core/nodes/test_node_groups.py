"""May a group get larger, or smaller?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trellis.api.kube.nodes import Node
from trellis.core.nodes import GroupState, Instance, InstanceState, NodeGroup, find_order_problem, find_release_problems
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM, GROUP_AT_MINIMUM, UNKNOWN_INSTANCE

STATES = st.lists(st.sampled_from(list(InstanceState)), max_size=8)


def state(*states: InstanceState, least: int = 0, most: int = 10) -> GroupState:
    instances = tuple(Instance(f"i{at}", state, 0.0) for at, state in enumerate(states))
    target = sum(state is not InstanceState.LEAVING for state in states)
    return GroupState(NodeGroup("small", Node(), most, least), target, instances)


def test_an_order_above_the_maximum_is_refused_with_both_numbers() -> None:
    refused = find_order_problem(state(most=3), 4)
    assert refused is not None
    assert (refused.reason, str(refused)) == (GROUP_AT_MAXIMUM, "small has a maximum of 3 nodes, and 4 were requested")
    assert find_order_problem(state(most=3), 3) is None


def test_the_present_target_may_be_ordered_again_after_the_maximum_was_lowered() -> None:
    running = state(InstanceState.RUNNING, InstanceState.RUNNING, most=1)
    assert find_order_problem(running, 2) is None
    assert find_order_problem(running, 3) is not None


@given(STATES, st.integers(0, 8))
def test_only_running_instances_within_the_minimum_are_kept(states: list[InstanceState], least: int) -> None:
    result = state(*states, least=least)
    refused = find_release_problems(result, [instance.id for instance in result.instances])
    by_id = result.index_by_id()
    assert all(reason.reason is GROUP_AT_MINIMUM for reason in refused.values())
    assert all(by_id[name].state is InstanceState.RUNNING for name in refused)
    assert len(refused) <= least
    if set(states) <= {InstanceState.RUNNING, InstanceState.LEAVING}:
        assert len(refused) == min(least, result.target)


def test_an_instance_that_never_came_up_is_released_whatever_the_minimum() -> None:
    waiting = state(InstanceState.ORDERED, InstanceState.FAILED, InstanceState.LEAVING, least=5)
    assert find_release_problems(waiting, ["i0", "i1", "i2"]) == {}


def test_an_unknown_instance_is_refused_and_the_others_are_released() -> None:
    refused = find_release_problems(state(InstanceState.RUNNING), ["nobody", "i0", "i0"])
    assert {name: reason.reason for name, reason in refused.items()} == {"nobody": UNKNOWN_INSTANCE}
