"""Shares namespaces among the live replicas of a component, so that no two of them serve one at the same time.

Each replica assigns namespaces by the members that it knows, its view, and publishes the view in its member Lease
before it acts by it. It serves a namespace if its own view claims it and the view of no other live replica does:

1. Members have changed. The replica stops deciding for namespaces that it no longer owns, hands them over (a
   recommender writes their checkpoints), and waits for writes that are in flight.
2. It publishes the new view.
3. Once its informer has shown that view, it knows every view that was published earlier, and serves what no other view
   claims. A replica that still has to let go of a namespace claims it until then.

Of two replicas that claim a namespace, the one whose claim is the later one observes the earlier claim in step 3, so
that never both of them serve it. A replica that was killed claims its namespaces until its member Lease expires, and
one that was merely stopped is not allowed to write by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from trellis.base.replica_assignment import MemberView, NamespaceShard
from trellis.runtime.replicas.membership import Membership
from trellis.runtime.telemetry.logs import Logger

_VIEW: Final = "trellis.x-k8s.io/view"

# The longest that handing over may take; what is not written by then is lost, at most what was measured since.
LET_GO_SECONDS: Final = 10.0
# Watches of other kinds may be behind that of Leases: what the last holder wrote is observed by then.
SETTLE_SECONDS: Final = 1.0

_log: Final = Logger("trellis.replicas")


class ShardListener(Protocol):
    """The part of a component that works for a shard."""

    def on_shard_changed(self) -> None:
        """Other namespaces are served from now on."""

    async def let_go(self, covers: Callable[[str], bool]) -> None:
        """Hand over the namespaces that are not covered; nothing is decided for them any more."""

    async def wait_for_writes(self, covers: Callable[[str], bool]) -> None:
        """Return once no write to a namespace is in flight that is not covered."""


class NamespaceSharding:
    """The namespaces of this replica. `run` in a task of its own, beside that of the membership."""

    def __init__(self, membership: Membership) -> None:
        self.shard = NamespaceShard()
        self._membership = membership
        # Wider than the shard while namespaces are handed over.
        self._writable = NamespaceShard()
        self._published: tuple[str, ...] = ()
        self._next: NamespaceShard | None = None
        self._is_settled = False
        self._changed = asyncio.Event()
        membership.report({_VIEW: ""})
        membership.subscribe(self._changed.set)

    def covers(self, namespace: str) -> bool:
        """Whether decisions about the namespace are made here; objects without a namespace belong to all replicas."""
        return not namespace or self.shard.covers(namespace)

    def may_write_in(self, namespace: str) -> bool:
        """Whether this replica may write to the namespace at this moment."""
        return not namespace or self._writable.covers(namespace)

    @property
    def members(self) -> tuple[str, ...]:
        """The members that share the namespaces, as this replica has published them."""
        return self._published

    async def run(self, listener: ShardListener) -> None:
        """Follow the members until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not (me := self._membership.name) or not self._membership.is_fresh(me):
                continue
            live = self._membership.list_live()
            members = tuple(sorted({*live, me}))
            if members != self._published:
                await self._publish(MemberView(me, members), listener)
            elif self._membership.has_observed_own_report:
                views = {name: _read_view(member.report.get(_VIEW, "")) for name, member in live.items() if name != me}
                others = tuple(MemberView(name, view) for name, view in views.items() if view)
                self._adopt(NamespaceShard((MemberView(me, members),), others), listener)

    async def _publish(self, view: MemberView, listener: ShardListener) -> None:
        """Let go of what the new view does not claim, and publish it."""
        _log.info("members changed", group=self._membership.group, members=len(view.members))
        if self.shard.own:
            self._restrict(NamespaceShard((view,)))
            await _limit(listener.let_go(self.shard.covers), "handing over namespaces")
            self._writable = self.shard
            await _limit(listener.wait_for_writes(self.shard.covers), "waiting for writes")
        self._published = view.members
        self._membership.report({_VIEW: ",".join(view.members)})

    def _adopt(self, shard: NamespaceShard, listener: ShardListener) -> None:
        """Serve a shard once it has been the same for a moment; what it does not cover is given up at once."""
        if shard == self.shard:
            return
        if shard != self._next:
            self._next, self._is_settled = shard, False
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._settle, shard)
            if self.shard.own:
                self._restrict(shard)
                self._writable = self.shard
        elif self._is_settled:
            self.shard = self._writable = shard
            self._next = None
            _log.info("serving a shard", group=self._membership.group, members=len(shard.own[0].members))
            listener.on_shard_changed()

    def _settle(self, shard: NamespaceShard) -> None:
        if self._next is shard:
            self._is_settled = True
            self._changed.set()

    def _restrict(self, shard: NamespaceShard) -> None:
        own, others = (*self.shard.own, *shard.own), (*self.shard.others, *shard.others)
        self.shard = NamespaceShard(tuple(dict.fromkeys(own)), tuple(dict.fromkeys(others)))


def _read_view(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


async def _limit(work: Awaitable[None], what: str) -> None:
    try:
        async with asyncio.timeout(LET_GO_SECONDS):
            await work
    except TimeoutError:
        _log.warning(
            "handing namespaces over took too long; the members change nevertheless", what=what, seconds=LET_GO_SECONDS
        )
