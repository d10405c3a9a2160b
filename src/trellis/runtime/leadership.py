"""Leadership of a component: the leases that it is a candidate for, and which names it serves while it holds them.

    leadership = create_leadership(single_lease(settings.leader), client, report=report, is_idle=False)
    running = asyncio.create_task(leadership.run(listener))
    if leadership.may_write(): ...

| a component has | its election |
|---|---|
| no leases, like the admission controller | None: it always leads |
| one lease | `single_lease` |
| a lease that announces it to other components, and that it does not wait for | `announced_lease` |
| a lease for each name that it serves, so that replicas share the names | `lease_per_name` |
| replicas that share namespaces, and hold its lease together | any of these, `sharded` |

A name that is won is served from then on. A lease that is lost ends the process, as upstream's does: its new holder has
begun to write, and a restart is the simplest way to drop what may be out of date.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import uuid4

import msgspec

from trellis.base.replica_assignment import NamespaceShard, name_shared_holder
from trellis.kube.client import Client
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.shared_election import SharedElection
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.replicas.leader_announcements import LeaderAnnouncer
from trellis.runtime.replicas.leader_spread import LeaderSpread
from trellis.runtime.replicas.membership import Membership
from trellis.runtime.replicas.namespace_sharding import NamespaceSharding, ShardListener
from trellis.runtime.settings.component import LeaderSettings
from trellis.runtime.tasks import cancel_all, wait_for_first

# The only name of a component that serves no named parts.
ITSELF: Final = ""


class ElectionSpec(msgspec.Struct, frozen=True):
    """The leases of a component: `leases` has the lease of each name that it serves.

    `noun` is what a name is called in logs. An `announced` lease is taken whatever the flags say, and the component
    does not wait for it. Replicas that share namespaces are members of the group `shards`.
    """

    settings: LeaderSettings
    leases: Mapping[str, str]
    noun: str = ""
    announced: bool = False
    shards: str = ""


def single_lease(settings: LeaderSettings) -> ElectionSpec:
    """The component works while it holds one lease."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name})


