"""Leader election of the recommender: one lease for each name it serves, so that replicas can share the names.

A name that is won is served from the next pass on. A lease that is lost ends the process, as upstream's does: its new
holder has begun to write, and a restart is the simplest way to drop what may be out of date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.kube.leader_election import Election

LEASE: Final = "vpa-recommender-lease"
LEASE_NAMESPACE: Final = "kube-system"


def lease_names(names: Sequence[str], base: str, namespace: str = LEASE_NAMESPACE) -> dict[str, str]:
    """The lease of each name. That of `default` is upstream's, so that upstream's recommender and ours take turns.

    A lease or a namespace that is set for a single recommender is used as it is: rights may be limited to it, as in
    upstream's chart. Where neither is given, recommenders of different names do not take turns.
    """
    if len(names) == 1 and (base, namespace) != (LEASE, LEASE_NAMESPACE):
        return {names[0]: base}
    return {name: base if name == DEFAULT_RECOMMENDER else f"{base}-{name}" for name in names}


class RecommenderElections:
    """The names, and the elections for them if there are any.

    `elect` makes one, given whom to tell of changes. `wake` is called when there is a name more to serve.
    """

    def __init__(
        self,
        names: Sequence[str],
        elect: Callable[[str, Callable[[bool], None]], Election] | None,
        *,
        on_won: Callable[[str], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._names = frozenset(names)
        self._won: set[str] = set()
        self._on_won = on_won
        self._on_lost = on_lost
        self._elections = {name: elect(name, partial(self._changed, name)) for name in names} if elect else {}

    @property
    def served(self) -> frozenset[str]:
        """The names to serve now."""
        return frozenset(self._won) if self._elections else self._names

    def elsewhere(self) -> dict[str, str]:
        """The names that are not served here now, with the holders of their leases; empty where none is known."""
        return {name: self._elections[name].holder for name in sorted(self._names - self.served)}

    def may_write(self) -> bool:
        """Whether no other process can be serving one of our names at this moment."""
        return all(self._elections[name].may_write() for name in self._won)

    def why_lost(self, name: str) -> str:
        """What is known of the loss of a lease."""
        election = self._elections[name]
        return election.trouble or f"held by {election.holder}"

    async def run(self) -> None:
        """Stand for every lease until cancelled; without leases there is nothing to do."""
        async with asyncio.TaskGroup() as group:
            for name, election in self._elections.items():
                group.create_task(election.run(), name=f"lease of {name}")

    def _changed(self, name: str, leading: bool) -> None:
        if leading:
            self._won.add(name)
            self._on_won(name)
            self.wake()
        else:
            self._on_lost(name)
