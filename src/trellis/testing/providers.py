"""The conformance suite for node providers.

With pytest, one line makes a test of every rule:

    from trellis.testing.providers import conformance_tests

    test_conformance = conformance_tests(MyEnvironment)

Without it, `find_failures(MyEnvironment)` lists the broken rules. Either takes a factory of a `ProviderEnvironment`:
your provider in a test environment whose time the suite advances. The rules are those of `trellis.providers.protocol`;
each is a function that raises `Nonconformance` when it is broken.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from trellis.api.kube.nodes import Node
from trellis.core.fit.resources import CPU, MEMORY, PODS, parse_nanos_or_zero
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup, find_group_problem
from trellis.kube.write.actions import Action
from trellis.providers.protocol import Provider, Steps
from trellis.testing.conformance import (
    Check,
    Failure,
    Nonconformance,
    collect_failures,
    make_checks,
    parametrized_test,
)

# Waits per boot time, and the number of waits after which a node must be up.
_WAITS_PER_BOOT: Final = 4
_MAX_WAITS: Final = 40


class ProviderEnvironment(Protocol):
    """A provider and the environment that it runs in; each check gets a new one.

    One of the groups must have capacity for two more instances, and none of its orders may fail.
    """

    @property
    def provider(self) -> Provider:
        """The provider under test."""
        ...

    @property
    def now(self) -> float:
        """The time in this environment, in seconds since the epoch."""
        ...

    @property
    def hanging_group(self) -> str:
        """The name of a group whose orders never return; empty where the environment cannot have one."""
        ...

    @property
    def broken_group(self) -> str:
        """The name of a group whose description is invalid; empty where the environment cannot have one."""
        ...

    async def execute(self, steps: Steps, /) -> None:
        """Execute these actions against the API server of this environment, or its fake."""
        ...

    async def wait(self, seconds: float, /) -> None:
        """Advance `now`, and run what the environment does meanwhile."""
        ...

    def restarted_provider(self) -> Provider:
        """A provider as a restarted process has it: without anything in memory."""
        ...

    async def list_nodes(self) -> Sequence[Node]:
        """The nodes of the cluster."""
        ...


async def find_group_with_capacity(environment: ProviderEnvironment) -> GroupState:
    """A group of which two more instances can be ordered."""
    for state in (await environment.provider.groups(environment.now)).states:
        if state.group.name != environment.hanging_group and state.group.max_size - state.target >= 2:
            return state
    raise Nonconformance("no group of the environment can grow by two instances: add one that can")


async def read_state(environment: ProviderEnvironment, group: str, provider: Provider | None = None) -> GroupState:
    """The state of a group, read by this provider or by another one."""
    for state in (await (provider or environment.provider).groups(environment.now)).states:
        if state.group.name == group:
            return state
    raise Nonconformance(f"the group {group} is no longer among its states")


async def order_two_instances(environment: ProviderEnvironment) -> GroupState:
    """Order two more instances of a group, and return its state."""
    before = await find_group_with_capacity(environment)
    name = before.group.name
    ordered = await environment.provider.order(name, before.target + 2, environment.now)
    if ordered.error is not None:
        raise Nonconformance(f"two instances within the limits of {name} are refused: {ordered.error}")
    await environment.execute(ordered.steps)
    return await read_state(environment, name)


async def tend_once(environment: ProviderEnvironment) -> None:
    """Execute what the provider's `tend` returns."""
    await environment.execute((await environment.provider.tend(environment.now)).steps)


async def start_two_instances(environment: ProviderEnvironment) -> tuple[GroupState, list[Instance]]:
    """Order two more instances and wait until they run; the group's state and its running instances."""
    before = await order_two_instances(environment)
    name, seconds = before.group.name, before.group.boot_seconds
    for _ in range(_MAX_WAITS):
        state = await read_state(environment, name)
        running = [instance for instance in state.instances if instance.state is InstanceState.RUNNING]
        if len(running) >= state.target:
            return state, running
        await tend_once(environment)
        await environment.wait(seconds / _WAITS_PER_BOOT + 1)
    waited = _MAX_WAITS * (seconds / _WAITS_PER_BOOT + 1)
    raise Nonconformance(f"{name} boots in {seconds:g} s, and after {waited:g} s its instances are not all running")


