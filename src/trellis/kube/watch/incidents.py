"""Incidents of a watch, and the staleness that follows from them.

Values and small records of them: logging, counting and alarms are left to a callable.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from trellis.core.cluster.store import ObjectKey

# For debugging a running program; a `report` callback receives every incident as it happens.
_KEPT: Final = 100


class IncidentKind(StrEnum):
    """What was out of order; also the label in metrics."""

    # No list or no watch: the next attempt follows by itself.
    TROUBLE = "trouble"
    # In contact again. `seconds` is how long it was not, and so how stale everything had become.
    RECOVERED = "recovered"
    # What the API server had forbidden is watched now.
    GRANTED = "granted"
    # A namespace that the API server forbids while it allows others. Its objects are gone until it is granted.
    REFUSED = "refused"
    # An object cannot be read.
    REJECTED = "rejected"
    # A handler raised an error: it has missed this change.
    HANDLER = "handler"


class Incident(msgspec.Struct, frozen=True):
    """Something a person may want to know; `at` is the event loop's time."""

    kind: IncidentKind
    message: str
    at: float
    key: ObjectKey | None = None
    seconds: float = 0.0
    error: Exception | None = None


class IncidentLog:
    """Counts all, keeps the last ones, passes each on."""

    def __init__(self, report: Callable[[Incident], None] | None = None) -> None:
        self.counts: Counter[IncidentKind] = Counter()
        self.latest: deque[Incident] = deque(maxlen=_KEPT)
        self._report = report

    def note(self, incident: Incident) -> None:
        """Something happened."""
        self.counts[incident.kind] += 1
        self.latest.append(incident)
        if self._report:
            self._report(incident)


class Staleness(msgspec.Struct, frozen=True):
    """How far a view of the cluster can be trusted. Ages are in seconds, None if the thing has not happened yet.

    While a watch is open silence is news too, and a bookmark breaks it about once a minute: a `contact_age` above some
    three minutes means that the view is old. `event_age` only says when something last changed.
    """

    synced: bool
    connected: bool
    contact_age: float | None
    event_age: float | None


class ServerContact:
    """When the server last answered. Times are the event loop's: a wall clock that jumps makes no cache stale."""

    def __init__(self) -> None:
        self.connected = False
        self._contact_at: float | None = None
        self._event_at: float | None = None
        self._lost = False

    def heard(self, at: float, *, event: bool = False) -> float | None:
        """Note an answer. Returns the length of the gap if it ends one."""
        gap = at - self._contact_at if self._lost and self._contact_at is not None else None
        self._lost = False
        self._contact_at = at
        if event:
            self._event_at = at
        return gap

    def lost(self) -> None:
        """Note that there is no connection."""
        self.connected = False
        self._lost = True

    def staleness(self, now: float, *, synced: bool) -> Staleness:
        """The ages as of now."""
        contact_age = None if self._contact_at is None else now - self._contact_at
        event_age = None if self._event_at is None else now - self._event_at
        return Staleness(synced, self.connected, contact_age, event_age)
