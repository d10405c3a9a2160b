"""Does a provider keep to the protocol? One function for each thing that it must, or must not, do.

Each gets a yard with the provider in it and raises `Nonconformance` with what is wrong. They need no pytest;
`trellis.testing.providers` has the list.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Final

from trellis.api.kube.nodes import Node
from trellis.core.fit.resources import CPU, MEMORY, PODS, readable_nanos
from trellis.core.nodes.groups import GroupState, InstanceState, NodeGroup
from trellis.testing.answers import Nonconformance
from trellis.testing.yards import Yard, bring_up_two, order_two, roomy, state_of, tend

# Longer than any answer may take to begin with; the caller's patience is what ends one that never comes.
_PATIENCE: Final = 5.0
_NOBODY: Final = "no-such-instance"
_NOWHERE: Final = "no-such-group"


async def tells_of_groups(yard: Yard) -> None:
    """It has a name; its groups have names of their own, limits in order, a price, a boot time and a node to expect."""
    if not yard.provider.name:
        raise Nonconformance("it has no name")
    states = (await yard.provider.groups(yard.now)).states
    _must_be_unique("group", (state.group.name for state in states))
    for state in states:
        _must_be_possible(state.group)
        _must_be_unique("instance", (each.id for each in state.instances))


async def orders_what_is_missing(yard: Yard) -> None:
    """An order makes up the difference between what a group has and what it is to have, and is seen at once."""
    before = await roomy(yard)
    after = await order_two(yard)
    _must_have(after, before.target + 2, "after two more were ordered")
    new = {each.id for each in after.instances} - {each.id for each in before.instances}
    if len(new) > 2:
        raise Nonconformance(f"two instances were ordered, and {len(new)} are new: {', '.join(sorted(new))}")


async def names_what_it_orders(yard: Yard) -> None:
    """The ids that it gives with an order, if any, are those of the instances that come of it."""
    before = await roomy(yard)
    ordered = await yard.provider.order(before.group.name, before.target + 2, yard.now)
    await yard.carry_out(ordered.steps)
    strange = set(ordered.instances) - (await state_of(yard, before.group.name)).by_id().keys()
    if strange:
        raise Nonconformance(f"it said that it ordered {', '.join(sorted(strange))}, and tells nothing of them")


async def repeats_no_order(yard: Yard) -> None:
    """The same order again orders nothing more: before the first was carried out, after it, and by another process."""
    before = await roomy(yard)
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
    _must_have(await state_of(yard, name), target, "after one order was given three times")


async def tells_what_is(yard: Yard) -> None:
    """What it has only asked for is not there: an order that nobody carries out changes nothing."""
    before = await roomy(yard)
    ordered = await yard.provider.order(before.group.name, before.target + 2, yard.now)
    if ordered.steps:
        _must_have(await state_of(yard, before.group.name), before.target, "after an order that was not carried out")


async def takes_nothing_away_by_order(yard: Yard) -> None:
    """An order for fewer instances than there are leaves them alone."""
    state = await order_two(yard)
    await yard.carry_out((await yard.provider.order(state.group.name, 0, yard.now)).steps)
    _must_have(await state_of(yard, state.group.name), state.target, "after none were ordered")


async def keeps_the_maximum(yard: Yard) -> None:
    """An order above the limit is refused with a reason, and nothing is ordered."""
    before = await roomy(yard)
    ordered = await yard.provider.order(before.group.name, before.group.max_size + 1, yard.now)
    await yard.carry_out(ordered.steps)
    if ordered.error is None or ordered.instances or ordered.steps:
        raise Nonconformance(f"an order above the limit of {before.group.max_size} is not refused")
    _must_have(await state_of(yard, before.group.name), before.target, "after an order that was refused")


async def keeps_the_minimum(yard: Yard) -> None:
    """Instances that run are not taken back below the limit."""
    state, running = await bring_up_two(yard)
    least = min(state.group.min_size, len(running))
    released = await yard.provider.release(state.group.name, [each.id for each in running], yard.now)
    await yard.carry_out(released.steps)
    if len(released.refused) != least:
        text = f"{len(running)} run and at least {least} have to stay, and {len(released.refused)} are refused"
        raise Nonconformance(text)
    _must_have(await state_of(yard, state.group.name), least, "after all were given back")


async def knows_its_groups(yard: Yard) -> None:
    """A group that it does not have is answered with a reason, whatever is asked of it."""
    if (await yard.provider.order(_NOWHERE, 1, yard.now)).error is None:
        raise Nonconformance("an order from a group that does not exist is not refused")
    released = await yard.provider.release(_NOWHERE, [_NOBODY], yard.now)
    if _NOBODY not in released.refused or released.steps:
        raise Nonconformance("an instance of a group that does not exist can be given back")


async def comes_up_as_it_said(yard: Yard) -> None:
    """Instances come up about when they should, as nodes that offer what the group says and carry its labels."""
    state, running = await bring_up_two(yard)
    nodes = {node.metadata.name: node for node in await yard.nodes()}
    by_provider_id = {node.spec.provider_id: node for node in nodes.values() if node.spec.provider_id}
    for each in running:
        node = nodes.get(each.node) if each.node else by_provider_id.get(each.id)
        if node is None:
            raise Nonconformance(f"the instance {each.id} is running, and there is no node for it")
        _must_be_like(node, state.group.template, each.id)


async def is_done_when_all_is_up(yard: Yard) -> None:
    """When all of its instances have come up there is nothing to tend, and no time to come back for."""
    await bring_up_two(yard)
    await tend(yard)
    tended = await yard.provider.tend(yard.now)
    if tended.steps or (tended.next is not None and tended.next <= yard.now):
        raise Nonconformance("all of its instances are up, and it still wants something to be done")


async def takes_instances_back(yard: Yard) -> None:
    """An instance that is given back no longer counts, is leaving or gone, and can be given back once more."""
    state = await order_two(yard)
    name, one = state.group.name, _last_waiting(state)
    for _ in range(2):
        known = one in (await state_of(yard, name)).by_id()
        released = await yard.provider.release(name, [one], yard.now)
        await yard.carry_out(released.steps)
        if known and one not in released.instances:
            raise Nonconformance(f"{one} cannot be given back: {released.refused.get(one)}")
    after = await state_of(yard, name)
    _must_have(after, state.target - 1, "after one instance was given back")
    left = after.by_id().get(one)
    if left is not None and left.state is not InstanceState.LEAVING:
        raise Nonconformance(f"{one} was given back and is {left.state}")


async def passes_over_strangers(yard: Yard) -> None:
    """An instance that it does not know is refused with a reason, and the others in the same call go."""
    state = await order_two(yard)
    one = _last_waiting(state)
    released = await yard.provider.release(state.group.name, [_NOBODY, one], yard.now)
    await yard.carry_out(released.steps)
    if _NOBODY not in released.refused or _NOBODY in released.instances:
        raise Nonconformance("an instance that does not exist is not refused")
    _must_have(await state_of(yard, state.group.name), state.target - 1, "after one known instance was given back")


async def remembers_nothing(yard: Yard) -> None:
    """Another process sees the same groups and instances, in the middle of an order too."""
    await order_two(yard)
    await yard.wait(1.0)
    if await yard.provider.groups(yard.now) != await yard.restarted().groups(yard.now):
        raise Nonconformance("another process tells something else of the same groups")


async def can_be_left_waiting(yard: Yard) -> None:
    """A call that is cancelled, because it takes too long, leaves the provider as it was."""
    before = await roomy(yard)
    if yard.hanging:
        try:
            await asyncio.wait_for(yard.provider.order(yard.hanging, before.group.max_size, yard.now), _PATIENCE)
        except TimeoutError:
            pass
        else:
            raise Nonconformance(f"an order from {yard.hanging}, which should hang, is answered")
    asked = asyncio.ensure_future(yard.provider.groups(yard.now))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    _must_have(await order_two(yard), before.target + 2, "after a call was given up and two were ordered")


def _must_be_possible(group: NodeGroup) -> None:
    if not group.name:
        raise Nonconformance("a group has no name")
    if not 0 <= group.min_size <= group.max_size:
        raise Nonconformance(f"{group.name} may have {group.min_size} to {group.max_size} instances")
    for what, value in (("price", group.price), ("boot_seconds", group.boot_seconds)):
        if not 0 <= value < math.inf:
            raise Nonconformance(f"{group.name} has a {what} of {value}")
    for resource in (CPU, MEMORY, PODS):
        if readable_nanos(group.template.status.allocatable.get(resource, "")) <= 0:
            raise Nonconformance(f"the template of {group.name} leaves pods no {resource}")
    if group.template.metadata.name:
        raise Nonconformance(f"the template of {group.name} has a name, which every node has for itself")


def _must_be_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Nonconformance(f"there are two {what}s called {name}")
        seen.add(name)


def _must_have(state: GroupState, target: int, when: str) -> None:
    if state.target != target:
        raise Nonconformance(f"{state.group.name} has a target of {state.target} and not {target}, {when}")


def _must_be_like(node: Node, template: Node, instance: str) -> None:
    offered, expected = node.status.allocatable, template.status.allocatable
    for resource in sorted({*offered, *expected}):
        have, want = offered.get(resource, "0"), expected.get(resource, "0")
        if readable_nanos(have) != readable_nanos(want):
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
    waiting = [each.id for each in state.instances if each.state is InstanceState.ORDERED]
    if not waiting:
        raise Nonconformance(f"two instances of {state.group.name} were ordered, and none is on its way")
    return waiting[-1]
