"""What happened lately? The Events about some objects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from trellis.api.kube.coordination import Event
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Happened
from trellis.core.explain.wording import moment_text
from trellis.core.model.collected import Collected
from trellis.core.model.keys import BY_NAMESPACE

# Of all of them, the latest.
_MOST_EVENTS: Final = 10


def events_about(evidence: Evidence, objects: Collection[tuple[str, str]]) -> list[Happened]:
    """The latest Events about these kinds and names, oldest first."""
    return events_in(evidence.collected, evidence.namespace, objects)


def events_in(collected: Collected, namespace: str, objects: Collection[tuple[str, str]]) -> list[Happened]:
    """The same in a namespace, whatever was decided."""
    found = [
        each
        for each in collected.events.by(BY_NAMESPACE, namespace)
        if (each.involved_object.kind, each.involved_object.name) in objects
    ]
    return [_happened(each) for each in sorted(found, key=_when)[-_MOST_EVENTS:]]


def _when(event: Event) -> str:
    moment = event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp
    return moment_text(moment)


def _happened(event: Event) -> Happened:
    about = event.involved_object
    return Happened(_when(event), f"{about.kind} {about.name}", event.reason, event.message, max(event.count, 1))
