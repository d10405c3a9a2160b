"""The protocol of a provider: it reports node groups, takes orders for more nodes and releases nodes.

What it must keep to, and `trellis.testing.providers` tests:

- An order says how many instances a group is to have, not how many more. The same order given again, after a crash or
  on an old view, orders nothing twice: whatever is new has the id it would have had the first time, or none.
- What it is asked to write to the API server it returns as `Steps`, and it remembers nothing that those do not leave
  in the cluster: another process goes on where this one ended.
- A refusal is an answer and no exception. An error that comes later is reported with the instance, in state `Failed`.
- One group that cannot be read, or one instance that is not known, never stops the others.
- It may be cancelled at any moment. How long an answer may take is for the caller to say.
- It reports what is, not what it was told: an instance of another shape than its group shows it in its node, and
  one that was promised and is not there is not in the states.

    groups = await provider.groups(now)
    ordered = await provider.order("small", 7, now)
    for step in ordered.steps:
        await writer.write_all(step)

Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import GroupState
from trellis.kube.write.actions import Action

UNKNOWN_GROUP = Reason("UnknownNodeGroup", "The provider has no such group of nodes.", Severity.WARNING)

# What is in one step is written side by side. The next step begins only when all of it has been applied.
Steps: TypeAlias = tuple[tuple[Action, ...], ...]

NOTHING_REFUSED: Final[Mapping[str, DetailedReason]] = MappingProxyType({})


class GroupProblem(msgspec.Struct, frozen=True):
    """Why a group, or what was meant to be one, is not among the states; `group` is empty if it has no name."""

    group: str
    reason: DetailedReason


class Groups(msgspec.Struct, frozen=True):
    """All groups that can be read, and what is wrong with the others."""

    states: tuple[GroupState, ...] = ()
    problems: tuple[GroupProblem, ...] = ()


class Ordered(msgspec.Struct, frozen=True):
    """What became of an order.

    `instances` are the ids of those that are new, as far as the provider knows them by now; where another system
    assigns them, they show in the states later. With an `error` less was ordered than was asked for, or nothing.
    """

    instances: tuple[str, ...] = ()
    steps: Steps = ()
    error: DetailedReason | None = None


class Released(msgspec.Struct, frozen=True):
    """What became of instances that were given back; those that are leaving already are given back once more."""

    instances: tuple[str, ...] = ()
    steps: Steps = ()
    refused: Mapping[str, DetailedReason] = NOTHING_REFUSED


class Tended(msgspec.Struct, frozen=True):
    """What has to be written by now, and when there will be more; None if nothing is foreseen."""

    steps: Steps = ()
    next: float | None = None


class Provider(Protocol):
    """Where nodes come from."""

    name: str
    """What it is called in settings, logs and metrics."""

    async def groups(self, now: float, /) -> Groups:
        """All groups, with what they have."""
        ...

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """See to it that a group has `target` instances. It never takes one away: that is for `release`."""
        ...

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Give instances back, by their ids. Nothing may run on them any more that is worth keeping."""
        ...

    async def tend(self, now: float, /) -> Tended:
        """What instances need on their way, apart from orders."""
        ...
