"""The protocol of a provider: it reports node groups, takes orders for more nodes and releases nodes.

Its rules, which `trellis.testing.providers` tests:

- An order says how many instances a group is to have, not how many more. The same order given again, after a crash or
  on an old view, orders nothing twice: new instances have the ids of the first time, or none.
- Writes to the API server are returned as `Steps`, and it remembers nothing that those do not leave in the cluster:
  another process continues where this one ended.
- A refusal is a result and no exception. A later error is reported with the instance, in state `Failed`.
- One group that cannot be read, or one instance that is not known, never stops the others.
- It may be cancelled at any moment. The caller sets the timeout.
- It reports the present state: an instance of another shape than its group shows it in its node, and a confirmed
  instance that does not exist is not in the states.

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

UNKNOWN_GROUP = Reason("UnknownNodeGroup", "The provider has no such node group.", Severity.WARNING)

# The actions of one step are written concurrently. The next step begins once all of them have been applied.
Steps: TypeAlias = tuple[tuple[Action, ...], ...]

NOTHING_REFUSED: Final[Mapping[str, DetailedReason]] = MappingProxyType({})


class GroupProblem(msgspec.Struct, frozen=True):
    """Why a declared group is not among the states; `group` is empty if it has no name."""

    group: str
    reason: DetailedReason


class Groups(msgspec.Struct, frozen=True):
    """All groups that can be read, and the problems of the others."""

    states: tuple[GroupState, ...] = ()
    problems: tuple[GroupProblem, ...] = ()


class Ordered(msgspec.Struct, frozen=True):
    """The result of an order.

    `instances` are the ids of the new instances that the provider knows; ids that another system assigns show in the
    states later. With an `error` fewer instances were ordered than requested, or none.
    """

    instances: tuple[str, ...] = ()
    steps: Steps = ()
    error: DetailedReason | None = None


class Released(msgspec.Struct, frozen=True):
    """The result of a release. Instances that are leaving already count as released."""

    instances: tuple[str, ...] = ()
    steps: Steps = ()
    refused: Mapping[str, DetailedReason] = NOTHING_REFUSED


class Tended(msgspec.Struct, frozen=True):
    """The writes that instances need now, and when the next ones are due; None if none are foreseen."""

    steps: Steps = ()
    next: float | None = None


class Provider(Protocol):
    """A source of nodes."""

    name: str
    """Its name in settings, logs and metrics."""

    async def groups(self, now: float, /) -> Groups:
        """All groups with their instances."""
        ...

    async def order(self, group: str, target: int, now: float, /) -> Ordered:
        """Grow a group to `target` instances. Only `release` removes instances."""
        ...

    async def release(self, group: str, instances: Sequence[str], now: float, /) -> Released:
        """Release instances by their ids. Their nodes are drained."""
        ...

    async def tend(self, now: float, /) -> Tended:
        """The writes that instances need while they start, apart from orders."""
        ...