# Seconds after which a hanging call is cancelled, as the node autoscaler does.
_CALL_TIMEOUT: Final = 5.0
_UNKNOWN_INSTANCE: Final = "no-such-instance"
_UNKNOWN_GROUP: Final = "no-such-group"


async def describes_its_groups(environment: ProviderEnvironment) -> None:
    """It has a name; its groups have names of their own, limits in order, a price, a boot time and a node to expect."""
    if not environment.provider.name:
        raise Nonconformance("it has no name")
    states = (await environment.provider.groups(environment.now)).states
    _require_unique("group", (state.group.name for state in states))
    for state in states:
        _require_valid_group(state.group)
        if (problem := find_group_problem(state)) is not None:
            raise Nonconformance(str(problem))
        _require_unique("instance", (instance.id for instance in state.instances))


async def orders_up_to_the_target(environment: ProviderEnvironment) -> None:
    """An order makes up the difference between what a group has and what it is to have, and is seen at once."""
    before = await find_group_with_capacity(environment)
    after = await order_two_instances(environment)
    _require_target(after, before.target + 2, "after two more were ordered")
    new = {instance.id for instance in after.instances} - {instance.id for instance in before.instances}
    if len(new) > 2:
        raise Nonconformance(f"two instances were ordered, and {len(new)} are new: {', '.join(sorted(new))}")


async def names_ordered_instances(environment: ProviderEnvironment) -> None:
    """The ids that it gives with an order, if any, are those of the instances that come of it."""
    before = await find_group_with_capacity(environment)
    ordered = await environment.provider.order(before.group.name, before.target + 2, environment.now)
    await environment.execute(ordered.steps)
    unknown = set(ordered.instances) - (await read_state(environment, before.group.name)).index_by_id().keys()
    if unknown:
        raise Nonconformance(f"it reported the orders {', '.join(sorted(unknown))}, and its groups do not contain them")


async def ignores_repeated_orders(environment: ProviderEnvironment) -> None:
    """The same order again orders nothing more: before the first was carried out, after it, and by another process."""
    before = await find_group_with_capacity(environment)
    name, target = before.group.name, before.target + 2
    first = await environment.provider.order(name, target, environment.now)
    await environment.wait(1.0)
    second = await environment.restarted_provider().order(name, target, environment.now)
    await environment.execute(first.steps)
    await environment.execute(second.steps)
    third = await environment.provider.order(name, target, environment.now)
    await environment.execute(third.steps)
    if third.instances or third.steps or third.error is not None:
        raise Nonconformance("an order for what a group has already is not answered with nothing at all")
    _require_target(await read_state(environment, name), target, "after one order was given three times")


async def counts_only_executed_orders(environment: ProviderEnvironment) -> None:
    """What it has only planned does not exist: an order that is not executed changes nothing."""
    before = await find_group_with_capacity(environment)
    ordered = await environment.provider.order(before.group.name, before.target + 2, environment.now)
    if ordered.steps:
        _require_target(
            await read_state(environment, before.group.name), before.target, "after an order that was not carried out"
        )


async def never_shrinks_by_order(environment: ProviderEnvironment) -> None:
    """An order for fewer instances than there are leaves them alone."""
    state = await order_two_instances(environment)
    await environment.execute((await environment.provider.order(state.group.name, 0, environment.now)).steps)
    _require_target(await read_state(environment, state.group.name), state.target, "after none were ordered")


async def respects_the_maximum(environment: ProviderEnvironment) -> None:
    """An order above the limit is refused with a reason, and nothing is ordered."""
    before = await find_group_with_capacity(environment)
    ordered = await environment.provider.order(before.group.name, before.group.max_size + 1, environment.now)
    await environment.execute(ordered.steps)
    if ordered.error is None or ordered.instances or ordered.steps:
        raise Nonconformance(f"an order above the limit of {before.group.max_size} is not refused")
    _require_target(await read_state(environment, before.group.name), before.target, "after an order that was refused")


async def respects_the_minimum(environment: ProviderEnvironment) -> None:
    """Instances that run are not taken back below the limit."""
    state, running = await start_two_instances(environment)
    least = min(state.group.min_size, len(running))
    released = await environment.provider.release(
        state.group.name, [instance.id for instance in running], environment.now
    )
    await environment.execute(released.steps)
    if len(released.refused) != least:
        text = f"{len(running)} run and at least {least} have to stay, and {len(released.refused)} are refused"
        raise Nonconformance(text)
    _require_target(await read_state(environment, state.group.name), least, "after all were released")


