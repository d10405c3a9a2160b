"""Where is a provider tried? In a yard: the provider, its world, and time that passes when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from trellis.api.kube.nodes import Node
from trellis.core.nodes.groups import GroupState, Instance, InstanceState
from trellis.providers.protocol import Provider, Steps
from trellis.testing.answers import Nonconformance

# Into how many pieces a boot time is cut, and how many of them may pass until a node is up.
_PIECES: Final = 4
_PATIENCE: Final = 40


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


async def roomy(yard: Yard) -> GroupState:
    """A group that two more instances can be ordered of."""
    for state in (await yard.provider.groups(yard.now)).states:
        if state.group.name != yard.hanging and state.group.max_size - state.target >= 2:
            return state
    raise Nonconformance("none of its groups has room for two more instances: give the yard one that has")


async def state_of(yard: Yard, group: str, provider: Provider | None = None) -> GroupState:
    """How a group is now, also as somebody else sees it."""
    for state in (await (provider or yard.provider).groups(yard.now)).states:
        if state.group.name == group:
            return state
    raise Nonconformance(f"the group {group} is no longer among its states")


async def order_two(yard: Yard) -> GroupState:
    """A group after two more instances of it have been ordered."""
    before = await roomy(yard)
    name = before.group.name
    ordered = await yard.provider.order(name, before.target + 2, yard.now)
    if ordered.error is not None:
        raise Nonconformance(f"two instances within the limits of {name} are refused: {ordered.error}")
    await yard.carry_out(ordered.steps)
    return await state_of(yard, name)


async def tend(yard: Yard) -> None:
    """One round of what a provider wants to be done by itself."""
    await yard.carry_out((await yard.provider.tend(yard.now)).steps)


async def bring_up_two(yard: Yard) -> tuple[GroupState, list[Instance]]:
    """A group after two more of its instances have come up, and all that run."""
    before = await order_two(yard)
    name, seconds = before.group.name, before.group.boot_seconds
    for _ in range(_PATIENCE):
        state = await state_of(yard, name)
        running = [each for each in state.instances if each.state is InstanceState.RUNNING]
        if len(running) >= state.target:
            return state, running
        await tend(yard)
        await yard.wait(seconds / _PIECES + 1)
    waited = _PATIENCE * (seconds / _PIECES + 1)
    raise Nonconformance(f"{name} boots in {seconds:g} s, and after {waited:g} s its instances are not all running")
