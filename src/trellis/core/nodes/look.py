"""What is one pass decided on? Everything that was read, looked at once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.backoff import Backoff, failed, kept
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.standing import Standing, standing
from trellis.core.nodes.templates import Templates
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.upcoming import Awaited, awaited


class Look(msgspec.Struct, frozen=True):
    """The cluster, how its nodes stand, what is on its way, what new nodes would be, and who failed."""

    snapshot: Snapshot
    stands: Standing
    coming: Awaited
    templates: Templates
    backoffs: Mapping[str, Backoff]
    now: float
    settings: UpSettings

    def target(self, name: str) -> int:
        """How many instances a group is to have, as far as it was asked."""
        promise = self.coming.promises.get(name)
        shown = self.snapshot.groups[name].target
        return shown if promise is None else max(shown, promise.target)

    @property
    def largest(self) -> tuple[float, float]:
        """The most millicores and the most bytes that any node has or would have."""
        tables = (self.snapshot.table, self.templates.table)
        cores, memory = (max(float(each.offered(name).max(initial=0)) for each in tables) for name in (CPU, MEMORY))
        return cores, memory


def look(snapshot: Snapshot, memory: UpMemory, now: float, settings: UpSettings) -> Look:
    """Look at the cluster."""
    stands = standing(snapshot, now, settings.max_node_provision_seconds)
    coming = awaited(snapshot, memory.promises, memory.missing, now, settings)
    backoffs = kept(memory.backoffs, now, settings)
    for each in sorted(coming.failures, key=lambda each: each.at):
        backoffs[each.group] = failed(backoffs.get(each.group), each.at, str(each.said), settings)
    return Look(snapshot, stands, coming, Templates(snapshot, stands), backoffs, now, settings)
