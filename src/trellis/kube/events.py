"""Events: the correlator, which groups and limits them as client-go's does, and the recorder, which posts them.

`EventRecorder.record` returns at once; `run` posts the pending Events. An occurrence that repeats before its Event was
posted only raises the count. The backlog is bounded: while the API server is unavailable for long, Events are dropped
and counted, because a pass matters more than its Events. Events are of core/v1 with `count` and timestamps, which every
kubectl shows with its age and "x7".

The correlator decides whether an occurrence is a new Event, one more of a series, or dropped. Times are arguments. The
rules and figures are those of client-go's event correlator:

- The same message about the same object for the same reason is one Event with a count.
- The tenth message within ten minutes, and those after it, are one Event of "similar events".
- An object gets 25 Events at once and then one every five minutes; more are dropped and counted.

State is held for the 4,096 objects or series used last, so that memory is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason, Severity
from trellis.base.times import format_time
from trellis.core.cluster.store import AnyObject
from trellis.kube.flow_control import Rate, TokenBucket
from trellis.kube.lru_map import LruMap
from trellis.kube.resources import EVENTS, Resource
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer

WINDOW_SECONDS: Final = 600.0
SIMILAR_AT: Final = 10
OBJECT_RATE: Final = Rate(1 / 300, 25)
TRACKED_SERIES: Final = 4096
# The longest note that events.k8s.io accepts.
MAX_MESSAGE_LENGTH: Final = 1024

_SIMILAR: Final = "(combined from similar events): "


class Occurrence(msgspec.Struct, frozen=True):
    """One occurrence at an object, with its reason."""

    about: ObjectReference
    reason: Reason
    message: str

    @property
    def type(self) -> str:
        """`Normal` or `Warning`."""
        return "Normal" if self.reason.severity is Severity.INFO else "Warning"


SeriesKey = tuple[ObjectReference, str, str]


class EventCorrelator:
    """Groups recent Events into series, and limits them per object."""

    def __init__(self, capacity: int = TRACKED_SERIES) -> None:
        self.dropped = 0
        self._buckets: LruMap[ObjectReference, TokenBucket] = LruMap(capacity)
        self._recent_messages: LruMap[tuple[ObjectReference, str], _RecentMessages] = LruMap(capacity)

    def correlate(self, occurrence: Occurrence, now: float) -> tuple[SeriesKey, str] | None:
        """The series of an occurrence and the message to show; None if the object has reached its rate limit."""
        about, code = occurrence.about, occurrence.reason.code
        if not self._buckets.get(about, lambda: TokenBucket(OBJECT_RATE, now)).try_take(now):
            self.dropped += 1
            return None
        message = occurrence.message[:MAX_MESSAGE_LENGTH]
        recent = self._recent_messages.get((about, code), lambda: _RecentMessages(now))
        if recent.add_and_check_limit(message, now):
            return (about, code, _SIMILAR), (_SIMILAR + message)[:MAX_MESSAGE_LENGTH]
        return (about, code, message), message


class _RecentMessages:
    """The different messages of one reason about one object within the window."""

    __slots__ = ("_last_seen_at", "_messages")

    def __init__(self, now: float) -> None:
        self._messages: set[str] = set()
        self._last_seen_at = now

    def add_and_check_limit(self, message: str, now: float) -> bool:
        if now - self._last_seen_at > WINDOW_SECONDS:
            self._messages.clear()
        self._last_seen_at = now
        if len(self._messages) < SIMILAR_AT:
            self._messages.add(message)
        return len(self._messages) >= SIMILAR_AT


# How many series may be pending: some ten seconds of a busy API server's time.
_BACKLOG: Final = 1_000
_BATCH_SIZE: Final = 32
_ATTEMPTS: Final = 3
_RETRY_SECONDS: Final = 5.0

# The namespace of Events about objects without one, such as nodes.
_FALLBACK_NAMESPACE: Final = "default"

# A name has at most 253 characters, of which a point and sixteen digits are ours.
_MAX_STEM_LENGTH: Final = 236


class EventReporter(msgspec.Struct, frozen=True):
    """The reporting component and its replica."""

    component: str
    instance: str = ""


def build_reference(resource: Resource[Any], obj: AnyObject) -> ObjectReference:
    """A reference to an object, without its version: Events about two versions are one series."""
    metadata = obj.metadata
    return ObjectReference(resource.kind, metadata.namespace, metadata.name, metadata.uid, resource.api_version)


class _EventSeries:
    """One Event: its content, its count, and the name it is or will be stored under."""

    __slots__ = ("attempts", "count", "first", "last", "last_clock", "message", "name", "occurrence", "stored")

    def __init__(self, occurrence: Occurrence, name: str, now: datetime) -> None:
        self.occurrence = occurrence
        self.name = name
        self.message = ""
        self.first = self.last = now
        self.last_clock = 0.0
        self.count = 0
        self.attempts = 0
        self.stored = False


class EventRecorder:
    """Records Events and posts them. Call `run` in its own task and `record` from the same event loop."""

    def __init__(self, writer: Writer, reporter: EventReporter, *, now: Callable[[], datetime]) -> None:
        self.lost = 0
        self._writer = writer
        self._reporter = reporter
        self._now = now
        self._correlator = EventCorrelator()
        self._series: LruMap[SeriesKey, _EventSeries] = LruMap(TRACKED_SERIES)
        self._waiting: dict[SeriesKey, _EventSeries] = {}
        self._has_pending = asyncio.Event()
        self._name_count = 0

    @property
    def dropped(self) -> int:
        """How many Events were dropped by the rate limit of one object."""
        return self._correlator.dropped

    def record(self, about: ObjectReference, reason: Reason, message: str = "") -> None:
        """Record an Event; without a message, it has the meaning of its reason."""
        clock = asyncio.get_running_loop().time()
        about = msgspec.structs.replace(about, resource_version="")
        occurrence = Occurrence(about, reason, message or reason.meaning)
        correlated = self._correlator.correlate(occurrence, clock)
        if correlated is None:
            return
        key, text = correlated
        if key not in self._waiting and len(self._waiting) >= _BACKLOG:
            self.lost += 1
            return
        series = self._get_series(key, occurrence, clock)
        series.count += 1
        series.message = text
        series.last, series.last_clock = self._now(), clock
        self._waiting[key] = series
        self._has_pending.set()

    async def run(self) -> None:
        """Post pending Events until cancelled."""
        while True:
            await self._has_pending.wait()
            if not await self.flush():
                await asyncio.sleep(_RETRY_SECONDS)

    async def flush(self) -> bool:
        """Post all pending Events; False if some must be retried later."""
        while self._waiting:
            keys = list(self._waiting)[:_BATCH_SIZE]
            batch = [self._waiting.pop(key) for key in keys]
            outcomes = await self._writer.write_all([self._build_action(series) for series in batch])
            retries = [
                (key, series)
                for key, series, outcome in zip(keys, batch, outcomes, strict=True)
                if self._needs_retry(series, outcome)
            ]
            if retries:
                self._waiting = dict(retries) | self._waiting
                return False
        self._has_pending.clear()
        return True

    def _get_series(self, key: SeriesKey, occurrence: Occurrence, clock: float) -> _EventSeries:
        def create() -> _EventSeries:
            return _EventSeries(occurrence, self._make_name(occurrence.about), self._now())

        series = self._series.get(key, create)
        if series.count and clock - series.last_clock > WINDOW_SECONDS:
            self._series.drop(key)
            series = self._series.get(key, create)
        return series

    def _make_name(self, about: ObjectReference) -> str:
        """As client-go: the object's name and a number from the time and a counter."""
        self._name_count += 1
        nanoseconds = int(self._now().timestamp() * 1_000_000) * 1_000 + self._name_count % 1_000
        return f"{about.name[:_MAX_STEM_LENGTH].rstrip('-.')}.{nanoseconds:016x}"

    def _build_action(self, series: _EventSeries) -> Action:
        about = series.occurrence.about
        target = Target(EVENTS, series.name, about.namespace or _FALLBACK_NAMESPACE)
        changes = {"message": series.message, "count": series.count, "lastTimestamp": format_time(series.last)}
        if series.stored:
            return PatchObject(target, merge_patch(changes))
        document: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": target.name, "namespace": target.namespace},
            "involvedObject": about,
            "type": series.occurrence.type,
            "reason": series.occurrence.reason.code,
            "firstTimestamp": format_time(series.first),
            "source": {"component": self._reporter.component, "host": self._reporter.instance},
            "reportingComponent": self._reporter.component,
            "reportingInstance": self._reporter.instance,
        }
        return CreateObject(target, document | changes)

    def _needs_retry(self, series: _EventSeries, outcome: WriteOutcome) -> bool:
        """Apply the outcome of a write to the series; returns whether it must be retried."""
        match outcome.result:
            case Result.APPLIED | Result.SKIPPED:
                series.stored = outcome.applied
                series.attempts = 0
                return False
            case Result.CONFLICT if not series.stored:
                # No other writer uses this name: an earlier attempt succeeded and its response was lost.
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