def announced_lease(settings: LeaderSettings) -> ElectionSpec:
    """As `single_lease`; without leader election the lease is taken all the same, so that others observe it."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name}, announced=True)


def lease_per_name(settings: LeaderSettings, leases: Mapping[str, str], noun: str) -> ElectionSpec:
    """The component serves each name whose lease it holds."""
    return ElectionSpec(settings, leases, noun)


def sharded(spec: ElectionSpec) -> ElectionSpec:
    """All replicas of the component work, and share namespaces. They hold its leases together."""
    # Processes that serve other names have another first lease, and share nothing with these.
    return msgspec.structs.replace(spec, shards=next(iter(spec.leases.values())))


class LeadershipListener(ShardListener, Protocol):
    """The component that a leadership is for. Names are those of the spec."""

    def on_won(self, name: str) -> None:
        """The name is served from now on."""

    def on_lost(self, name: str, why: str) -> None:
        """Another process serves the name."""

    def on_handover(self, name: str, to: str) -> None:
        """Another replica is to serve the name: the component is to end in order, and then stand again."""


class Leadership:
    """The names that a component serves, and the elections for them. Without elections it serves all of them.

    An `announced` election takes and renews its lease, and does not decide which names are served. With a `spread`, the
    leases are handed over to the replica that is preferred for the `component`.
    """

    def __init__(
        self,
        names: Iterable[str] = (ITSELF,),
        elections: Mapping[str, Election] = MappingProxyType({}),
        *,
        announced: bool = False,
        noun: str = "",
        announcer: LeaderAnnouncer | None = None,
        spread: LeaderSpread | None = None,
        component: str = "",
    ) -> None:
        self.names = frozenset(names)
        self._elections = elections
        self._required = {} if announced else elections
        self._noun = noun
        self._announcer = announcer
        self._spread = spread if self._required else None
        self._component = component
        self._held: set[str] = set()
        self._is_ending = False

    @property
    def identity(self) -> str:
        """The holder identity of this process; empty if it takes no lease."""
        return next((election.identity for election in self._elections.values()), "")

    @property
    def served(self) -> frozenset[str]:
        """The names to serve now."""
        return frozenset(self._held) if self._required else self.names

    @property
    def shard(self) -> NamespaceShard | None:
        """The namespaces to serve now; None if that is all of them."""
        return None

    def covers(self, namespace: str) -> bool:
        """Whether decisions about a namespace are made here."""
        return (shard := self.shard) is None or not namespace or shard.covers(namespace)

    @property
    def member(self) -> str:
        """The name of the member Lease of a replica that shares namespaces; empty before it has one."""
        return ""

    def find_readiness_problem(self) -> str | None:
        """Why this replica could not take part in the work, if so. One that waits for a leader's Lease could."""
        return None

    @property
    def has_namespaces(self) -> bool:
        """Whether there are any namespaces to serve: a replica that shares them waits for the others first."""
        return (shard := self.shard) is None or bool(shard.own)

    def list_other_holders(self) -> dict[str, str]:
        """The holder of the lease of each name that is not served here; empty where it is unknown."""
        return {name: self._elections[name].holder for name in sorted(self.names - self.served)}

    def may_write(self) -> bool:
        """Whether no other process can serve one of the names at this moment."""
        if not self._required:
            return True
        return bool(self._held) and all(self._required[name].may_write() for name in self._held)

    def may_write_in(self, namespace: str) -> bool:
        """Whether no other replica can serve the namespace at this moment, as far as that differs by namespace."""
        return self.covers(namespace)

    def log_fields(self, name: str) -> dict[str, str]:
        """The name as a field of a log line; a component that serves no names has none."""
        return {self._noun: name} if self._noun else {}

    def describe(self, name: str) -> str:
        """The lease of a name, in a sentence."""
        return f"the Lease of {self._noun} {name}" if self._noun else "the Lease"

    def mark_ready(self) -> None:
        """The component could lead now: its caches have synced."""
        if self._spread is not None:
            self._spread.mark_ready(self._component)

    async def run(self, listener: LeadershipListener) -> None:
        """Take part in the elections until cancelled."""
        work = {name: election.run(self._follow(name, listener)) for name, election in self._elections.items()}
        tasks = [asyncio.create_task(run, name=f"lease {name}".strip()) for name, run in work.items()]
        beside = [asyncio.create_task(run) for run in self._list_work(listener)]
        try:
            await wait_for_first([*tasks, *beside])
        finally:
            self._is_ending = True
            if self._spread is not None:
                self._spread.mark_unready(self._component)
            await cancel_all(tasks)
            if self._announcer is not None:
                await self._announcer.flush()
            await cancel_all(beside)

    def _follow(self, name: str, listener: LeadershipListener) -> Callable[[bool], None]:
        def changed(is_leading: bool) -> None:
            election = self._elections[name]
            if self._announcer is not None:
                self._announcer.announce(election, is_leading=is_leading)
            if name not in self._required:
                return
            if is_leading:
                self._held.add(name)
                listener.on_won(name)
            elif not self._is_ending:
                listener.on_lost(name, election.last_error or f"held by {election.holder}")

        return changed

    def _list_work(self, listener: LeadershipListener) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the elections."""
        work = []
        if self._announcer is not None and self._elections:
            work.append(self._announcer.run())
        if self._spread is not None:
            work.append(self._hand_over(self._spread, listener))
        return work

    async def _hand_over(self, spread: LeaderSpread, listener: LeadershipListener) -> None:
        """Have the component end when another replica is to lead it."""
        while True:
            preferred = await spread.wait_for_other(self._component)
            for name in sorted(self._held):
                listener.on_handover(name, preferred)


class ShardedLeadership(Leadership):
    """The leadership of a replica that shares namespaces with others; all of them hold the leases together."""

    def __init__(
        self,
        names: Iterable[str],
        elections: Mapping[str, Election],
        membership: Membership,
        *,
        noun: str = "",
        announcer: LeaderAnnouncer | None = None,
    ) -> None:
        super().__init__(names, elections, noun=noun, announcer=announcer)
        self._membership = membership
        self._sharding = NamespaceSharding(membership)

    @property
    def identity(self) -> str:
        return self._membership.identity

    @property
    def shard(self) -> NamespaceShard | None:
        return self._sharding.shard

    @property
    def member(self) -> str:
        return self._membership.name

    def find_readiness_problem(self) -> str | None:
        return None if self._membership.name else f"no member Lease yet: {self._membership.last_error or 'joining'}"

    def may_write(self) -> bool:
        return super().may_write() and self._membership.may_write()

    def may_write_in(self, namespace: str) -> bool:
        return self._sharding.may_write_in(namespace)

    def _list_work(self, listener: LeadershipListener) -> list[Coroutine[Any, Any, None]]:
        return [*super()._list_work(listener), self._stay_member(listener), self._sharding.run(listener)]

    async def _stay_member(self, listener: LeadershipListener) -> None:
        why = await self._membership.run()
        if not self._is_ending:
            listener.on_lost(min(self.names), f"the member Lease: {why}")
        await asyncio.get_running_loop().create_future()


def create_leadership(
    spec: ElectionSpec | None,
    client: Client,
    *,
    report: Callable[[WriteOutcome], None],
    is_idle: bool,
    announcer: LeaderAnnouncer | None = None,
    spread: LeaderSpread | None = None,
    component: str = "",
) -> Leadership:
    """The leadership of a component. An idle component takes no lease, so that it never displaces the active one."""
    if spec is None:
        return Leadership()
    leader = spec.settings
    is_announced = spec.announced and not leader.leader_elect
    if is_idle or not (leader.leader_elect or is_announced or spec.shards):
        return Leadership(spec.leases, noun=spec.noun)
    candidates = CandidateFactory(client, leader, report)
    if spec.shards:
        membership = candidates.create_membership(spec.shards)
        elections: dict[str, Election] = {
            name: candidates.create_shared(lease, spec.shards, membership) for name, lease in spec.leases.items()
        }
        return ShardedLeadership(spec.leases, elections, membership, noun=spec.noun, announcer=announcer)
    hold_back = (lambda: spread.find_hold_back(component)) if spread is not None else lambda: 0.0
    elections = {name: candidates.create(lease, hold_back) for name, lease in spec.leases.items()}
    return Leadership(
        spec.leases,
        elections,
        announced=is_announced,
        noun=spec.noun,
        announcer=announcer,
        spread=spread,
        component=component,
    )


def make_identity() -> str:
    """As client-go: the host name, which is the pod's, and a random part that differs after a restart."""
    return f"{socket.gethostname()}_{uuid4()}"


