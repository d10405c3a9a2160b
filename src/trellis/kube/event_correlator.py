"""Correlates Events: whether an occurrence is a new Event, one more of a series, or dropped. Pure: times are arguments.

The rules and figures are those of client-go's event correlator:

- The same message about the same object for the same reason is one Event with a count.
- The tenth message within ten minutes, and those after it, are one Event of "similar events".
- An object gets 25 Events at once and then one every five minutes; more are dropped and counted.

State is held for the 4,096 objects or series used last, so that memory is bounded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason, Severity
from trellis.kube.flow_control import Rate, TokenBucket
from trellis.kube.lru_map import LruMap

WINDOW_SECONDS: Final = 600.0
SIMILAR_AT: Final = 10
OBJECT_RATE: Final = Rate(1 / 300, 25)
TRACKED_SERIES: Final = 4096
# The longest note that events.k8s.io takes, and people read.
LONGEST_MESSAGE: Final = 1024

_SIMILAR: Final = "(combined from similar events): "


class Occurrence(msgspec.Struct, frozen=True):
    """Something that happened to an object, and the reason."""

    about: ObjectReference
    reason: Reason
    message: str

    @property
    def type(self) -> str:
        """The two types that Kubernetes knows."""
        return "Normal" if self.reason.severity is Severity.INFO else "Warning"


SeriesKey = tuple[ObjectReference, str, str]


class EventCorrelator:
    """Groups recent Events into series, and limits them per object."""

    def __init__(self, kept: int = TRACKED_SERIES) -> None:
        self.dropped = 0
        self._buckets: LruMap[ObjectReference, TokenBucket] = LruMap(kept)
        self._wordings: LruMap[tuple[ObjectReference, str], _RecentMessages] = LruMap(kept)

    def correlate(self, happened: Occurrence, now: float) -> tuple[SeriesKey, str] | None:
        """The series it belongs to and the message to show; None if the object has reached its rate limit."""
        about, code = happened.about, happened.reason.code
        if not self._buckets.get(about, lambda: TokenBucket(OBJECT_RATE, now)).take(now):
            self.dropped += 1
            return None
        message = happened.message[:LONGEST_MESSAGE]
        wordings = self._wordings.get((about, code), lambda: _RecentMessages(now))
        if wordings.are_too_many_with(message, now):
            return (about, code, _SIMILAR), (_SIMILAR + message)[:LONGEST_MESSAGE]
        return (about, code, message), message


class _RecentMessages:
    """The different messages that one reason about one object has had within the window."""

    __slots__ = ("_at", "_messages")

    def __init__(self, now: float) -> None:
        self._messages: set[str] = set()
        self._at = now

    def are_too_many_with(self, message: str, now: float) -> bool:
        if now - self._at > WINDOW_SECONDS:
            self._messages.clear()
        self._at = now
        if len(self._messages) < SIMILAR_AT:
            self._messages.add(message)
        return len(self._messages) >= SIMILAR_AT
