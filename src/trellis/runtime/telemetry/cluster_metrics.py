"""Metrics of informers (synced, connected, stale) and of writes, and the log of failed writes.

metrics = Metrics([*CLUSTER_METRICS, ...])
writer = Writer(client, record=write_reporter(metrics, log))
observe_informer(metrics, pods)          # once a pass, and before each scrape if there are no passes
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from trellis.kube.watch.informer import Informer
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Metrics, Spec

_RESOURCE_LABEL: Final = ("resource",)

SYNCED: Final = GaugeSpec("trellis_informer_synced", "1 once the cache has synced, else 0.", _RESOURCE_LABEL)
CONNECTED: Final = GaugeSpec("trellis_informer_connected", "1 while a watch is open, else 0.", _RESOURCE_LABEL)
CONTACT_AGE: Final = GaugeSpec(
    "trellis_informer_contact_age_seconds",
    "Seconds since the last message of the API server; bookmarks arrive about once a minute. NaN before the first.",
    _RESOURCE_LABEL,
)
EVENT_AGE: Final = GaugeSpec(
    "trellis_informer_event_age_seconds",
    "Seconds since the last change of an object. NaN before the first.",
    _RESOURCE_LABEL,
)
OBJECTS: Final = GaugeSpec("trellis_informer_objects", "Objects in the cache.", _RESOURCE_LABEL)
REJECTED: Final = GaugeSpec(
    "trellis_informer_rejected_objects", "Objects that exist and cannot be decoded.", _RESOURCE_LABEL
)
LISTS: Final = GaugeSpec(
    "trellis_informer_lists", "Lists requested; more than one means that a watch could not be resumed.", _RESOURCE_LABEL
)
UNREADABLE: Final = GaugeSpec(
    "trellis_unseen_resources",
    "1 while an optional kind is missing in the cache because RBAC does not allow to read it, else 0.",
    _RESOURCE_LABEL,
)
WRITES: Final = CounterSpec(
    "trellis_writes_total", "Writes by resource, action and result.", ("resource", "action", "result")
)
CLUSTER_METRICS: Final[tuple[Spec, ...]] = (
    SYNCED,
    CONNECTED,
    CONTACT_AGE,
    EVENT_AGE,
    OBJECTS,
    REJECTED,
    LISTS,
    UNREADABLE,
    WRITES,
)


def observe_informer(metrics: Metrics, informer: Informer[Any]) -> None:
    """Set the metrics of an informer. Call it on the informer's event loop."""
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


def count_write(metrics: Metrics, outcome: WriteOutcome) -> None:
    """Count one write by its result."""
    action = outcome.action
    metrics.add(WRITES, 1, action.target.resource.full_name, action.label, outcome.result)


# Another writer was faster, or the object is gone: the next reconcile handles it.
_EXPECTED: Final = frozenset({Result.APPLIED, Result.CONFLICT, Result.GONE, Result.SKIPPED})


def is_expected(outcome: WriteOutcome) -> bool:
    """Whether a write ended in an expected way, which is not logged."""
    return outcome.result in _EXPECTED


def write_reporter(
    metrics: Metrics, log: Logger, is_expected: Callable[[WriteOutcome], bool] = is_expected
) -> Callable[[WriteOutcome], None]:
    """A function that counts writes and logs unexpected outcomes."""

    def report(outcome: WriteOutcome) -> None:
        count_write(metrics, outcome)
        if not is_expected(outcome):
            log.warning("not written", what=outcome.action.target, result=outcome.result, why=outcome.message)

    return report
