"""Context of a decision: other objects that influence it, and the latest Events.

HPAs, PodDisruptionBudgets, LimitRanges, quotas, freezes and the admission controller are named with what they say
themselves. What follows from them for a pod is in the decision about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from trellis.api.kube.coordination import Event
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRangeItem, PodDisruptionBudget
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric
from trellis.base.errors import InvalidSelector
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.cluster.target_selectors import convert_selector
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.explanation.document import EventPart, InfluencePart
from trellis.core.explain.explanation.values import format_moment
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.state.indexes import find_utilization_resources

_SIZED_TYPES: Final = frozenset({"Container", "Pod"})
# As the API calls them.
_BOUNDS: Final = {
    "min": "min",
    "max": "max",
    "default": "default",
    "max_limit_request_ratio": "maxLimitRequestRatio",
}


def find_influences(evidence: Evidence, target: TargetRef | None, pods: Iterable[Pod]) -> Iterator[InfluencePart]:
    """All objects that influence a target and these pods of it."""
    collected, namespace = evidence.collected, evidence.namespace
    if target is not None:
        yield from _freezes(evidence, target)
        for hpa in collected.hpas.by_index(BY_NAMESPACE, namespace):
            scaled = hpa.spec.scale_target_ref
            if (scaled.kind, scaled.name) == (target.kind, target.name):
                yield _hpa(hpa)
    listed_pods = list(pods)
    for budget in collected.pdbs.by_index(BY_NAMESPACE, namespace):
        if _covers(budget, listed_pods):
            yield _budget(budget)
    for limits in collected.limit_ranges.by_index(BY_NAMESPACE, namespace):
        items = [_item(item) for item in limits.spec.limits if item.type in _SIZED_TYPES]
        if items:
            yield InfluencePart("LimitRange", limits.metadata.name, {"limits": items})
    for quota in collected.quotas.by_index(BY_NAMESPACE, namespace):
        values = {"hard": dict(quota.status.hard or quota.spec.hard), "used": dict(quota.status.used)}
        yield InfluencePart("ResourceQuota", quota.metadata.name, values)
    yield from _admission(evidence)


def _freezes(evidence: Evidence, target: TargetRef) -> Iterator[InfluencePart]:
    planned = evidence.updated.plans.get((target.namespace, target.kind, target.name))
    freeze: Freeze | None = planned.snapshot.freeze if planned is not None else None
    if freeze is not None:
        yield InfluencePart("Freeze", freeze.scope.value, {"by": freeze.author, "why": freeze.reason})


def _hpa(hpa: HorizontalPodAutoscaler) -> InfluencePart:
    spec = hpa.spec
    values = {
        "metrics": [format_metric(metric) for metric in spec.metrics],
        "byUtilizationOf": sorted(find_utilization_resources([hpa])),
        "replicas": hpa.status.current_replicas,
        "minReplicas": 1 if spec.min_replicas is None else spec.min_replicas,
        "maxReplicas": spec.max_replicas,
    }
    return InfluencePart("HorizontalPodAutoscaler", hpa.metadata.name, values)


def format_metric(metric: Metric) -> str:
    """Its type and its name, wherever that stands."""
    source = metric.source
    name = (source.name or (source.metric.name if source.metric is not None else "")) if source is not None else ""
    return f"{metric.type} {name}".strip()


def _covers(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> bool:
    try:
        selector = convert_selector(budget.spec.selector)
    except InvalidSelector:
        return False
    return any(selector.matches(pod.metadata.labels) for pod in pods)


def _budget(budget: PodDisruptionBudget) -> InfluencePart:
    spec, status = budget.spec, budget.status
    values = {
        "minAvailable": spec.min_available,
        "maxUnavailable": spec.max_unavailable,
        "disruptionsAllowed": status.disruptions_allowed,
        "healthy": status.current_healthy,
        "desired": status.desired_healthy,
    }
    limits = {name: value for name, value in values.items() if value is not None}
    return InfluencePart("PodDisruptionBudget", budget.metadata.name, limits)


def _item(item: LimitRangeItem) -> dict[str, Any]:
    bounds = {name: dict(getattr(item, field)) for field, name in _BOUNDS.items()}
    return {"type": item.type, **{name: amounts for name, amounts in bounds.items() if amounts}}


def _admission(evidence: Evidence) -> Iterator[InfluencePart]:
    """The admission controller, which sizes the pods that come after evictions."""
    namespace, name = evidence.components.admission_lease
    if evidence.components.heeds_admission and evidence.updated.sized is not None:
        lease = evidence.collected.leases.get(namespace, name)
        renewed = format_moment(lease.spec.renew_time) if lease is not None else ""
        yield InfluencePart(
            "AdmissionController", f"{namespace}/{name}", {"renewed": renewed, "there": evidence.updated.sized}
        )


# Only the latest Events are reported.
_MOST_EVENTS: Final = 10


def find_events(evidence: Evidence, objects: Collection[tuple[str, str]]) -> list[EventPart]:
    """The latest Events about these kinds and names, oldest first."""
    return find_namespace_events(evidence.collected, evidence.namespace, objects)


def find_namespace_events(
    collected: ClusterState, namespace: str, objects: Collection[tuple[str, str]]
) -> list[EventPart]:
    """The latest Events of a namespace about these kinds and names, oldest first."""
    events = [
        event
        for event in collected.events.by_index(BY_NAMESPACE, namespace)
        if (event.involved_object.kind, event.involved_object.name) in objects
    ]
    return [_build_event_part(event) for event in sorted(events, key=_read_event_time)[-_MOST_EVENTS:]]


def _read_event_time(event: Event) -> str:
    moment = event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp
    return format_moment(moment)


def _build_event_part(event: Event) -> EventPart:
    about = event.involved_object
    return EventPart(
        _read_event_time(event), f"{about.kind} {about.name}", event.reason, event.message, max(event.count, 1)
    )
