"""The conformance suite for node providers.

With pytest, one line makes a test of every rule:

    from trellis.testing.providers import conformance_tests

    test_conformance = conformance_tests(MyYard)

Without it, `failures_of(MyYard)` lists what is wrong. Either takes something that makes a `Yard`: your provider in
a test environment, with time that passes when it is told to. The rules are those of `trellis.providers.protocol`;
each is a function that raises `Nonconformance` when it is broken.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from trellis.api.kube.nodes import Node
from trellis.core.fit.resources import CPU, MEMORY, PODS, parse_nanos_or_zero
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.providers.protocol import Provider, Steps
from trellis.testing.conformance import (
    Check,
    Failure,
    Nonconformance,
    collect_failures,
    make_checks,
    parametrized_test,
)

# Into how many pieces a boot time is cut, and how many of them may pass until a node is up.
_WAITS_PER_BOOT: Final = 4
_MOST_WAITS: Final = 40


class Yard(Protocol):
    """What a provider's author gives to the suite; every rule gets a new one.

    One of the groups must have room for two more instances, and none of its orders may fail.
    """

    @property
    def provider(self) -> Provider:
        """What is tried."""
        ...

    @property
    def now(self) -> float:
        """The time in this world, in seconds since the epoch."""
        ...

    @property
    def hanging(self) -> str:
        """The name of a group whose orders are never answered; empty where there is no way to have one."""
        ...

    async def carry_out(self, steps: Steps, /) -> None:
        """Write to the API server of this world, or what stands for one, as a writer would."""
        ...

    async def wait(self, seconds: float, /) -> None:
        """Let time pass: `now` is later, and what the world does by itself is done."""
        ...

    def restarted(self) -> Provider:
        """The provider as another process has it that knows this world and nothing else."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """The nodes that there are."""
        ...


async def find_group_with_space(yard: Yard) -> GroupState:
    """A group that two more instances can be ordered of."""
    for state in (await yard.provider.groups(yard.now)).states:
        if state.group.name != yard.hanging and state.group.max_size - state.target >= 2:
            return state
    raise Nonconformance("none of its groups has room for two more instances: give the yard one that has")


async def read_state(yard: Yard, group: str, provider: Provider | None = None) -> GroupState:
    """The state of a group now, also as another process reads it."""
    for state in (await (provider or yard.provider).groups(yard.now)).states:
        if state.group.name == group:
            return state
    raise Nonconformance(f"the group {group} is no longer among its states")


async def order_two(yard: Yard) -> GroupState:
    """A group after two more instances of it have been ordered."""
    before = await find_group_with_space(yard)
    name = before.group.name
    ordered = await yard.provider.order(name, before.target + 2, yard.now)
    if ordered.error is not None:
        raise Nonconformance(f"two instances within the limits of {name} are refused: {ordered.error}")
    await yard.carry_out(ordered.steps)
    return await read_state(yard, name)


async def tend_once(yard: Yard) -> None:
    """One round of what a provider wants to be done by itself."""
    await yard.carry_out((await yard.provider.tend(yard.now)).steps)


async def bring_up_two(yard: Yard) -> tuple[GroupState, list[Instance]]:
    """A group after two more of its instances have come up, and all that run."""
    before = await order_two(yard)
    name, seconds = before.group.name, before.group.boot_seconds
    for _ in range(_MOST_WAITS):
        state = await read_state(yard, name)
        running = [instance for instance in state.instances if instance.state is InstanceState.RUNNING]
        if len(running) >= state.target:
            return state, running
        await tend_once(yard)
        await yard.wait(seconds / _WAITS_PER_BOOT + 1)
    waited = _MOST_WAITS * (seconds / _WAITS_PER_BOOT + 1)
    raise Nonconformance(f"{name} boots in {seconds:g} s, and after {waited:g} s its instances are not all running")


# Longer than any answer may take to begin with; the caller's patience is what ends one that never comes.
_CALL_TIMEOUT: Final = 5.0
_UNKNOWN_INSTANCE: Final = "no-such-instance"
_UNKNOWN_GROUP: Final = "no-such-group"


async def tells_of_groups(yard: Yard) -> None:
    """It has a name; its groups have names of their own, limits in order, a price, a boot time and a node to expect."""
    if not yard.provider.name:
        raise Nonconformance("it has no name")
    states = (await yard.provider.groups(yard.now)).states
    _must_be_unique("group", (state.group.name for state in states))
    for state in states:
        _must_be_possible(state.group)
        _must_be_unique("instance", (instance.id for instance in state.instances))


async def orders_what_is_missing(yard: Yard) -> None:
    """An order makes up the difference between what a group has and what it is to have, and is seen at once."""
    before = await find_group_with_space(yard)
    after = await order_two(yard)
    _must_have(after, before.target + 2, "after two more were ordered")
    new = {instance.id for instance in after.instances} - {instance.id for instance in before.instances}
    if len(new) > 2:
        raise Nonconformance(f"two instances were ordered, and {len(new)} are new: {', '.join(sorted(new))}")


async def names_what_it_orders(yard: Yard) -> None:
    """The ids that it gives with an order, if any, are those of the instances that come of it."""
    before = await find_group_with_space(yard)
    ordered = await yard.provider.order(before.group.name, before.target + 2, yard.now)
    await yard.carry_out(ordered.steps)
    strange = set(ordered.instances) - (await read_state(yard, before.group.name)).by_id().keys()
    if strange:
        raise Nonconformance(f"it said that it ordered {', '.join(sorted(strange))}, and tells nothing of them")


async def repeats_no_order(yard: Yard) -> None:
    """The same order again orders nothing more: before the first was carried out, after it, and by another process."""
    before = await find_group_with_space(yard)
    name, target = before.group.name, before.target + 2
    first = await yard.provider.order(name, target, yard.now)
    await yard.wait(1.0)
    second = await yard.restarted().order(name, target, yard.now)
    await yard.carry_out(first.steps)
    await yard.carry_out(second.steps)
    third = await yard.provider.order(name, target, yard.now)
    await yard.carry_out(third.steps)
    if third.instances or third.steps or third.error is not None:
        raise Nonconformance("an order for what a group has already is not answered with nothing at all")
    _must_have(await read_state(yard, name), target, "after one order was given three times")


async def tells_what_is(yard: Yard) -> None:
    """What it has only asked for is not there: an order that nobody carries out changes nothing."""
    before = await find_group_with_space(yard)
    ordered = await yard.provider.order(before.group.name, before.target + 2, yard.now)
    if ordered.steps:
        _must_have(await read_state(yard, before.group.name), before.target, "after an order that was not carried out")


async def takes_nothing_away_by_order(yard: Yard) -> None:
    """An order for fewer instances than there are leaves them alone."""
    state = await order_two(yard)
    await yard.carry_out((await yard.provider.order(state.group.name, 0, yard.now)).steps)
    _must_have(await read_state(yard, state.group.name), state.target, "after none were ordered")


async def keeps_the_maximum(yard: Yard) -> None:
    """An order above the limit is refused with a reason, and nothing is ordered."""
    before = await find_group_with_space(yard)
    ordered = await yard.provider.order(before.group.name, before.group.max_size + 1, yard.now)
    await yard.carry_out(ordered.steps)
    if ordered.error is None or ordered.instances or ordered.steps:
        raise Nonconformance(f"an order above the limit of {before.group.max_size} is not refused")
    _must_have(await read_state(yard, before.group.name), before.target, "after an order that was refused")


async def keeps_the_minimum(yard: Yard) -> None:
    """Instances that run are not taken back below the limit."""
    state, running = await bring_up_two(yard)
    least = min(state.group.min_size, len(running))
    released = await yard.provider.release(state.group.name, [instance.id for instance in running], yard.now)
    await yard.carry_out(released.steps)
    if len(released.refused) != least:
        text = f"{len(running)} run and at least {least} have to stay, and {len(released.refused)} are refused"
        raise Nonconformance(text)
    _must_have(await read_state(yard, state.group.name), least, "after all were given back")


async def knows_its_groups(yard: Yard) -> None:
    """A group that it does not have is answered with a reason, whatever is asked of it."""
    if (await yard.provider.order(_UNKNOWN_GROUP, 1, yard.now)).error is None:
        raise Nonconformance("an order from a group that does not exist is not refused")
    released = await yard.provider.release(_UNKNOWN_GROUP, [_UNKNOWN_INSTANCE], yard.now)
    if _UNKNOWN_INSTANCE not in released.refused or released.steps:
        raise Nonconformance("an instance of a group that does not exist can be given back")


async def comes_up_as_it_said(yard: Yard) -> None:
    """Instances come up about when they should, as nodes that offer what the group says and carry its labels."""
    state, running = await bring_up_two(yard)
    nodes = {node.metadata.name: node for node in await yard.nodes()}
    by_provider_id = {node.spec.provider_id: node for node in nodes.values() if node.spec.provider_id}
    for instance in running:
        node = nodes.get(instance.node) if instance.node else by_provider_id.get(instance.id)
        if node is None:
            raise Nonconformance(f"the instance {instance.id} is running, and there is no node for it")
        _must_be_like(node, state.group.template, instance.id)


async def is_done_when_all_is_up(yard: Yard) -> None:
    """When all of its instances have come up there is nothing to tend, and no time to come back for."""
    await bring_up_two(yard)
    await tend_once(yard)
    tended = await yard.provider.tend(yard.now)
    if tended.steps or (tended.next is not None and tended.next <= yard.now):
        raise Nonconformance("all of its instances are up, and it still wants something to be done")


async def takes_instances_back(yard: Yard) -> None:
    """An instance that is given back no longer counts, is leaving or gone, and can be given back once more."""
    state = await order_two(yard)
    name, instance_id = state.group.name, _last_waiting(state)
    for _ in range(2):
        exists = instance_id in (await read_state(yard, name)).by_id()
        released = await yard.provider.release(name, [instance_id], yard.now)
        await yard.carry_out(released.steps)
        if exists and instance_id not in released.instances:
            raise Nonconformance(f"{instance_id} cannot be given back: {released.refused.get(instance_id)}")
    after = await read_state(yard, name)
    _must_have(after, state.target - 1, "after one instance was given back")
    left = after.by_id().get(instance_id)
    if left is not None and left.state is not InstanceState.LEAVING:
        raise Nonconformance(f"{instance_id} was given back and is {left.state}")


async def passes_over_strangers(yard: Yard) -> None:
    """An instance that it does not know is refused with a reason, and the others in the same call go."""
    state = await order_two(yard)
    instance_id = _last_waiting(state)
    released = await yard.provider.release(state.group.name, [_UNKNOWN_INSTANCE, instance_id], yard.now)
    await yard.carry_out(released.steps)
    if _UNKNOWN_INSTANCE not in released.refused or _UNKNOWN_INSTANCE in released.instances:
        raise Nonconformance("an instance that does not exist is not refused")
    _must_have(await read_state(yard, state.group.name), state.target - 1, "after one known instance was given back")


async def remembers_nothing(yard: Yard) -> None:
    """Another process sees the same groups and instances, in the middle of an order too."""
    await order_two(yard)
    await yard.wait(1.0)
    if await yard.provider.groups(yard.now) != await yard.restarted().groups(yard.now):
        raise Nonconformance("another process tells something else of the same groups")


async def can_be_left_waiting(yard: Yard) -> None:
    """A call that is cancelled, because it takes too long, leaves the provider as it was."""
    before = await find_group_with_space(yard)
    if yard.hanging:
        try:
            await asyncio.wait_for(yard.provider.order(yard.hanging, before.group.max_size, yard.now), _CALL_TIMEOUT)
        except TimeoutError:
            pass
        else:
            raise Nonconformance(f"an order from {yard.hanging}, which should hang, is answered")
    call = asyncio.ensure_future(yard.provider.groups(yard.now))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    _must_have(await order_two(yard), before.target + 2, "after a call was given up and two were ordered")


def _must_be_possible(group: NodeGroup) -> None:
    if not group.name:
        raise Nonconformance("a group has no name")
    if not 0 <= group.min_size <= group.max_size:
        raise Nonconformance(f"{group.name} may have {group.min_size} to {group.max_size} instances")
    for field, value in (("price", group.price), ("boot_seconds", group.boot_seconds)):
        if not 0 <= value < math.inf:
            raise Nonconformance(f"{group.name} has a {field} of {value}")
    for resource in (CPU, MEMORY, PODS):
        if parse_nanos_or_zero(group.template.status.allocatable.get(resource, "")) <= 0:
            raise Nonconformance(f"the template of {group.name} leaves pods no {resource}")
    if group.template.metadata.name:
        raise Nonconformance(f"the template of {group.name} has a name, which every node has for itself")


def _must_be_unique(noun: str, names: Iterable[str]) -> None:
    used: set[str] = set()
    for name in names:
        if name in used:
            raise Nonconformance(f"there are two {noun}s called {name}")
        used.add(name)


def _must_have(state: GroupState, target: int, when: str) -> None:
    if state.target != target:
        raise Nonconformance(f"{state.group.name} has a target of {state.target} and not {target}, {when}")


def _must_be_like(node: Node, template: Node, instance: str) -> None:
    offered, expected = node.status.allocatable, template.status.allocatable
    for resource in sorted({*offered, *expected}):
        have, want = offered.get(resource, "0"), expected.get(resource, "0")
        if parse_nanos_or_zero(have) != parse_nanos_or_zero(want):
            raise Nonconformance(f"{instance} has {have} {resource}, and its group says {want}")
    for key, value in template.metadata.labels.items():
        if node.metadata.labels.get(key) != value:
            raise Nonconformance(f"{instance} does not have the label {key}={value} of its group")
    missing = {(taint.key, taint.effect) for taint in template.spec.taints} - {
        (taint.key, taint.effect) for taint in node.spec.taints
    }
    if missing:
        raise Nonconformance(f"{instance} does not have the taint {':'.join(min(missing))} of its group")


def _last_waiting(state: GroupState) -> str:
    """The id of an instance that is not up yet, which no minimum holds."""
    waiting = [instance.id for instance in state.instances if instance.state is InstanceState.ORDERED]
    if not waiting:
        raise Nonconformance(f"two instances of {state.group.name} were ordered, and none is on its way")
    return waiting[-1]


__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "Yard", "conformance_tests", "failures_of"]

ProviderRule: TypeAlias = Callable[[Yard], Coroutine[Any, Any, None]]
YardMaker: TypeAlias = Callable[[], Yard]
# Runs a coroutine to its end: `asyncio.run`, or something with a clock of its own.
Runner: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


CHECKS: Final[tuple[Check[ProviderRule], ...]] = make_checks(
    tells_of_groups,
    orders_what_is_missing,
    names_what_it_orders,
    repeats_no_order,
    tells_what_is,
    takes_nothing_away_by_order,
    keeps_the_maximum,
    keeps_the_minimum,
    knows_its_groups,
    comes_up_as_it_said,
    is_done_when_all_is_up,
    takes_instances_back,
    passes_over_strangers,
    remembers_nothing,
    can_be_left_waiting,
)


def failures_of(make: YardMaker, run: Runner = asyncio.run) -> list[Failure]:
    """Every rule that a provider breaks; none if it conforms."""
    return collect_failures(CHECKS, lambda check: run(_run_check(check, make)))


def conformance_tests(make: YardMaker, run: Runner = asyncio.run) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule."""
    return parametrized_test(CHECKS, lambda check: run(_run_check(check, make)))


async def _run_check(check: Check[ProviderRule], make: YardMaker) -> None:
    """A yard is made where the loop runs already, so that it may have clients of its own."""
    try:
        await check.run(make())
    except Nonconformance:
        raise
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__}: {error}") from error
