"""Metrics that every component has: of itself, its informers and its writes. And the log of failed writes.

metrics = Metrics([*CLUSTER_METRICS, ...])
writer = Writer(client, record=write_reporter(metrics, log))
observe_informer(metrics, pods)          # before each scrape
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, get_args

from trellis.kube.watch.informer import Informer
from trellis.kube.write.actions import Action
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Label, Metrics, Spec

COMPONENT: Final = Label(
    "component",
    values=("recommender", "admission", "updater", "hvpa", "buffers", "nodes", "node-provider-server"),
)

BUILD: Final = GaugeSpec(
    "trellis_build_info", "1, with the version of Trellis.", (Label("version", "version of Trellis"),)
)
LEADER: Final = GaugeSpec(
    "trellis_component_leader",
    "1 while this replica works, else 0, because another replica holds the Lease. 1 too without leader election.",
    (COMPONENT, Label("name", "name that the component serves under a Lease of its own, else empty")),
)
PASS_INTERVAL: Final = GaugeSpec(
    "trellis_component_pass_interval_seconds", "Time between two passes over all objects.", (COMPONENT,)
)
LAST_PASS: Final = GaugeSpec(
    "trellis_component_last_pass_timestamp_seconds",
    "Time at which this replica last completed a pass. A pass that fails or is skipped is not completed.",
    (COMPONENT,),
)
LAST_PASS_DURATION: Final = GaugeSpec(
    "trellis_component_last_pass_duration_seconds", "Duration of the last successful pass.", (COMPONENT,)
)
FAILED_PASSES: Final = GaugeSpec(
    "trellis_component_failed_passes", "Passes that failed since the last successful one.", (COMPONENT,)
)

_RESOURCE_LABEL: Final = (Label("resource", "plural and group of a kind, such as `pods` or `deployments.apps`"),)

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
    "1 while an optional kind is missing in the cache because RBAC does not allow reading it, else 0.",
    _RESOURCE_LABEL,
)
REFUSED_NAMESPACES: Final = GaugeSpec(
    "trellis_informer_refused_namespaces",
    "Watched namespaces whose objects are ignored because RBAC does not allow reading them.",
    _RESOURCE_LABEL,
)
WRITES: Final = CounterSpec(
    "trellis_writes_total",
    "Writes by resource, action and result.",
    (
        *_RESOURCE_LABEL,
        Label("action", values=sorted(action.label for action in get_args(Action))),
        Label("result", values=Result),
    ),
)
# Components whose replicas can share namespaces.
_SHARDED: Final = Label("component", values=("recommender", "updater"))
SHARD: Final = GaugeSpec(
    "trellis_shard_info",
    "1, with the member Lease that this replica holds, if replicas share namespaces.",
    (_SHARDED, Label("member", "name of the member Lease")),
)
SHARD_MEMBERS: Final = GaugeSpec(
    "trellis_shard_members", "Replicas among which this replica shares the namespaces, itself included.", (_SHARDED,)
)
SHARD_CHANGES: Final = CounterSpec(
    "trellis_shard_changes_total", "Times that this replica began to serve other namespaces.", (_SHARDED,)
)
SHARD_METRICS: Final[tuple[Spec, ...]] = (SHARD, SHARD_MEMBERS, SHARD_CHANGES)

CLUSTER_METRICS: Final[tuple[Spec, ...]] = (
    BUILD,
    LEADER,
    PASS_INTERVAL,
    LAST_PASS,
    LAST_PASS_DURATION,
    FAILED_PASSES,
    SYNCED,
    CONNECTED,
    CONTACT_AGE,
    EVENT_AGE,
    OBJECTS,
    REJECTED,
    LISTS,
    UNREADABLE,
    REFUSED_NAMESPACES,
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
        REFUSED_NAMESPACES: len(informer.refused_namespaces),
    }
    for spec, value in values.items():
        metrics.set(spec, math.nan if value is None else float(value), resource)


class PassGauges:
    """The gauges of a component's last pass. A failed pass changes only their number."""

    def __init__(self, metrics: Metrics, component: str) -> None:
        self._metrics = metrics
        self._component = component

    def observe(self, seconds: float, failures: int) -> None:
        """Set the gauges after a pass, from its duration and the number of failed passes in a row."""
        self._metrics.set(FAILED_PASSES, failures, self._component)
        if not failures:
            self._metrics.set(LAST_PASS_DURATION, seconds, self._component)


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
