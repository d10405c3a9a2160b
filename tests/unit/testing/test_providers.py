"""The conformance suite for providers: sound ones pass it, and whoever breaks a rule is caught by that rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from support.virtual_time import run
from support.worlds.cloud_provider import BOOT, NAME, CloudProvider, CloudYard
from support.worlds.kwok_nodes import KwokWorld, group
from trellis.api.kube.nodes import NodeStatus
from trellis.core.nodes import Instance, InstanceState
from trellis.kube.resources import NODES
from trellis.kube.write.actions import DeleteObject, Target
from trellis.providers.protocol import Groups, Ordered, Released, Tended
from trellis.testing.providers import CHECKS, conformance_tests, failures_of


def kwok_yard() -> KwokWorld:
    return KwokWorld(group(minSize=1), group("stuck", fails={"how": "Hang"}), hanging="stuck")


test_kwok_conforms = conformance_tests(kwok_yard, run)
test_kwok_that_goes_by_annotations_conforms = conformance_tests(lambda: KwokWorld(by="annotations"), run)
test_a_provider_with_a_cloud_of_its_own_conforms = conformance_tests(CloudYard, run)


def test_every_rule_says_what_it_is_about() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) == 15
    assert all(check.says.endswith(".") for check in CHECKS)


def broken(**methods: Any) -> Callable[[], CloudYard]:
    """A yard with a provider that is sound but for some of its methods."""
    made = type("Broken", (CloudProvider,), methods)
    return lambda: CloudYard(made)


async def order_so_many_more(self: CloudProvider, name: str, count: int, now: float) -> Ordered:
    for _ in range(count):
        self.cloud.add(now)
    return Ordered()


async def order_without_limit(self: CloudProvider, _name: str, target: int, now: float) -> Ordered:
    while len(self.cloud.machines) < target:
        self.cloud.add(now)
    return Ordered()


async def order_and_raise(_self: CloudProvider, _name: str, _target: int, _now: float) -> Ordered:
    raise OSError("the line is dead")


async def order_by_other_names(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    ordered = await CloudProvider.order(self, name, target, now)
    return msgspec.structs.replace(ordered, instances=("m-1",)) if ordered.error is None else ordered


async def order_what_is_to_be(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    if name == NAME and target < len(self.cloud.machines):
        self.cloud.machines.clear()
    return await CloudProvider.order(self, name, target, now)


async def order_in_memory(self: CloudProvider, name: str, target: int, now: float) -> Ordered:
    if name == NAME and target <= self.group.max_size:
        self.wanted = target  # type: ignore[attr-defined]
    return await CloudProvider.order(self, name, target, now)


async def tell_from_memory(self: CloudProvider, now: float) -> Groups:
    state = self.state(now)
    return Groups((msgspec.structs.replace(state, target=getattr(self, "wanted", 0)),))


async def release_all(self: CloudProvider, _name: str, instances: Sequence[str], _now: float) -> Released:
    for instance in instances:
        self.cloud.machines.pop(instance, None)
    return Released(tuple(instances))


async def release_nobody(_self: CloudProvider, _name: str, instances: Sequence[str], _now: float) -> Released:
    return Released(tuple(instances))


async def release_all_or_nothing(self: CloudProvider, name: str, instances: Sequence[str], now: float) -> Released:
    released = await CloudProvider.release(self, name, [], now)
    if set(instances) <= set(self.cloud.machines) or name != NAME:
        return await CloudProvider.release(self, name, instances, now)
    refused = (await CloudProvider.release(self, "nowhere", instances, now)).refused
    return msgspec.structs.replace(released, refused=refused)


async def tend_for_ever(_self: CloudProvider, _now: float) -> Tended:
    return Tended(next=0.0)


async def tell_of_nameless(self: CloudProvider, now: float) -> Groups:
    state = self.state(now)
    nameless = msgspec.structs.replace(state.group, max_size=0)
    return Groups((state, msgspec.structs.replace(state, group=nameless)))


def never_run(_self: CloudProvider, machine: str, ordered: float, _now: float) -> Instance:
    return Instance(machine, InstanceState.ORDERED, ordered)


def run_at_once(_self: CloudProvider, machine: str, ordered: float, _now: float) -> Instance:
    return Instance(machine, InstanceState.RUNNING, ordered)


def priced(price: float) -> Any:
    return msgspec.structs.replace(CloudProvider.group, price=price)


@pytest.mark.parametrize(
    ("methods", "rule", "told"),
    [
        ({"name": ""}, "tells-of-groups", "it has no name"),
        ({"group": priced(float("nan"))}, "tells-of-groups", "pool has a price of nan"),
        ({"groups": tell_of_nameless}, "tells-of-groups", "there are two groups called pool"),
        ({"order": order_so_many_more}, "repeats-no-order", "a target of 6 and not 2, after one order"),
        ({"order": order_without_limit}, "keeps-the-maximum", "an order above the limit of 4 is not refused"),
        ({"order": order_without_limit}, "knows-its-groups", "a group that does not exist is not refused"),
        ({"order": order_and_raise}, "orders-what-is-missing", "it raised OSError: the line is dead"),
        ({"order": order_by_other_names}, "names-what-it-orders", "it said that it ordered m-1"),
        ({"order": order_what_is_to_be}, "takes-nothing-away-by-order", "a target of 0 and not 2"),
        (
            {"order": order_in_memory, "groups": tell_from_memory},
            "remembers-nothing",
            "another process tells something else",
        ),
        ({"release": release_all}, "keeps-the-minimum", "2 run and at least 1 have to stay, and 0 are refused"),
        ({"release": release_all}, "passes-over-strangers", "an instance that does not exist is not refused"),
        ({"release": release_nobody}, "takes-instances-back", "a target of 2 and not 1"),
        ({"release": release_all_or_nothing}, "passes-over-strangers", "a target of 2 and not 1"),
        ({"tend": tend_for_ever}, "is-done-when-all-is-up", "it still wants something to be done"),
        ({"instance": never_run}, "comes-up-as-it-said", "its instances are not all running"),
        ({"instance": run_at_once}, "comes-up-as-it-said", "and there is no node for it"),
    ],
)
def test_breaking_a_rule_fails_its_check(methods: dict[str, Any], rule: str, told: str) -> None:
    failures = {failure.check: failure.message for failure in failures_of(broken(**methods), run)}
    assert told in failures.get(rule, f"not caught; caught was {failures}")


def test_nodes_that_are_not_what_their_group_says_are_caught() -> None:
    class Smaller(CloudYard):
        def joined(self) -> NodeStatus:
            return NodeStatus(allocatable={"cpu": "1", "memory": "8Gi", "pods": "30"})

    assert [(failure.check, failure.message) for failure in failures_of(Smaller, run)] == [
        ("comes-up-as-it-said", "cloud:///m-0001 has 1 cpu, and its group says 2")
    ]


def test_a_provider_that_believes_its_own_orders_is_caught() -> None:
    class Believing(KwokWorld):
        """Its provider counts what it has asked for as if it were there."""

        def restarted(self) -> Any:
            provider: Any = super().restarted()
            order, groups = provider.order, provider.groups
            wanted: dict[str, int] = {}

            async def noting(name: str, target: int, now: float) -> Ordered:
                found: Ordered = await order(name, target, now)
                wanted[name] = target
                return found

            async def telling(now: float) -> Groups:
                found: Groups = await groups(now)
                states = [
                    msgspec.structs.replace(state, target=wanted.get(state.group.name, state.target))
                    for state in found.states
                ]
                return msgspec.structs.replace(found, states=tuple(states))

            provider.order, provider.groups = noting, telling
            return provider

    failures = {failure.check: failure.message for failure in failures_of(Believing, run)}
    assert failures["tells-what-is"] == "small has a target of 2 and not 0, after an order that was not carried out"


def test_an_answer_where_none_should_come_is_caught() -> None:
    failures = failures_of(lambda: KwokWorld(group(), group("stuck"), hanging="stuck"), run)
    assert [(failure.check, failure.message) for failure in failures] == [
        ("can-be-left-waiting", "an order from stuck, which should hang, is answered")
    ]


def test_a_yard_without_room_is_told_so() -> None:
    failures = failures_of(lambda: KwokWorld(group(maxSize=1)), run)
    assert len(failures) == len(CHECKS) - 2
    assert "none of its groups has room for two more instances" in failures[0].message


def test_steps_that_cannot_be_executed_fail_the_rule_and_not_the_suite() -> None:
    class Writing(CloudProvider):
        async def tend(self, _now: float, /) -> Tended:
            return Tended(((DeleteObject(Target(NODES, "x")),),))

    failures = {failure.check: failure.message for failure in failures_of(lambda: CloudYard(Writing), run)}
    assert "it raised AssertionError: nobody here writes to an API server" in failures["comes-up-as-it-said"]


def test_the_suite_runs_on_a_real_loop_too() -> None:
    assert failures_of(CloudYard, asyncio.run) == []
    assert BOOT > 60  # which is time that nobody waited for
