"""Whether something that happened is a new Event, one more of a series, or too much. Pure: times are arguments.

The rules and figures are client-go's event correlator:

- The same words about the same object for the same reason are one Event with a count.
- The tenth wording within ten minutes, and those after it, are one Event of "similar events".
- An object gets 25 Events at once and then one every five minutes; more are dropped and counted.

Everything is kept for the 4,096 objects or series used last, so that a cluster that never stops talking costs a bounded
amount of memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from trellis.api.kube.meta import ObjectReference
from trellis.base.reason import Reason, Severity
from trellis.kube.token_bucket import Rate, TokenBucket

WINDOW_SECONDS: Final = 600.0
SIMILAR_AT: Final = 10
OBJECT_RATE: Final = Rate(1 / 300, 25)
KEPT: Final = 4096
# The longest note that events.k8s.io takes, and people read.
LONGEST_MESSAGE: Final = 1024

_SIMILAR: Final = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


class Occurrence(msgspec.Struct, frozen=True):
    """What happened to whom, and why."""

    about: ObjectReference
    reason: Reason
    message: str

    @property
    def type(self) -> str:
        """The two types that Kubernetes knows."""
        return "Normal" if self.reason.severity is Severity.INFO else "Warning"


SeriesKey = tuple[ObjectReference, str, str]


class Correlator:
    """Remembers what was said lately."""

    def __init__(self, kept: int = KEPT) -> None:
        self.dropped = 0
        self._buckets: Recent[ObjectReference, TokenBucket] = Recent(kept)
        self._wordings: Recent[tuple[ObjectReference, str], _Wordings] = Recent(kept)

    def correlate(self, happened: Occurrence, now: float) -> tuple[SeriesKey, str] | None:
        """The series it belongs to and the message to show; None if the object has said too much."""
        about, code = happened.about, happened.reason.code
        if not self._buckets.get(about, lambda: TokenBucket(OBJECT_RATE, now)).take(now):
            self.dropped += 1
            return None
        message = happened.message[:LONGEST_MESSAGE]
        wordings = self._wordings.get((about, code), lambda: _Wordings(now))
        if wordings.are_too_many_with(message, now):
            return (about, code, _SIMILAR), (_SIMILAR + message)[:LONGEST_MESSAGE]
        return (about, code, message), message


class _Wordings:
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


class Recent(Generic[K, V]):
    """A map that forgets what was used longest ago."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if it is not there."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._values[key] = make()
            if len(self._values) > self._kept:
                self._values.popitem(last=False)
        return self._values[key]

    def drop(self, key: K) -> None:
        """Forget a value."""
        self._values.pop(key, None)
