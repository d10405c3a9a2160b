"""May the removal of a node that is not needed begin now? After a time, after delays, and a few at a time."""

from __future__ import annotations

import msgspec

from trellis.base.counted import counted
from trellis.core.buffers.said import Said
from trellis.core.nodes.candidates import Candidate
from trellis.core.nodes.down_look import DownLook
from trellis.core.nodes.down_memory import Removal
from trellis.core.nodes.down_notes import Notes
from trellis.core.nodes.down_verdicts import NODE_MARKED, NODE_UNNEEDED, SCALE_DOWN_DELAYED, SCALE_DOWN_LIMITED


class Start(msgspec.Struct, frozen=True):
    """What is said of an unneeded node; with a `removal` it goes.

    If a budget has `forbidden` it, others are to be tried before it is asked about again.
    """

    said: Said
    removal: Removal | None = None
    look: float | None = None
    forbidden: bool = False


class Starting:
    """Decides about one node after the other, beside the removals that go on."""

    def __init__(self, notes: Notes, look: DownLook) -> None:
        under_way = list(notes.removals.values())
        self._count = len(under_way)
        self._drains = sum(each.drains for each in under_way)
        self._look = look
        settings = look.settings
        self._delayed_until = max(
            notes.added + settings.scale_down_delay_after_add_seconds,
            notes.deleted + settings.scale_down_delay_after_delete_seconds,
            notes.failed + settings.scale_down_delay_after_failure_seconds,
        )

    def decide(self, candidate: Candidate, since: float) -> Start:
        """Whether this one goes now, which has been unneeded since then."""
        settings, now = self._look.settings, self._look.now
        ready = candidate.is_ready
        due = since + (settings.scale_down_unneeded_seconds if ready else settings.scale_down_unready_seconds)
        if now < due:
            return Start(Said(NODE_UNNEEDED), look=due)
        if now < self._delayed_until:
            return Start(Said(SCALE_DOWN_DELAYED), look=self._delayed_until)
        drains = not candidate.tenants.is_empty
        if self._count >= settings.max_scale_down_parallelism:
            return Start(Said(SCALE_DOWN_LIMITED, counted(self._count, "node")))
        if drains and self._drains >= settings.max_drain_parallelism:
            return Start(Said(SCALE_DOWN_LIMITED, f"{counted(self._drains, 'node')} with pods"))
        forbidden = (self._look.budgets.why_not(each.pod) for each in candidate.tenants.moving)
        said = next((each for each in forbidden if each is not None), None)
        if said is not None:
            return Start(said, forbidden=True)
        self._count += 1
        self._drains += drains
        uid, pods = self._look.snapshot.nodes[candidate.name].metadata.uid, candidate.tenants.uids
        return Start(
            Said(NODE_MARKED),
            Removal(candidate.name, uid, candidate.group, candidate.instance, now, now, pods, drains, len(pods)),
        )
