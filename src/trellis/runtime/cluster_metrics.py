"""How far can what is seen of the cluster be trusted, and what became of what was written? As metrics.

metrics = Metrics([*CLUSTER_METRICS, ...])
writer = Writer(client, record=lambda outcome: count_write(metrics, outcome))
export_informer(metrics, pods)          # once a pass, and before each scrape if there are no passes
"""

from __future__ import annotations

import math
from typing import Any, Final

from trellis.kube.informer import Informer
from trellis.kube.outcomes import Outcome
from trellis.runtime.metrics import CounterSpec, GaugeSpec, Metrics, Spec

_OF: Final = ("resource",)

SYNCED: Final = GaugeSpec("trellis_informer_synced", "1 once everything has been seen, else 0.", _OF)
CONNECTED: Final = GaugeSpec("trellis_informer_connected", "1 while a watch is open, else 0.", _OF)
CONTACT_AGE: Final = GaugeSpec(
    "trellis_informer_contact_age_seconds",
    "Seconds since the API server was last heard; a bookmark comes about once a minute. NaN before the first time.",
    _OF,
)
EVENT_AGE: Final = GaugeSpec(
    "trellis_informer_event_age_seconds", "Seconds since something last changed. NaN before the first time.", _OF
)
OBJECTS: Final = GaugeSpec("trellis_informer_objects", "Objects that are known.", _OF)
REJECTED: Final = GaugeSpec("trellis_informer_rejected_objects", "Objects that exist and cannot be read.", _OF)
LISTS: Final = GaugeSpec("trellis_informer_lists", "Lists it took; more than one means a watch was not resumed.", _OF)
UNSEEN: Final = GaugeSpec(
    "trellis_unseen_resources", "1 while a kind is done without because it may not be read, 0 once it may.", _OF
)
WRITES: Final = CounterSpec(
    "trellis_writes_total", "Writes by kind of object, action and result.", ("resource", "action", "result")
)
CLUSTER_METRICS: Final[tuple[Spec, ...]] = (
    SYNCED,
    CONNECTED,
    CONTACT_AGE,
    EVENT_AGE,
    OBJECTS,
    REJECTED,
    LISTS,
    UNSEEN,
    WRITES,
)


def export_informer(metrics: Metrics, informer: Informer[Any]) -> None:
    """Say how the informer is doing now. To be called on its event loop."""
    resource = informer.resource.full_name
    staleness, snapshot = informer.staleness(), informer.snapshot()
    values: dict[GaugeSpec, float | None] = {
        SYNCED: staleness.synced,
        CONNECTED: staleness.connected,
        CONTACT_AGE: staleness.contact_age,
        EVENT_AGE: staleness.event_age,
        OBJECTS: len(snapshot),
        REJECTED: len(snapshot.rejected),
        LISTS: informer.lists,
    }
    for spec, value in values.items():
        metrics.set(spec, math.nan if value is None else float(value), resource)


def count_write(metrics: Metrics, outcome: Outcome) -> None:
    """Count what became of one write."""
    action = outcome.action
    metrics.add(WRITES, 1, action.target.resource.full_name, type(action).__name__, outcome.result)
