"""Who else has a say? HPAs, disruption budgets, LimitRanges, quotas, freezes, and whoever sizes new pods.

Objects are named with what they say themselves. What follows from them for a pod is in its verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRangeItem, PodDisruptionBudget
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric
from trellis.base.errors import InvalidSelector
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Say
from trellis.core.explain.wording import moment_text
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import TargetRef
from trellis.core.model.selection import selector_of
from trellis.core.resize.freezing import Freeze
from trellis.core.resize.hpas import scaled_by

_SIZED_TYPES: Final = frozenset({"Container", "Pod"})
# As the API calls them.
_BOUNDS: Final = {
    "min": "min",
    "max": "max",
    "default": "default",
    "max_limit_request_ratio": "maxLimitRequestRatio",
}


def says_about(evidence: Evidence, target: TargetRef | None, pods: Iterable[Pod]) -> Iterator[Say]:
    """Everything that has a say about a target and these pods of it."""
    collected, namespace = evidence.collected, evidence.namespace
    if target is not None:
        yield from _freezes(evidence, target)
        for hpa in collected.hpas.by(BY_NAMESPACE, namespace):
            scaled = hpa.spec.scale_target_ref
            if (scaled.kind, scaled.name) == (target.kind, target.name):
                yield _hpa(hpa)
    among = list(pods)
    for budget in collected.pdbs.by(BY_NAMESPACE, namespace):
        if _covers(budget, among):
            yield _budget(budget)
    for limits in collected.limit_ranges.by(BY_NAMESPACE, namespace):
        items = [_item(each) for each in limits.spec.limits if each.type in _SIZED_TYPES]
        if items:
            yield Say("LimitRange", limits.metadata.name, {"limits": items})
    for quota in collected.quotas.by(BY_NAMESPACE, namespace):
        values = {"hard": dict(quota.status.hard or quota.spec.hard), "used": dict(quota.status.used)}
        yield Say("ResourceQuota", quota.metadata.name, values)
    yield from _admission(evidence)


def _freezes(evidence: Evidence, target: TargetRef) -> Iterator[Say]:
    planned = evidence.updated.plans.get((target.namespace, target.kind, target.name))
    freeze: Freeze | None = planned.gathered.frozen if planned is not None else None
    if freeze is not None:
        yield Say("Freeze", freeze.where.value, {"by": freeze.by, "why": freeze.why})


def _hpa(hpa: HorizontalPodAutoscaler) -> Say:
    spec = hpa.spec
    values = {
        "metrics": [metric_text(each) for each in spec.metrics],
        "byUtilizationOf": sorted(scaled_by([hpa])),
        "replicas": hpa.status.current_replicas,
        "minReplicas": 1 if spec.min_replicas is None else spec.min_replicas,
        "maxReplicas": spec.max_replicas,
    }
    return Say("HorizontalPodAutoscaler", hpa.metadata.name, values)


def metric_text(metric: Metric) -> str:
    """Its type and its name, wherever that stands."""
    source = metric.source
    name = (source.name or (source.metric.name if source.metric is not None else "")) if source is not None else ""
    return f"{metric.type} {name}".strip()


def _covers(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> bool:
    try:
        selector = selector_of(budget.spec.selector)
    except InvalidSelector:
        return False
    return any(selector.matches(pod.metadata.labels) for pod in pods)


def _budget(budget: PodDisruptionBudget) -> Say:
    spec, status = budget.spec, budget.status
    values = {
        "minAvailable": spec.min_available,
        "maxUnavailable": spec.max_unavailable,
        "disruptionsAllowed": status.disruptions_allowed,
        "healthy": status.current_healthy,
        "desired": status.desired_healthy,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return Say("PodDisruptionBudget", budget.metadata.name, given)


def _item(item: LimitRangeItem) -> dict[str, Any]:
    bounds = {name: dict(getattr(item, field)) for field, name in _BOUNDS.items()}
    return {"type": item.type, **{name: amounts for name, amounts in bounds.items() if amounts}}


def _admission(evidence: Evidence) -> Iterator[Say]:
    """Whoever sizes the pods that come after evictions."""
    namespace, name = evidence.components.admission_lease
    if evidence.components.heeds_admission and evidence.updated.sized is not None:
        lease = evidence.collected.leases.get(namespace, name)
        renewed = moment_text(lease.spec.renew_time) if lease is not None else ""
        yield Say("AdmissionController", f"{namespace}/{name}", {"renewed": renewed, "there": evidence.updated.sized})
