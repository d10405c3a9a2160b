"""The Event recorder: posts Events beside the work and never delays it.

`record` returns at once; `run` posts what has accumulated. What happens again before its Event was posted only raises
the count. The backlog is bounded: when the API server is away for long, Events are dropped and counted, because a
pass matters more than its Events.

Events are of core/v1 with `count` and timestamps, which every kubectl shows with its age and "x7".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.core.cluster.store import AnyObject
from trellis.kube.event_correlator import TRACKED_SERIES, WINDOW_SECONDS, EventCorrelator, Occurrence, SeriesKey
from trellis.kube.lru_map import LruMap
from trellis.kube.resources import EVENTS, Resource
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer

# How many series may wait to be posted: some ten seconds of a busy API server's time.
_BACKLOG: Final = 1_000
_TOGETHER: Final = 32
_ATTEMPTS: Final = 3
_RETRY_SECONDS: Final = 5.0

# Events about objects without a namespace, such as nodes, are looked for here.
_NO_NAMESPACE: Final = "default"

# A name has at most 253 characters, of which a point and sixteen digits are ours.
_LONGEST_STEM: Final = 236


class EventReporter(msgspec.Struct, frozen=True):
    """The reporting component, and which replica of it."""

    component: str
    instance: str = ""


def reference_to(resource: Resource[Any], found: AnyObject) -> ObjectReference:
    """The object that an Event is about. Without its version, so that Events about two versions are one series."""
    metadata = found.metadata
    return ObjectReference(resource.kind, metadata.namespace, metadata.name, metadata.uid, resource.api_version)


class _EventSeries:
    """One Event to be written: its content, its count, and the name it is stored under, if it is."""

    __slots__ = ("attempts", "clock", "count", "first", "happened", "last", "message", "name", "stored")

    def __init__(self, happened: Occurrence, name: str, now: datetime) -> None:
        self.happened = happened
        self.name = name
        self.message = ""
        self.first = self.last = now
        self.clock = 0.0
        self.count = 0
        self.attempts = 0
        self.stored = False


class EventRecorder:
    """Gathers and posts. `run` in a task of its own; `record` from the same event loop."""

    def __init__(self, writer: Writer, reporter: EventReporter, *, now: Callable[[], datetime]) -> None:
        self.lost = 0
        self._writer = writer
        self._reporter = reporter
        self._now = now
        self._correlator = EventCorrelator()
        self._series: LruMap[SeriesKey, _EventSeries] = LruMap(TRACKED_SERIES)
        self._waiting: dict[SeriesKey, _EventSeries] = {}
        self._has_pending = asyncio.Event()
        self._named = 0

    @property
    def dropped(self) -> int:
        """How many Events were dropped by the rate limit of one object."""
        return self._correlator.dropped

    def record(self, about: ObjectReference, reason: Reason, message: str = "") -> None:
        """Record an Event; without a message, it has the meaning of its reason."""
        clock = asyncio.get_running_loop().time()
        about = msgspec.structs.replace(about, resource_version="")
        happened = Occurrence(about, reason, message or reason.meaning)
        correlated = self._correlator.correlate(happened, clock)
        if correlated is None:
            return
        key, text = correlated
        if key not in self._waiting and len(self._waiting) >= _BACKLOG:
            self.lost += 1
            return
        series = self._series_of(key, happened, clock)
        series.count += 1
        series.message = text
        series.last, series.clock = self._now(), clock
        self._waiting[key] = series
        self._has_pending.set()

    async def run(self) -> None:
        """Post what gathers, until cancelled."""
        while True:
            await self._has_pending.wait()
            if not await self.flush():
                await asyncio.sleep(_RETRY_SECONDS)

    async def flush(self) -> bool:
        """Post all that waits; False if some of it must be tried again later."""
        while self._waiting:
            keys = list(self._waiting)[:_TOGETHER]
            batch = [self._waiting.pop(key) for key in keys]
            outcomes = await self._writer.write_all([self._action(series) for series in batch])
            again = [
                (key, series)
                for key, series, outcome in zip(keys, batch, outcomes, strict=True)
                if self._settle(series, outcome)
            ]
            if again:
                self._waiting = dict(again) | self._waiting
                return False
        self._has_pending.clear()
        return True

    def _series_of(self, key: SeriesKey, happened: Occurrence, clock: float) -> _EventSeries:
        def begin() -> _EventSeries:
            return _EventSeries(happened, self._name(happened.about), self._now())

        series = self._series.get(key, begin)
        if series.count and clock - series.clock > WINDOW_SECONDS:
            self._series.drop(key)
            series = self._series.get(key, begin)
        return series

    def _name(self, about: ObjectReference) -> str:
        """As client-go has it: the object's name and a number from the time and a counter."""
        self._named += 1
        nanoseconds = int(self._now().timestamp() * 1_000_000) * 1_000 + self._named % 1_000
        return f"{about.name[:_LONGEST_STEM].rstrip('-.')}.{nanoseconds:016x}"

    def _action(self, series: _EventSeries) -> Action:
        about = series.happened.about
        target = Target(EVENTS, series.name, about.namespace or _NO_NAMESPACE)
        changing = {"message": series.message, "count": series.count, "lastTimestamp": format_time(series.last)}
        if series.stored:
            return PatchObject(target, merge_patch(changing))
        document: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": target.name, "namespace": target.namespace},
            "involvedObject": about,
            "type": series.happened.type,
            "reason": series.happened.reason.code,
            "firstTimestamp": format_time(series.first),
            "source": {"component": self._reporter.component, "host": self._reporter.instance},
            "reportingComponent": self._reporter.component,
            "reportingInstance": self._reporter.instance,
        }
        return CreateObject(target, document | changing)

    def _settle(self, series: _EventSeries, outcome: WriteOutcome) -> bool:
        """Take note of how a post went; returns whether it is to be tried again."""
        match outcome.result:
            case Result.APPLIED | Result.SKIPPED:
                series.stored = outcome.applied
                series.attempts = 0
                return False
            case Result.CONFLICT if not series.stored:
                # The name is ours alone: an earlier attempt got through and its answer did not.
                series.stored = True
                return True
            case Result.GONE if series.stored:
                # The API server forgets Events after an hour.
                series.stored = False
            case Result.THROTTLED | Result.FAILED:
                pass
            case _:
                series.attempts = _ATTEMPTS
        series.attempts += 1
        if series.attempts > _ATTEMPTS:
            self.lost += 1
            series.attempts = 0
            return False
        return True
