"""Leadership of a component: the leases that it is a candidate for, and which names it serves while it holds them.

    leadership = create_leadership(one_lease(settings.leader), client, report=report, is_idle=False)
    running = asyncio.create_task(leadership.run(on_won=on_won, on_lost=on_lost))
    if leadership.may_write(): ...

| a component has | its election |
|---|---|
| no leases, like the admission controller | None: it always leads |
| one lease | `one_lease` |
| a lease that tells other components of it, and that it does not wait for | `announced_lease` |
| a lease for each name that it serves, so that replicas share the names | `lease_per_name` |

A name that is won is served from then on. A lease that is lost ends the process, as upstream's does: its new holder has
begun to write, and a restart is the simplest way to drop what may be out of date.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Final
from uuid import uuid4

import msgspec

from trellis.kube.client import Client
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.settings.component import LeaderSettings
from trellis.runtime.tasks import cancel_all, wait_for_first

# The one name of a component that serves no others.
ITSELF: Final = ""


class ElectionSpec(msgspec.Struct, frozen=True):
    """Which leases a component is a candidate for: `leases` has the lease of each name that it serves.

    `noun` is what such a name is called in logs. An `announced` lease is taken whatever the flags say, and not waited
    for.
    """

    settings: LeaderSettings
    leases: Mapping[str, str]
    noun: str = ""
    announced: bool = False


def one_lease(settings: LeaderSettings) -> ElectionSpec:
    """The component works while it holds one lease."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name})


def announced_lease(settings: LeaderSettings) -> ElectionSpec:
    """As `one_lease`; without leader election the lease is taken all the same, for others to see."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name}, announced=True)


def lease_per_name(settings: LeaderSettings, leases: Mapping[str, str], noun: str) -> ElectionSpec:
    """The component serves each name whose lease it holds."""
    return ElectionSpec(settings, leases, noun)


class Leadership:
    """The names that a component serves, and the elections for them. Without elections it serves all of them.

    Elections that are `announced` are taken part in, and decide nothing.
    """

    def __init__(
        self,
        names: Iterable[str] = (ITSELF,),
        elections: Mapping[str, Election] = MappingProxyType({}),
        *,
        announced: bool = False,
        noun: str = "",
    ) -> None:
        self._names = frozenset(names)
        self._elections = elections
        self._decisive = {} if announced else elections
        self._noun = noun
        self._won: set[str] = set()

    @property
    def identity(self) -> str:
        """The holder that this process writes into its leases; empty if it takes none."""
        return next((election.identity for election in self._elections.values()), "")

    @property
    def served(self) -> frozenset[str]:
        """The names to serve now."""
        return frozenset(self._won) if self._decisive else self._names

    def elsewhere(self) -> dict[str, str]:
        """The names that are not served here now, and the holders of their leases; empty where none is known."""
        return {name: self._elections[name].holder for name in sorted(self._names - self.served)}

    def may_write(self) -> bool:
        """Whether no other process can be serving one of these names at this moment."""
        if not self._decisive:
            return True
        return bool(self._won) and all(self._decisive[name].may_write() for name in self._won)

    def fields(self, name: str) -> dict[str, str]:
        """The name as a field of a log line; a component that serves no names has none."""
        return {self._noun: name} if self._noun else {}

    def describe(self, name: str) -> str:
        """The lease of a name, in a sentence."""
        return f"the lease of {self._noun} {name}" if self._noun else "the lease"

    async def run(self, *, on_won: Callable[[str], None], on_lost: Callable[[str, str], None]) -> None:
        """Take part in the elections until cancelled. A lease that is lost comes with the reason."""
        is_ending = False

        def changed(name: str, leading: bool) -> None:
            if leading:
                self._won.add(name)
                on_won(name)
            elif not is_ending:
                election = self._elections[name]
                on_lost(name, election.trouble or f"held by {election.holder}")

        runs = {
            name: election.run(partial(changed, name)) if name in self._decisive else election.run()
            for name, election in self._elections.items()
        }
        tasks = [asyncio.create_task(run, name=f"lease {name}".strip()) for name, run in runs.items()]
        try:
            await wait_for_first(tasks)
        finally:
            is_ending = True
            await cancel_all(tasks)


def create_leadership(
    spec: ElectionSpec | None, client: Client, *, report: Callable[[WriteOutcome], None], is_idle: bool
) -> Leadership:
    """The leadership that a component needs. An idle one takes no lease, and so never stops the one that works."""
    if spec is None:
        return Leadership()
    leader = spec.settings
    is_announced = spec.announced and not leader.leader_elect
    if is_idle or not (leader.leader_elect or is_announced):
        return Leadership(spec.leases, noun=spec.noun)
    identity = make_identity()
    elections = {
        name: make_candidate(client, leader, report=report, identity=identity, lease=lease)
        for name, lease in spec.leases.items()
    }
    return Leadership(spec.leases, elections, announced=is_announced, noun=spec.noun)


def make_identity() -> str:
    """As client-go has it: the host, which is the pod, and something that a restart does not repeat."""
    return f"{socket.gethostname()}_{uuid4()}"


def make_candidate(
    client: Client, leader: LeaderSettings, *, report: Callable[[WriteOutcome], None], identity: str, lease: str
) -> Election:
    """A candidate for a lease. Its writer has no fence: a candidate that is not leading must be able to take it."""
    return Election(
        client,
        Writer(client, record=report),
        name=lease,
        namespace=leader.leader_elect_resource_namespace,
        identity=identity,
        now=lambda: datetime.now(UTC),
        draw=random.random,
        times=LeaseTimes(
            leader.leader_elect_lease_duration.total_seconds(),
            leader.leader_elect_renew_deadline.total_seconds(),
            leader.leader_elect_retry_period.total_seconds(),
        ),
    )
