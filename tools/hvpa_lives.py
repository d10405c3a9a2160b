"""What an Hvpa does with a demand: figures for pictures, decided by the code that ships.

`answers` is what it says to totals, one after the other. A `Life` is a workload in a closed loop: a VPA tells what is
used in total with a margin, the Hvpa plans, new pods take their time to be Ready and resizes theirs to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.resolve import resolve_hvpa
from trellis.base.yaml.documents import Document, read_documents
from trellis.core.hvpa import ContainerView, HvpaMemory, HvpaSettings, HvpaView, ResolvedHvpa, SetScale, plan_hvpa
from trellis.core.hvpa.ladder import next_count
from trellis.core.hvpa.next_step import size_replica

BEGIN: Final = 1_780_272_000.0  # Monday, 1 June 2026, midnight
_MARGIN: Final = 1.15


class Answer(msgspec.Struct, frozen=True):
    """A total in millicores, and what it gets: how many replicas, and millicores of each."""

    total: int
    count: int
    size: int


class Moment(msgspec.Struct, frozen=True):
    """What there is at a time: what is used, what the Hvpa has decided, and what each Ready pod has; in millicores."""

    at: float
    used: int
    count: int
    size: int
    ready: tuple[int, ...]


class Pod(msgspec.Struct):
    """A pod; it is Ready from `ready_at` on."""

    ready_at: float
    size: int


def meaning_of(path: Path, **spec: Any) -> ResolvedHvpa:
    """What the Hvpa in a file means, with some of its fields changed."""
    (found,) = (document for document in read_documents(path.read_bytes()) if isinstance(document, Document))
    hvpa = msgspec.convert(found.value, Hvpa)
    document = msgspec.to_builtins(hvpa)
    return ResolvedHvpa.of(resolve_hvpa(msgspec.convert({**document, "spec": {**document["spec"], **spec}}, Hvpa)))


def answers(means: ResolvedHvpa, totals: Iterable[int], count: int = 1) -> Iterator[Answer]:
    """What each total gets after the one before it; the count at first is given."""
    for total in totals:
        asked = {"cpu": total}
        count = next_count(means.ladders, asked, count, means.hvpa.down.overlap_percent)
        yield Answer(total, count, size_replica(means, asked, {}, count=count, present={})["cpu"])


class Life:
    """A workload that begins with so many pods of one size."""

    def __init__(
        self, means: ResolvedHvpa, count: int, size: int, *, startup: float, resizing: float, tick: float
    ) -> None:
        self.means, self.startup, self.resizing, self.tick = means, startup, resizing, tick
        self.replicas, self.published, self.pods = count, size, [Pod(BEGIN, size) for _ in range(count)]
        self.memory, self.due = HvpaMemory(), list[tuple[float, int]]()

    def lived(self, used: Callable[[float], int], seconds: float, *, margin: float = _MARGIN) -> Iterator[Moment]:
        """Its moments; `used` says what is used so many seconds after the beginning, in millicores."""
        for number in range(round(seconds / self.tick) + 1):
            after = number * self.tick
            yield self._lives(after, used(after), round(margin * used(after)))

    def _lives(self, after: float, used: int, total: int) -> Moment:
        now = BEGIN + after
        done = [size for at, size in self.due if at <= now]
        if done:
            self.pods = [Pod(pod.ready_at, done[-1]) for pod in self.pods]
            self.due = [each for each in self.due if each[0] > now]
        ready = tuple(pod.size for pod in self.pods if pod.ready_at <= now)
        made = plan_hvpa(self._view(total, now), now, HvpaSettings())
        self.memory = made.memory
        published = made.containers.get("app", {}).get("cpu", self.published)
        if published != self.published:
            self.published = published
            self.due.append((now + self.resizing, published))
        for action in made.actions:
            self.replicas = action.replicas if isinstance(action, SetScale) else self.replicas
        new = [Pod(now + self.startup, self.published) for _ in range(self.replicas - len(self.pods))]
        self.pods = self.pods[: self.replicas] + new
        return Moment(after, used, made.shape.count, made.shape.size["cpu"], ready)

    def _view(self, total: int, now: float) -> HvpaView:
        count, sizes = len(self.pods), [pod.size for pod in self.pods]
        average, least = {"cpu": -(-sum(sizes) // count)}, {"cpu": min(sizes)}
        target = {"cpu": -(-total // count)}
        container = ContainerView("app", True, target, {"cpu": total}, average, least, {"cpu": self.published})
        return HvpaView(
            meaning=self.means,
            replicas=self.replicas,
            pods=count,
            ready=sum(pod.ready_at <= now for pod in self.pods),
            containers=(container,),
            wish=self.replicas,
            memory=self.memory,
        )
