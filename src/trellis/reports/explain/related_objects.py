"""Sentences about other objects that affect the outcome: HPAs, PDBs, LimitRanges, quotas, Buffers, freezes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.document import InfluencePart
from trellis.reports.text.phrases import join_words
from trellis.reports.text.quantities import format_moment, format_quantities, get_resource_word

BUDGET: Final = "PodDisruptionBudget"


def describe_related_object(influence: InfluencePart, now: str) -> str:
    """The effect of one object on the decision."""
    return _SENTENCES[influence.kind](influence, now)


def _describe_hpa(influence: InfluencePart, _now: str) -> str:
    values = influence.values
    metrics = join_words(values["metrics"]) or "no metric that is known"
    by = values["byUtilizationOf"]
    resources = join_words([get_resource_word(resource) for resource in by])
    clash = (
        f"; it targets utilization of {resources}, so a new request changes the usage at which it scales" if by else ""
    )
    range_ = f"between {values['minReplicas']} and {values['maxReplicas']} replicas, {values['replicas']} now"
    return f"HPA {influence.name} scales the same workload by {metrics}, {range_}{clash}."


def _describe_budget(influence: InfluencePart, _now: str) -> str:
    values = influence.values
    bounds = [f"{name} {values[name]}" for name in ("minAvailable", "maxUnavailable") if name in values]
    allowed = pluralize(values["disruptionsAllowed"], "disruption")
    healthy = f"{values['healthy']} healthy pods, {values['desired']} required"
    return f"PodDisruptionBudget {influence.name} ({join_words(bounds)}) allows {allowed} now: {healthy}."


def _describe_limits(influence: InfluencePart, _now: str) -> str:
    parts = [
        f"{item['type']} {name} {format_quantities(bounds)}"
        for item in influence.values["limits"]
        for name, bounds in item.items()
        if isinstance(bounds, Mapping)
    ]
    return f"LimitRange {influence.name}: {'; '.join(parts)}."


def _describe_quota(influence: InfluencePart, _now: str) -> str:
    hard: Mapping[str, Any] = influence.values["hard"]
    used: Mapping[str, Any] = influence.values["used"]
    parts = [f"{used.get(name, 0)} of {most} {name}" for name, most in hard.items()]
    return f"ResourceQuota {influence.name}: {', '.join(parts)} used."


def _describe_buffer(influence: InfluencePart, _now: str) -> str:
    chunks = pluralize(influence.values["chunks"], "chunk")
    if influence.values["sameTarget"]:
        return f"Buffer {influence.name} has the same target, and keeps {chunks}."
    return f"Buffer {influence.name} is older, so its {chunks} count against the quotas first."


def _describe_freeze(influence: InfluencePart, _now: str) -> str:
    values = influence.values
    reason = f": {values['why']}" if values.get("why") else ""
    frozen = f"The {influence.name} is frozen by {values['by']}{reason}."
    return f"{frozen} No running pod is changed until the freeze is lifted."


def _describe_admission(influence: InfluencePart, now: str) -> str:
    renewed = influence.values["renewed"]
    when = f"renewed at {format_moment(renewed, now)}" if renewed else "never renewed"
    there = "New pods are sized" if influence.values["there"] else "New pods are not sized"
    return f"{there}: the Lease {influence.name} of the admission controller was {when}."


_SENTENCES: Final = {
    "HorizontalPodAutoscaler": _describe_hpa,
    BUDGET: _describe_budget,
    "LimitRange": _describe_limits,
    "ResourceQuota": _describe_quota,
    "Buffer": _describe_buffer,
    "Freeze": _describe_freeze,
    "AdmissionController": _describe_admission,
}