async def refuses_unknown_groups(environment: ProviderEnvironment) -> None:
    """A group that it does not have is answered with a reason, whatever is asked of it."""
    if (await environment.provider.order(_UNKNOWN_GROUP, 1, environment.now)).error is None:
        raise Nonconformance("an order from a group that does not exist is not refused")
    released = await environment.provider.release(_UNKNOWN_GROUP, [_UNKNOWN_INSTANCE], environment.now)
    if _UNKNOWN_INSTANCE not in released.refused or released.steps:
        raise Nonconformance("an instance of a group that does not exist can be released")


async def starts_nodes_as_described(environment: ProviderEnvironment) -> None:
    """Instances come up about when they should, as nodes that offer what the group says and carry its labels."""
    state, running = await start_two_instances(environment)
    nodes = {node.metadata.name: node for node in await environment.list_nodes()}
    by_provider_id = {node.spec.provider_id: node for node in nodes.values() if node.spec.provider_id}
    for instance in running:
        node = nodes.get(instance.node) if instance.node else by_provider_id.get(instance.id)
        if node is None:
            raise Nonconformance(f"the instance {instance.id} is running, and there is no node for it")
        _require_node_like(node, state.group.template, instance.id)


async def is_idle_when_all_run(environment: ProviderEnvironment) -> None:
    """When all of its instances have come up there is nothing to tend, and no time to come back for."""
    await start_two_instances(environment)
    await tend_once(environment)
    tended = await environment.provider.tend(environment.now)
    if tended.steps or (tended.next is not None and tended.next <= environment.now):
        raise Nonconformance("all of its instances are up, and it still wants something to be done")


async def releases_instances(environment: ProviderEnvironment) -> None:
    """A released instance no longer counts, is leaving or gone, and can be released again."""
    state = await order_two_instances(environment)
    name, instance_id = state.group.name, _find_ordered_instance(state)
    for _ in range(2):
        exists = instance_id in (await read_state(environment, name)).index_by_id()
        released = await environment.provider.release(name, [instance_id], environment.now)
        await environment.execute(released.steps)
        if exists and instance_id not in released.instances:
            raise Nonconformance(f"{instance_id} cannot be released: {released.refused.get(instance_id)}")
    after = await read_state(environment, name)
    _require_target(after, state.target - 1, "after one instance was released")
    left = after.index_by_id().get(instance_id)
    if left is not None and left.state is not InstanceState.LEAVING:
        raise Nonconformance(f"{instance_id} was released and is {left.state}")


async def refuses_unknown_instances(environment: ProviderEnvironment) -> None:
    """An instance that it does not know is refused with a reason, and the others in the same call go."""
    state = await order_two_instances(environment)
    instance_id = _find_ordered_instance(state)
    released = await environment.provider.release(state.group.name, [_UNKNOWN_INSTANCE, instance_id], environment.now)
    await environment.execute(released.steps)
    if _UNKNOWN_INSTANCE not in released.refused or _UNKNOWN_INSTANCE in released.instances:
        raise Nonconformance("an instance that does not exist is not refused")
    _require_target(
        await read_state(environment, state.group.name), state.target - 1, "after one known instance was released"
    )


async def keeps_no_state(environment: ProviderEnvironment) -> None:
    """Another process sees the same groups and instances, in the middle of an order too."""
    await order_two_instances(environment)
    await environment.wait(1.0)
    if await environment.provider.groups(environment.now) != await environment.restarted_provider().groups(
        environment.now
    ):
        raise Nonconformance("another process reports the same groups differently")


async def tolerates_cancelled_calls(environment: ProviderEnvironment) -> None:
    """A call that is cancelled, because it takes too long, leaves the provider as it was."""
    before = await find_group_with_capacity(environment)
    if environment.hanging_group:
        try:
            await asyncio.wait_for(
                environment.provider.order(environment.hanging_group, before.group.max_size, environment.now),
                _CALL_TIMEOUT,
            )
        except TimeoutError:
            pass
        else:
            raise Nonconformance(f"an order from {environment.hanging_group}, which should hang, is answered")
    call = asyncio.ensure_future(environment.provider.groups(environment.now))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    _require_target(
        await order_two_instances(environment), before.target + 2, "after a call was given up and two were ordered"
    )


