"""Leadership of a component: the leases that it is a candidate for, and which names it serves while it holds them.

    leadership = create_leadership(single_lease(settings.leader), client, report=report, is_idle=False)
    running = asyncio.create_task(leadership.run(on_won=on_won, on_lost=on_lost))
    if leadership.may_write(): ...

| a component has | its election |
|---|---|
| no leases, like the admission controller | None: it always leads |
| one lease | `single_lease` |
| a lease that announces it to other components, and that it does not wait for | `announced_lease` |
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

# The only name of a component that serves no named parts.
ITSELF: Final = ""


class ElectionSpec(msgspec.Struct, frozen=True):
    """The leases of a component: `leases` has the lease of each name that it serves.

    `noun` is what a name is called in logs. An `announced` lease is taken whatever the flags say, and the component
    does not wait for it.
    """

    settings: LeaderSettings
    leases: Mapping[str, str]
    noun: str = ""
    announced: bool = False


def single_lease(settings: LeaderSettings) -> ElectionSpec:
    """The component works while it holds one lease."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name})


def announced_lease(settings: LeaderSettings) -> ElectionSpec:
    """As `single_lease`; without leader election the lease is taken all the same, so that others observe it."""
    return ElectionSpec(settings, {ITSELF: settings.leader_elect_resource_name}, announced=True)


def lease_per_name(settings: LeaderSettings, leases: Mapping[str, str], noun: str) -> ElectionSpec:
    """The component serves each name whose lease it holds."""
    return ElectionSpec(settings, leases, noun)


class Leadership:
    """The names that a component serves, and the elections for them. Without elections it serves all of them.

    An `announced` election takes and renews its lease, and does not decide which names are served.
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
        self._required = {} if announced else elections
        self._noun = noun
        self._held: set[str] = set()

    @property
    def identity(self) -> str:
        """The holder identity of this process; empty if it takes no lease."""
        return next((election.identity for election in self._elections.values()), "")

    @property
    def served(self) -> frozenset[str]:
        """The names to serve now."""
        return frozenset(self._held) if self._required else self._names

    def list_other_holders(self) -> dict[str, str]:
        """The holder of the lease of each name that is not served here; empty where it is unknown."""
        return {name: self._elections[name].holder for name in sorted(self._names - self.served)}

    def may_write(self) -> bool:
        """Whether no other process can serve one of the names at this moment."""
        if not self._required:
            return True
        return bool(self._held) and all(self._required[name].may_write() for name in self._held)

    def log_fields(self, name: str) -> dict[str, str]:
        """The name as a field of a log line; a component that serves no names has none."""
        return {self._noun: name} if self._noun else {}

    def describe(self, name: str) -> str:
        """The lease of a name, in a sentence."""
        return f"the Lease of {self._noun} {name}" if self._noun else "the Lease"

    async def run(self, *, on_won: Callable[[str], None], on_lost: Callable[[str, str], None]) -> None:
        """Take part in the elections until cancelled. `on_lost` gets the name and the reason."""
        is_ending = False

        def changed(name: str, leading: bool) -> None:
            if leading:
                self._held.add(name)
                on_won(name)
            elif not is_ending:
                election = self._elections[name]
                on_lost(name, election.last_error or f"held by {election.holder}")

        runs = {
            name: election.run(partial(changed, name)) if name in self._required else election.run()
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
    """The leadership of a component. An idle component takes no lease, so that it never displaces the active one."""
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
    """As client-go: the host name, which is the pod's, and a random part that differs after a restart."""
    return f"{socket.gethostname()}_{uuid4()}"


def make_candidate(
    client: Client, leader: LeaderSettings, *, report: Callable[[WriteOutcome], None], identity: str, lease: str
) -> Election:
    """A candidate for a lease. Its writer does not check `may_write`: it must be able to take the lease."""
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
