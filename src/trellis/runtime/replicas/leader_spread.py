"""Spreads the leaders of components over the replicas of a process that runs several components.

    spread = LeaderSpread(membership)
    leadership = create_leadership(spec.election, client, ..., spread=spread)
    running = asyncio.create_task(spread.run())

Each replica reports the components that it is ready to lead. All replicas then know the preferred holder of each
component without asking one another. A free lease is left to its preferred holder for a moment. A replica that holds
the lease of a component hands it over once another replica has been preferred, live and ready for a while, so that
replicas that come and go do not pass leases to and fro.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.base.reasons import Reason
from trellis.base.replica_assignment import deal_out
from trellis.kube.flow_control import wait_for_tick
from trellis.kube.leader_election import LeaseTimes
from trellis.runtime.replicas.membership import Membership

HANDED_OVER: Final = Reason(
    "LeaderHandedOver", "The leader hands the component over to the replica that is preferred for it."
)

_COMPONENTS: Final = "trellis.x-k8s.io/components"

# Slower than leaders renew, which saves most of the cost: a replica that was killed counts for longer, and the Leases
# of its leaders are taken all the same.
SPREAD_TIMES: Final = LeaseTimes(duration=45.0, renew_deadline=30.0, retry_period=12.0)

# For how long the preferred holder has a free lease to itself. A normal shutdown hands over within 2 s.
HOLD_BACK_SECONDS: Final = 1.0
# For how long another replica must have been preferred before a leader hands over.
STEADY_SECONDS: Final = 20.0
_CHECK_SECONDS: Final = 4.0


class LeaderSpread:
    """The preferred holders of components, as this replica knows them."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._ready: set[str] = set()
        # The preferred holders of all components, until the members or their reports change.
        self._preferred: dict[str, str] | None = None
        membership.report({_COMPONENTS: ""})
        membership.subscribe(self._forget_preferred)

    @property
    def replicas(self) -> int:
        """How many replicas are live, this one among them."""
        return len(self._membership.list_live())

    async def run(self) -> None:
        """Stay a member of the replicas until cancelled."""
        await self._membership.run(rejoins=True)

    def mark_ready(self, component: str) -> None:
        """Report that this replica can lead a component."""
        self._ready.add(component)
        self._report()

    def mark_unready(self, component: str) -> None:
        """Report that this replica cannot lead a component, for example because it is restarted."""
        self._ready.discard(component)
        self._report()

    def find_preferred(self, component: str) -> str:
        """The name of the member that is to lead a component; empty if there is none."""
        if self._preferred is None:
            self._preferred = self._deal_out()
        return self._preferred.get(component, "")

    def _forget_preferred(self) -> None:
        self._preferred = None

    def _deal_out(self) -> dict[str, str]:
        candidates: dict[str, list[str]] = {}
        for name, member in self._membership.list_live().items():
            for ready in filter(None, member.report.get(_COMPONENTS, "").split(",")):
                candidates.setdefault(ready, []).append(name)
        return deal_out(candidates)

    def find_hold_back(self, component: str) -> float:
        """For how many seconds a free lease is to be left to another replica."""
        preferred = self.find_preferred(component)
        is_other = bool(preferred) and preferred != self._membership.name
        return HOLD_BACK_SECONDS if is_other and self._membership.is_fresh(preferred) else 0.0

    async def wait_for_other(self, component: str) -> str:
        """Return the member that a component is to be handed over to, once there is a steady one."""
        clock = asyncio.get_running_loop().time
        steady, since = "", clock()
        while True:
            await asyncio.sleep(wait_for_tick(_CHECK_SECONDS, clock()))
            preferred = self.find_preferred(component)
            is_fresh = bool(preferred) and self._membership.is_fresh(preferred)
            if not is_fresh or preferred == self._membership.name or not self._membership.name:
                steady = ""
            elif preferred != steady:
                steady, since = preferred, clock()
            elif clock() - since >= STEADY_SECONDS:
                return steady

    def _report(self) -> None:
        self._membership.report({_COMPONENTS: ",".join(sorted(self._ready))})