class CandidateFactory:
    """Makes the candidates and memberships of one replica. Their writers do not check `may_write`: they take leases."""

    def __init__(self, client: Client, settings: LeaderSettings, report: Callable[[WriteOutcome], None]) -> None:
        self._client = client
        self._settings = settings
        self._report = report
        self._identity = make_identity()
        self._times = LeaseTimes(
            settings.leader_elect_lease_duration.total_seconds(),
            settings.leader_elect_renew_deadline.total_seconds(),
            settings.leader_elect_retry_period.total_seconds(),
        )

    def create(self, lease: str, hold_back: Callable[[], float]) -> Election:
        """A candidate for a lease of its own."""
        return Election(
            self._client,
            Writer(self._client, record=self._report),
            name=lease,
            namespace=self._settings.leader_elect_resource_namespace,
            identity=self._identity,
            now=_wall_clock,
            draw=random.random,
            times=self._times,
            hold_back=hold_back,
        )

    def create_shared(self, lease: str, group: str, membership: Membership) -> Election:
        """A candidate for a lease that all members of a group hold together."""
        return SharedElection(
            self._client,
            Writer(self._client, record=self._report),
            name=lease,
            namespace=self._settings.leader_elect_resource_namespace,
            identity=name_shared_holder(group),
            now=_wall_clock,
            draw=random.random,
            times=self._times,
            is_last=lambda: len(membership.list_live()) <= 1,
        )

    def create_membership(self, group: str) -> Membership:
        """The membership in a group of replicas."""
        return Membership(
            self._client,
            group=group,
            namespace=self._settings.leader_elect_resource_namespace,
            identity=self._identity,
            draw=random.random,
            times=self._times,
            report=self._report,
            now=_wall_clock,
        )


def _wall_clock() -> datetime:
    return datetime.now(UTC)
