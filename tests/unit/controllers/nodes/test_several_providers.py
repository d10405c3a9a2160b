"""Several providers in one autoscaler: each group belongs to one of them, and one that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from support import virtual_time
from support.api_server.server import ModelServer
from support.worlds.nodes import START, a_group
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_client import (
    GROUP_NAME_TAKEN,
    PROVIDER_FAILED,
    PROVIDER_TIMED_OUT,
    ProviderClient,
)
from trellis.core.nodes.node_groups import GroupState
from trellis.kube.write.writer import Writer
from trellis.providers.plugins import RunningProvider
from trellis.providers.protocol import UNKNOWN_GROUP, Groups, Ordered, Released, Tended
from trellis.runtime.telemetry.metrics import Metrics

PATIENCE = 30.0


class Source:
    """A provider of some groups, each with a target. It takes `delay` seconds to answer, or raises an error."""

    def __init__(self, name: str, **targets: int) -> None:
        self.name = name
        self.targets = targets
        self.delay = 0.0
        self.error: Exception | None = None
        self.released: list[str] = []

    async def groups(self, _now: float, /) -> Groups:
        await asyncio.sleep(self.delay)
        if self.error is not None:
            raise self.error
        return Groups(tuple(GroupState(a_group(group), target) for group, target in self.targets.items()))

    async def order(self, group: str, target: int, _now: float, /) -> Ordered:
        self.targets[group] = target
        return Ordered()

    async def release(self, _group: str, instances: Sequence[str], _now: float, /) -> Released:
        self.released += instances
        return Released(tuple(instances))

    async def tend(self, now: float, /) -> Tended:
        await asyncio.sleep(self.delay)
        return Tended(next=now + self.delay + 60)


def build_client(*sources: Source) -> ProviderClient:
    writer = Writer(ModelServer().client, record=lambda _outcome: None)
    metrics = Metrics(NODE_METRICS, about_process=False)
    return ProviderClient([RunningProvider(source, writer) for source in sources], PATIENCE, metrics)


def describe(groups: Groups | None) -> dict[str, tuple[int, bool]]:
    """The target of each group, and whether its size may change."""
    assert groups is not None
    return {state.group.name: (state.target, state.suspended is None) for state in groups.states}


def test_each_order_and_each_release_goes_to_the_provider_of_its_group() -> None:
    one, other = Source("one", a=1), Source("other", b=2)
    client = build_client(one, other)

    async def main() -> None:
        assert describe(await client.groups(START)) == {"a": (1, True), "b": (2, True)}
        await client.order("b", 5, START)
        await client.release("a", ["a-1"], START)

    virtual_time.run(main())
    assert (one.targets, other.targets) == ({"a": 1}, {"b": 5})
    assert (one.released, other.released) == (["a-1"], [])


def test_of_two_groups_with_one_name_that_of_the_first_provider_counts() -> None:
    one, other = Source("one", a=1), Source("other", a=2, b=2)
    client = build_client(one, other)

    async def main() -> None:
        groups = await client.groups(START)
        assert describe(groups) == {"a": (1, True), "b": (2, True)}
        assert groups is not None
        assert [(problem.group, problem.reason.reason) for problem in groups.problems] == [("a", GROUP_NAME_TAKEN)]
        await client.order("a", 3, START)

    virtual_time.run(main())
    assert (one.targets["a"], other.targets["a"]) == (3, 2)


def test_a_group_that_no_provider_has_is_refused() -> None:
    client = build_client(Source("one", a=1))

    async def main() -> None:
        await client.groups(START)
        assert (await client.order("b", 1, START)).refusal.reason is UNKNOWN_GROUP  # type: ignore[union-attr]
        assert (await client.release("b", ["x"], START)).refused["x"].reason is UNKNOWN_GROUP

    virtual_time.run(main())


def test_the_groups_of_a_silent_provider_stay_and_are_suspended() -> None:
    one, other = Source("one", a=1), Source("other", b=2)
    client = build_client(one, other)

    async def main() -> None:
        await client.groups(START)
        other.error = OSError("the line is dead")
        groups = await client.groups(START + 10)
        assert describe(groups) == {"a": (1, True), "b": (2, False)}
        assert groups is not None
        assert [problem.reason.reason for problem in groups.problems] == [PROVIDER_FAILED]
        other.error = None
        assert describe(await client.groups(START + 20)) == {"a": (1, True), "b": (2, True)}

    virtual_time.run(main())


def test_the_others_wait_a_second_for_a_provider_that_was_silent_and_take_its_answer_when_it_comes() -> None:
    one, slow = Source("one", a=1), Source("slow", b=2)
    client = build_client(one, slow)

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        await client.groups(START)
        slow.delay = 100.0
        started = clock()
        groups = await client.groups(START)
        assert groups is not None
        assert (clock() - started, groups.problems[0].reason.reason) == (PATIENCE, PROVIDER_TIMED_OUT)
        slow.delay, slow.targets["b"] = 5.0, 3
        started = clock()
        assert describe(await client.groups(START + 30)) == {"a": (1, True), "b": (2, False)}
        assert clock() - started == 1.0
        assert await client.tend(START + 31) == (START + 91, ())
        await asyncio.sleep(5.0)
        assert describe(await client.groups(START + 40)) == {"a": (1, True), "b": (3, True)}
        await client.close()

    virtual_time.run(main())


def test_the_groups_of_a_provider_that_is_silent_for_long_are_gone() -> None:
    one, other = Source("one", a=1), Source("other", b=2)
    client = build_client(one, other)

    async def main() -> None:
        await client.groups(START)
        other.error = OSError("the line is dead")
        await client.groups(START + 10)
        assert "b" in describe(await client.groups(START + 129))
        assert describe(await client.groups(START + 130)) == {"a": (1, True)}

    virtual_time.run(main())


def test_without_any_answer_there_is_no_view_and_later_there_are_no_groups() -> None:
    one, other = Source("one", a=1), Source("other", b=2)
    one.error = other.error = OSError("the line is dead")
    client = build_client(one, other)

    async def main() -> None:
        assert await client.groups(START) is None
        groups = await client.groups(START + 120)
        assert groups is not None
        assert (groups.states, len(groups.problems)) == ((), 2)

    virtual_time.run(main())


def test_a_closed_client_leaves_no_call_behind() -> None:
    hanging = Source("hanging", a=1)
    client = build_client(hanging, Source("other", b=1))

    async def main() -> None:
        hanging.error = OSError("the line is dead")
        await client.groups(START)
        hanging.error, hanging.delay = None, 1e6
        await client.groups(START + 10)
        await client.close()
        assert len(asyncio.all_tasks()) == 1

    virtual_time.run(main())


def test_a_group_of_an_impossible_size_costs_only_itself() -> None:
    one = Source("one", a=-1, b=1)

    async def main() -> None:
        groups = await build_client(one).groups(START)
        assert describe(groups) == {"b": (1, True)}
        assert groups is not None
        assert [problem.group for problem in groups.problems] == ["a"]

    virtual_time.run(main())


def test_an_impossible_option_costs_only_its_group() -> None:
    class Optional(Source):
        async def groups(self, _now: float, /) -> Groups:
            states = (await super().groups(_now)).states
            wrong = replace(states[0].group, options=replace(states[0].group.options, scale_down_unneeded_seconds=-1))
            return Groups((replace(states[0], group=wrong), *states[1:]))

    async def main() -> None:
        groups = await build_client(Optional("one", a=1, b=1)).groups(START)
        assert describe(groups) == {"b": (1, True)}
        assert groups is not None
        assert "scale_down_unneeded_seconds is -1" in str(groups.problems[0].reason)

    virtual_time.run(main())
