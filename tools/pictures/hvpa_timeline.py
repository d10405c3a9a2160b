"""Figures of an Hvpa's reaction to demand, computed by the shipped decision, for pictures.

`plan_sizes` plans for totals, one after the other. A `WorkloadLoop` is a workload in a closed loop: a VPA recommends
the total usage with a margin, the Hvpa plans, new pods take time to become Ready, and resizes take time as well.
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
from trellis.core.hvpa.ladder import find_next_count
from trellis.core.hvpa.next_step import size_replica

BEGIN: Final = 1_780_272_000.0  # Monday, 1 June 2026, midnight
_MARGIN: Final = 1.15


class PlannedSize(msgspec.Struct, frozen=True):
    """A total in millicores, and the planned count and size of replicas."""

    total: int
    count: int
    size: int


class Moment(msgspec.Struct, frozen=True):
    """The state at a time, in millicores: usage, the Hvpa's decision, and the size of each Ready pod."""

    at: float
    used: int
    count: int
    size: int
    ready: tuple[int, ...]


class Pod(msgspec.Struct):
    """A pod; it is Ready from `ready_at` on."""

    ready_at: float
    size: int


def load_hvpa(path: Path, **spec: Any) -> ResolvedHvpa:
    """The resolved Hvpa of a file, with some of its fields changed."""
    (manifest,) = (document for document in read_documents(path.read_bytes()) if isinstance(document, Document))
    hvpa = msgspec.convert(manifest.value, Hvpa)
    document = msgspec.to_builtins(hvpa)
    return ResolvedHvpa.from_effective(
        resolve_hvpa(msgspec.convert({**document, "spec": {**document["spec"], **spec}}, Hvpa))
    )


def plan_sizes(hvpa: ResolvedHvpa, totals: Iterable[int], count: int = 1) -> Iterator[PlannedSize]:
    """The plan for each total, following on the previous one; `count` is the initial count."""
    for total in totals:
        view = {"cpu": total}
        count = find_next_count(hvpa.ladders, view, count, hvpa.hvpa.down.overlap_percent)
        yield PlannedSize(total, count, size_replica(hvpa, view, {}, count=count, present={})["cpu"])


class WorkloadLoop:
    """A workload with a VPA and an Hvpa, from an initial count and size of pods."""

    def __init__(
        self, hvpa: ResolvedHvpa, count: int, size: int, *, startup: float, resizing: float, tick: float
    ) -> None:
        self.means, self.startup, self.resizing, self.tick = hvpa, startup, resizing, tick
        self.replicas, self.published, self.pods = count, size, [Pod(BEGIN, size) for _ in range(count)]
        self.memory, self.due = HvpaMemory(), list[tuple[float, int]]()

    def run(self, used: Callable[[float], int], seconds: float, *, margin: float = _MARGIN) -> Iterator[Moment]:
        """The moments of a run; `used` returns the usage in millicores at a number of seconds from the start."""
        for number in range(round(seconds / self.tick) + 1):
            after = number * self.tick
            yield self._step(after, used(after), round(margin * used(after)))

    def _step(self, after: float, used: int, total: int) -> Moment:
        now = BEGIN + after
        executed = [size for at, size in self.due if at <= now]
        if executed:
            self.pods = [Pod(pod.ready_at, executed[-1]) for pod in self.pods]
            self.due = [new_pod for new_pod in self.due if new_pod[0] > now]
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
            spec_replicas=self.replicas,
            memory=self.memory,
        )