async def resumes_interrupted_orders(environment: ProviderEnvironment) -> None:
    """If a process ends after any write of an order, the next one reaches the target, and not more."""
    before = await find_group_with_capacity(environment)
    name, target = before.group.name, before.target + 2
    ordered = await environment.provider.order(name, target, environment.now)
    for action in _list_first_actions(ordered.steps):
        await environment.execute(((action,),))
        provider = environment.restarted_provider()
        await environment.execute((await provider.tend(environment.now)).steps)
        state = await read_state(environment, name, provider)
        if state.target > target:
            raise Nonconformance(f"{name} has a target of {state.target} after a part of an order of {target}")
    again = await environment.restarted_provider().order(name, target, environment.now)
    await environment.execute(again.steps)
    _require_target(await read_state(environment, name), target, "after an order that was interrupted and repeated")


async def resumes_interrupted_releases(environment: ProviderEnvironment) -> None:
    """If a process ends after the first write of a release, the next one can release that instance, and it alone."""
    state, running = await start_two_instances(environment)
    name, leaving = state.group.name, running[-1].id
    released = await environment.provider.release(name, [leaving], environment.now)
    await environment.execute(tuple((action,) for action in _list_first_actions(released.steps)))
    provider = environment.restarted_provider()
    await environment.execute((await provider.tend(environment.now)).steps)
    again = await provider.release(name, [leaving], environment.now)
    await environment.execute(again.steps)
    await _wait_for_release(environment, name, leaving)
    _require_target(await read_state(environment, name), state.target - 1, "after a release that was interrupted")
    await _require_running(environment, name, {instance.id for instance in running} - {leaving})


