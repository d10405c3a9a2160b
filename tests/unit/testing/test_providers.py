"""The conformance suite for providers: a conforming provider passes, and a broken rule fails its own check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from support.virtual_time import run
from support.worlds.providers.cloud_provider import BOOT, NAME, CloudEnvironment, CloudProvider
from support.worlds.providers.kwok_nodes import KwokWorld, group
from support.worlds.providers.node_claims import ClaimWorld, claim_group
from trellis.api.kube.nodes import NodeStatus
from trellis.core.nodes import Instance, InstanceState
from trellis.kube.resources import NODES
from trellis.kube.write.actions import DeleteObject, PatchObject, Target
from trellis.kube.write.patches import merge_patch
from trellis.providers.protocol import Groups, Ordered, Released, Tended
from trellis.testing.providers import CHECKS, conformance_tests, find_failures


def kwok_environment() -> KwokWorld:
    return KwokWorld(
        group(minSize=1),
        group("stuck", fails={"how": "Hang"}),
        group("broken", maxSize=-1),
        hanging_group="stuck",
        broken_group="broken",
    )


test_kwok_conforms = conformance_tests(kwok_environment, run)
test_kwok_with_groups_of_no_minimum_conforms = conformance_tests(KwokWorld, run)
test_kwok_that_goes_by_annotations_conforms = conformance_tests(lambda: KwokWorld(by="annotations"), run)
test_karpenter_conforms = conformance_tests(
    lambda: ClaimWorld(claim_group(minSize=1), claim_group("broken", maxSize=-1), broken_group="broken"), run
)
test_karpenter_with_groups_of_no_minimum_conforms = conformance_tests(ClaimWorld, run)
test_a_provider_with_a_cloud_of_its_own_conforms = conformance_tests(CloudEnvironment, run)


def test_each_rule_has_a_description() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) == 20
    assert all(check.description.endswith(".") for check in CHECKS)


def build_broken_provider(**methods: Any) -> Callable[[], CloudEnvironment]:
    """An environment whose provider conforms except for these methods."""
    made = type("Broken", (CloudProvider,), methods)
    return lambda: CloudEnvironment(made)


async def order_target_on_top(self: CloudProvider, name: str, count: int, now: float) -> Ordered:
    for _ in range(count):
        self.cloud.add(now)
    return Ordered()


async def order_without_limit(self: CloudProvider, _name: str, target: int, now: float) -> Ordered:
    while len(self.cloud.machines) < target:
        self.cloud.add(now)
    return Ordered()


async def order_and_raise(_self: CloudProvider, _name: str, _target: int, _now: float) -> Ordered:
    raise OSError("the line is dead")


async def order_under_wrong_ids(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    ordered = await CloudProvider.order(self, name, target, now)
    return msgspec.structs.replace(ordered, instances=("m-1",)) if ordered.error is None else ordered


async def order_and_shrink(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    if name == NAME and target < len(self.cloud.machines):
        self.cloud.machines.clear()
    return await CloudProvider.order(self, name, target, now)


async def order_in_memory(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    if name == NAME and target <= self.group.max_size:
        self.wanted = target  # type: ignore[attr-defined]
    return await CloudProvider.order(self, name, target, now)


async def report_from_memory(self: CloudProvider, now: float) -> Groups:
    state = self.state(now)
    return Groups((msgspec.structs.replace(state, target=getattr(self, "wanted", 0)),))


async def release_all(self: CloudProvider, _name: str, instances: Sequence[str], _now: float) -> Released:
    for instance in instances:
        self.cloud.machines.pop(instance, None)
    return Released(tuple(instances))


async def release_without_effect(_self: CloudProvider, _name: str, instances: Sequence[str], _now: float) -> Released:
    return Released(tuple(instances))


async def release_all_or_nothing(self: CloudProvider, name: str, instances: Sequence[str], now: float) -> Released:
    released = await CloudProvider.release(self, name, [], now)
    if set(instances) <= set(self.cloud.machines) or name != NAME:
        return await CloudProvider.release(self, name, instances, now)
    refused = (await CloudProvider.release(self, "nowhere", instances, now)).refused
    return msgspec.structs.replace(released, refused=refused)


async def release_the_newest(self: CloudProvider, name: str, instances: Sequence[str], now: float) -> Released:
    """As a cloud that takes a number of machines and picks them itself."""
    released = await CloudProvider.release(self, name, instances, now)
    for machine in released.instances:
        self.cloud.machines[machine] = now - 2 * BOOT
        del self.cloud.machines[next(iter(self.cloud.machines))]
    return released


async def release_all_but_one(self: CloudProvider, name: str, instances: Sequence[str], now: float) -> Released:
    if len(self.cloud.machines) > 1 or name != NAME:
        return await CloudProvider.release(self, name, instances, now)
    return Released(refused=(await CloudProvider.release(self, "nowhere", instances, now)).refused)


async def tend_forever(_self: CloudProvider, _now: float) -> Tended:
    return Tended(next=0.0)


async def report_duplicate_group(self: CloudProvider, now: float) -> Groups:
    state = self.state(now)
    nameless = msgspec.structs.replace(state.group, max_size=0)
    return Groups((state, msgspec.structs.replace(state, group=nameless)))


def never_run(_self: CloudProvider, machine: str, ordered: float, _now: float) -> Instance:
    return Instance(machine, InstanceState.ORDERED, ordered)


def run_at_once(_self: CloudProvider, machine: str, ordered: float, _now: float) -> Instance:
    return Instance(machine, InstanceState.RUNNING, ordered)


def without_minimum() -> Any:
    return msgspec.structs.replace(CloudProvider.group, min_size=0)


def priced(price: float) -> Any:
    return msgspec.structs.replace(CloudProvider.group, price=price)


@pytest.mark.parametrize(
    ("methods", "rule", "message"),
    [
        ({"name": ""}, "describes-its-groups", "it has no name"),
        ({"group": priced(float("nan"))}, "describes-its-groups", "pool has a price of nan"),
        ({"groups": report_duplicate_group}, "describes-its-groups", "there are two groups called pool"),
        ({"order": order_target_on_top}, "ignores-repeated-orders", "a target of 6 and not 2, after one order"),
        ({"order": order_without_limit}, "respects-the-maximum", "an order above the limit of 4 is not refused"),
        ({"order": order_without_limit}, "refuses-unknown-groups", "a group that does not exist is not refused"),
        ({"order": order_and_raise}, "orders-up-to-the-target", "it raised OSError: the line is dead"),
        ({"order": order_under_wrong_ids}, "names-ordered-instances", "it reported the orders m-1"),
        ({"order": order_and_shrink}, "never-shrinks-by-order", "a target of 0 and not 2"),
        (
            {"order": order_in_memory, "groups": report_from_memory},
            "keeps-no-state",
            "another process reports the same groups differently",
        ),
        ({"release": release_all}, "respects-the-minimum", "2 run and at least 1 have to stay, and 0 are refused"),
        ({"release": release_all}, "refuses-unknown-instances", "an instance that does not exist is not refused"),
        ({"release": release_without_effect}, "releases-instances", "a target of 2 and not 1"),
        ({"release": release_all_or_nothing}, "refuses-unknown-instances", "a target of 2 and not 1"),
        (
            {"release": release_the_newest},
            "releases-the-named-instance-alone",
            "m-0002 was released, and is still among the instances of pool",
        ),
        (
            {"release": release_all_but_one, "group": without_minimum()},
            "scales-to-zero-and-back",
            "was released, and is still among the instances of pool",
        ),
        ({"tend": tend_forever}, "is-idle-when-all-run", "it still wants something to be done"),
        ({"instance": never_run}, "starts-nodes-as-described", "its instances are not all running"),
        ({"instance": run_at_once}, "starts-nodes-as-described", "and there is no node for it"),
    ],
)
def test_breaking_a_rule_fails_its_check(methods: dict[str, Any], rule: str, message: str) -> None:
    failures = {failure.check: failure.message for failure in find_failures(build_broken_provider(**methods), run)}
    assert message in failures.get(rule, f"not caught; caught was {failures}")


def test_nodes_that_differ_from_the_group_template_fail_a_check() -> None:
    class Smaller(CloudEnvironment):
        def joined_status(self) -> NodeStatus:
            return NodeStatus(allocatable={"cpu": "1", "memory": "8Gi", "pods": "30"})

    assert [(failure.check, failure.message) for failure in find_failures(Smaller, run)] == [
        ("starts-nodes-as-described", "cloud:///m-0001 has 1 cpu, its group declares 2")
    ]


def test_a_provider_that_counts_orders_before_they_are_executed_fails_a_check() -> None:
    class OrderCounting(KwokWorld):
        """Its provider counts orders that nothing has executed."""

        def restarted_provider(self) -> Any:
            provider: Any = super().restarted_provider()
            order, groups = provider.order, provider.groups
            targets: dict[str, int] = {}

            async def order_and_count(name: str, target: int, now: float) -> Ordered:
                ordered: Ordered = await order(name, target, now)
                targets[name] = target
                return ordered

            async def report_ordered(now: float) -> Groups:
                groups_state: Groups = await groups(now)
                states = [
                    msgspec.structs.replace(state, target=targets.get(state.group.name, state.target))
                    for state in groups_state.states
                ]
                return msgspec.structs.replace(groups_state, states=tuple(states))

            provider.order, provider.groups = order_and_count, report_ordered
            return provider

    failures = {failure.check: failure.message for failure in find_failures(OrderCounting, run)}
    assert (
        failures["counts-only-executed-orders"]
        == "small has a target of 2 and not 0, after an order that was not carried out"
    )


def test_an_order_that_starts_anew_after_a_crash_fails_a_check() -> None:
    class Forgetful(KwokWorld):
        """Its provider orders two nodes more at each order, whatever is there already."""

        def restarted_provider(self) -> Any:
            provider: Any = super().restarted_provider()
            order = provider.order

            async def order_two_more(name: str, target: int, now: float) -> Ordered:
                existing = len(self.documents())
                ordered: Ordered = await order(name, existing + 2 if existing else target, now)
                return ordered

            provider.order = order_two_more
            return provider

    failures = {failure.check: failure.message for failure in find_failures(Forgetful, run)}
    message = "small has a target of 3 and not 2, after an order that was interrupted and repeated"
    assert failures["resumes-interrupted-orders"] == message


def test_a_release_that_is_not_resumed_after_a_crash_fails_a_check() -> None:
    class Marking(KwokWorld):
        """Its provider marks a node, then deletes it, and takes a marked node for one that is gone."""

        def restarted_provider(self) -> Any:
            provider: Any = super().restarted_provider()
            release = provider.release

            async def mark_and_delete(name: str, instances: Sequence[str], now: float) -> Released:
                released: Released = await release(name, instances, now)
                node = self.documents().get(instances[0])
                if node is None or "marked" in node["metadata"].get("labels", {}):
                    return msgspec.structs.replace(released, steps=())
                mark = PatchObject(Target(NODES, instances[0]), merge_patch({"metadata": {"labels": {"marked": "1"}}}))
                return msgspec.structs.replace(released, steps=((mark,), *released.steps))

            provider.release = mark_and_delete
            return provider

    failures = {failure.check: failure.message for failure in find_failures(Marking, run)}
    message = "small-2 was released, and is still among the instances of small"
    assert failures["resumes-interrupted-releases"] == message


def test_a_broken_group_that_is_reported_as_sound_fails_a_check() -> None:
    failures = find_failures(lambda: KwokWorld(group(), group("broken"), broken_group="broken"), run)
    message = "broken, whose description is invalid, is among its groups"
    assert [(failure.check, failure.message) for failure in failures] == [("reports-a-broken-group-alone", message)]


def test_a_response_for_a_hanging_group_fails_a_check() -> None:
    failures = find_failures(lambda: KwokWorld(group(), group("stuck"), hanging_group="stuck"), run)
    assert [(failure.check, failure.message) for failure in failures] == [
        ("tolerates-cancelled-calls", "an order from stuck, which should hang, is answered")
    ]


def test_an_environment_without_capacity_is_reported() -> None:
    failures = find_failures(lambda: KwokWorld(group(maxSize=1)), run)
    assert len(failures) == len(CHECKS) - 3
    assert "no group of the environment can grow by two instances" in failures[0].message


def test_steps_that_cannot_be_executed_fail_the_rule_and_not_the_suite() -> None:
    class Writing(CloudProvider):
        async def tend(self, _now: float, /) -> Tended:
            return Tended(((DeleteObject(Target(NODES, "x")),),))

    failures = {failure.check: failure.message for failure in find_failures(lambda: CloudEnvironment(Writing), run)}
    assert "it raised AssertionError: nobody here writes to an API server" in failures["starts-nodes-as-described"]


def test_the_suite_runs_on_a_real_event_loop() -> None:
    assert find_failures(CloudEnvironment, asyncio.run) == []
    assert BOOT > 60  # which is time that nobody waited for
