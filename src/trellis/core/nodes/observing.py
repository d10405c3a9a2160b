"""Observes the headroom of Buffers on the nodes there are, whichever autoscaler manages them.

The same placement as in a plan for more nodes, with nothing to be ordered: pending pods first, then chunks, on ready
nodes. `trellis buffers` goes by it where no `trellis nodes` runs, and `trellis nodes` while its provider is silent.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from trellis.core.buffers.said import Said
from trellis.core.model.keys import Key
from trellis.core.nodes.decided import Decided
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.look import look
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.minimum_on_top import replicas_on_top
from trellis.core.nodes.news import News
from trellis.core.nodes.population import EXPENDABLE_BELOW
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.telling import plan_of
from trellis.core.nodes.trial import trial
from trellis.core.nodes.up import place
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.verdicts import BUFFER_NOT_PROVISIONED, NO_GROUP_FITS, BufferVerdict


class Observed(msgspec.Struct, frozen=True):
    """What holds of each Buffer, and what to remember for the next observation.

    `on_top` has, by the UID of a `KeepMinimum` Buffer, how many chunks an autoscaler has to keep that only knows
    `KeepEmpty`. `problems` are objects that cannot be read, by kind and name.
    """

    buffers: tuple[BufferVerdict, ...]
    problems: Mapping[tuple[str, Key], Said]
    memory: UpMemory
    on_top: Mapping[str, int]


def observe(snapshot: Snapshot, memory: UpMemory, now: float, settings: UpSettings) -> Observed:
    """What holds now. The snapshot is as before afterwards, but for the arrivals of pods, which are taken."""
    seen = look(snapshot, memory, now, replace(settings, max_nodes_per_scaleup=0))
    limits = Limits(seen)
    with trial(snapshot, seen.stands, seen.templates) as tried:
        tried.await_nodes(seen.coming)
        waiting, kept = place(seen, memory, tried)
        on_top = replicas_on_top(tried, [each.chunks for each in kept], snapshot.fixed)
        plan = plan_of(seen, memory, tried, Decided(waiting, kept, limits))
    verdicts = plan.buffers if snapshot.groups else tuple(_without_groups(each) for each in plan.buffers)
    return Observed(verdicts, dict(snapshot.problems), plan.memory, on_top)


def _without_groups(verdict: BufferVerdict) -> BufferVerdict:
    """Where no node group is known, which of them might help is not known either."""
    is_unknown = verdict.said.reason is NO_GROUP_FITS
    return replace(verdict, said=Said(BUFFER_NOT_PROVISIONED)) if is_unknown else verdict


class Observer:
    """The snapshot, and what is remembered between observations. To be used in one thread."""

    def __init__(self, settings: UpSettings, expendable_below: int = EXPENDABLE_BELOW) -> None:
        self._settings = settings
        self._snapshot = Snapshot(expendable_below)
        self._memory = UpMemory()

    def take_in(self, news: News) -> None:
        """Update the snapshot."""
        news.put_into(self._snapshot)

    def observe(self, news: News, now: float) -> Observed:
        """Take in what is new, and observe."""
        self.take_in(news)
        observed = observe(self._snapshot, self._memory, now, self._settings)
        self._memory = observed.memory
        return observed