async def releases_the_named_instance_alone(environment: ProviderEnvironment) -> None:
    """Of several instances that run, the one that is named goes, and the others stay as they are."""
    state, running = await start_two_instances(environment)
    name = state.group.name
    # Not the newest and not the oldest, where there are three: a group that picks by age picks another one.
    named = sorted(running, key=lambda instance: instance.since)[len(running) // 2].id
    released = await environment.provider.release(name, [named], environment.now)
    await environment.execute(released.steps)
    if named not in released.instances:
        raise Nonconformance(f"{named} cannot be released: {released.refused.get(named)}")
    await _wait_for_release(environment, name, named)
    await _require_running(environment, name, {instance.id for instance in running} - {named})


async def scales_to_zero_and_back(environment: ProviderEnvironment) -> None:
    """A group without a minimum can lose all of its instances, and is then described and ordered as before."""
    before = await find_group_with_capacity(environment)
    name = before.group.name
    if before.group.min_size:
        return
    _, running = await start_two_instances(environment)
    for instance in running:
        released = await environment.provider.release(name, [instance.id], environment.now)
        await environment.execute(released.steps)
        await _wait_for_release(environment, name, instance.id)
    empty = await read_state(environment, name)
    _require_target(empty, 0, "after all instances were released")
    # With instances a group may be described better, by its nodes.
    if not before.target and empty.group != before.group:
        raise Nonconformance(f"{name} is described differently after it has lost its instances")
    await start_two_instances(environment)


async def reports_a_broken_group_alone(environment: ProviderEnvironment) -> None:
    """A group with an invalid description is a problem with a reason, and the others are reported as usual."""
    if not environment.broken_group:
        return
    groups = await environment.provider.groups(environment.now)
    if environment.broken_group in {state.group.name for state in groups.states}:
        raise Nonconformance(f"{environment.broken_group}, whose description is invalid, is among its groups")
    if environment.broken_group not in {problem.group for problem in groups.problems}:
        raise Nonconformance(f"there is no problem that names {environment.broken_group}, whose description is invalid")
    await order_two_instances(environment)


def _list_first_actions(steps: Steps) -> list[Action]:
    """All writes of a call but the last one, in their order."""
    return [action for step in steps for action in step][:-1]


async def _wait_for_release(environment: ProviderEnvironment, group: str, instance: str) -> None:
    for _ in range(_MAX_WAITS):
        await tend_once(environment)
        if instance not in (await read_state(environment, group)).index_by_id():
            return
        await environment.wait(1.0)
    raise Nonconformance(f"{instance} was released, and is still among the instances of {group}")


async def _require_running(environment: ProviderEnvironment, group: str, instances: Iterable[str]) -> None:
    states = (await read_state(environment, group)).index_by_id()
    for instance in sorted(instances):
        if instance not in states or states[instance].state is not InstanceState.RUNNING:
            raise Nonconformance(f"{instance} was not released, and is no longer running")


def _require_valid_group(group: NodeGroup) -> None:
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


def _require_unique(noun: str, names: Iterable[str]) -> None:
    used: set[str] = set()
    for name in names:
        if name in used:
            raise Nonconformance(f"there are two {noun}s called {name}")
        used.add(name)


def _require_target(state: GroupState, target: int, when: str) -> None:
    if state.target != target:
        raise Nonconformance(f"{state.group.name} has a target of {state.target} and not {target}, {when}")


def _require_node_like(node: Node, template: Node, instance: str) -> None:
    offered, expected = node.status.allocatable, template.status.allocatable
    for resource in sorted({*offered, *expected}):
        have, want = offered.get(resource, "0"), expected.get(resource, "0")
        if parse_nanos_or_zero(have) != parse_nanos_or_zero(want):
            raise Nonconformance(f"{instance} has {have} {resource}, its group declares {want}")
    for key, value in template.metadata.labels.items():
        if node.metadata.labels.get(key) != value:
            raise Nonconformance(f"{instance} does not have the label {key}={value} of its group")
    missing = {(taint.key, taint.effect) for taint in template.spec.taints} - {
        (taint.key, taint.effect) for taint in node.spec.taints
    }
    if missing:
        raise Nonconformance(f"{instance} does not have the taint {':'.join(min(missing))} of its group")


def _find_ordered_instance(state: GroupState) -> str:
    """The id of an instance that is ordered and not running; releasing it leaves the minimum."""
    waiting = [instance.id for instance in state.instances if instance.state is InstanceState.ORDERED]
    if not waiting:
        raise Nonconformance(f"two instances of {state.group.name} were ordered, and none is on its way")
    return waiting[-1]


__all__ = ["CHECKS", "Check", "Failure", "Nonconformance", "ProviderEnvironment", "conformance_tests", "find_failures"]

ProviderRule: TypeAlias = Callable[[ProviderEnvironment], Coroutine[Any, Any, None]]
EnvironmentFactory: TypeAlias = Callable[[], ProviderEnvironment]
# Runs a coroutine to completion: `asyncio.run`, or an event loop with its own clock.
Runner: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


CHECKS: Final[tuple[Check[ProviderRule], ...]] = make_checks(
    describes_its_groups,
    orders_up_to_the_target,
    names_ordered_instances,
    ignores_repeated_orders,
    counts_only_executed_orders,
    never_shrinks_by_order,
    respects_the_maximum,
    respects_the_minimum,
    refuses_unknown_groups,
    starts_nodes_as_described,
    is_idle_when_all_run,
    releases_instances,
    refuses_unknown_instances,
    keeps_no_state,
    tolerates_cancelled_calls,
    resumes_interrupted_orders,
    resumes_interrupted_releases,
    releases_the_named_instance_alone,
    scales_to_zero_and_back,
    reports_a_broken_group_alone,
)


def find_failures(make: EnvironmentFactory, run: Runner = asyncio.run) -> list[Failure]:
    """Every rule that a provider breaks; none if it conforms."""
    return collect_failures(CHECKS, lambda check: run(_run_check(check, make)))


def conformance_tests(make: EnvironmentFactory, run: Runner = asyncio.run) -> Callable[..., None]:
    """A test function for pytest, with a case for each rule."""
    return parametrized_test(CHECKS, lambda check: run(_run_check(check, make)))


async def _run_check(check: Check[ProviderRule], make: EnvironmentFactory) -> None:
    """Run one check. The environment is constructed inside the running loop, so that it may open clients."""
    try:
        await check.run(make())
    except Nonconformance:
        raise
    except Exception as error:
        raise Nonconformance(f"it raised {type(error).__name__}: {error}") from error
