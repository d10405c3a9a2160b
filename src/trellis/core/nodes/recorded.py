"""What is in a recording of the node autoscaler? What is new in the cluster, what each pass was about, and both plans.

A cluster has a hundred thousand pods, and little of it changes from pass to pass: only what has changed is written, of
objects, of groups, and of what is said about everybody. Each line goes on from the ones before it. With a line of kind
`began` everything begins anew: whoever planned has forgotten all it knew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.core.fit.resources import Counts
from trellis.core.model.keys import Key, key_of
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.moves import Starts
from trellis.core.nodes.up_settings import UpSettings

# Lines beside those that every component has: what is new, and what was asked about boosts while a plan was made.
NEWS: Final = "news"
BOOSTED: Final = "boosted"


class Began(msgspec.Struct, frozen=True):
    """By which figures plans are made from here on."""

    up: UpSettings
    down: DownSettings
    expendable_below: int


class Boosted(msgspec.Struct, frozen=True):
    """With how much CPU the successors of pods would start, where that is not what it was before."""

    starts: tuple[tuple[Key, Counts], ...]


class Boosts:
    """What was last answered about the successors of pods. The same for who writes and who reads."""

    def __init__(self) -> None:
        self._known: dict[Key, Counts] = {}
        self._new: dict[Key, Counts] = {}

    def asking(self, starts: Starts) -> Starts:
        """The same answers, noted."""

        def ask(pod: Pod) -> Counts:
            found, key = starts(pod), key_of(pod)
            if found != self._known.get(key, {}):
                self._known[key] = self._new[key] = found
            return found

        return ask

    def taken(self) -> Boosted | None:
        """What has been answered otherwise than before, since this was last asked."""
        new, self._new = self._new, {}
        return Boosted(tuple(new.items())) if new else None

    def put(self, line: Boosted) -> None:
        """Know what was answered."""
        self._known.update(line.starts)

    def answer(self, pod: Pod) -> Counts:
        """What was answered about a pod; about others nobody asked."""
        return self._known.get(key_of(pod), {})

    def forget(self, key: Key) -> None:
        """A pod is gone."""
        self._known.pop(key, None)
