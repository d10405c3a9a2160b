"""Sentences about other objects that affect the outcome: HPAs, PDBs, LimitRanges, quotas, Buffers, freezes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.document import InfluencePart
from trellis.reports.text.phrases import join_words
from trellis.reports.text.quantities import format_moment, format_quantities, resource_word

BUDGET: Final = "PodDisruptionBudget"


def related_object_sentence(say: InfluencePart, now: str) -> str:
    """How one object bears on the decision."""
    return _SENTENCES[say.kind](say, now)


def _hpa(say: InfluencePart, _now: str) -> str:
    values = say.values
    metrics = join_words(values["metrics"]) or "no metric that is known"
    by = values["byUtilizationOf"]
    resources = join_words([resource_word(resource) for resource in by])
    clash = f"; it looks at {resources} as a share of requests, so that a new one moves its scale point" if by else ""
    range_ = f"between {values['minReplicas']} and {values['maxReplicas']} replicas, {values['replicas']} now"
    return f"HPA {say.name} scales the same workload by {metrics}, {range_}{clash}."


def _budget(say: InfluencePart, _now: str) -> str:
    values = say.values
    bounds = [f"{name} {values[name]}" for name in ("minAvailable", "maxUnavailable") if name in values]
    allowed = pluralize(values["disruptionsAllowed"], "disruption")
    healthy = f"{pluralize(values['healthy'], 'pod')} healthy, and {values['desired']} must be"
    return f"PodDisruptionBudget {say.name} ({join_words(bounds)}) allows {allowed} now: {healthy}."


def _limits(say: InfluencePart, _now: str) -> str:
    parts = [
        f"{item['type']} {name} {format_quantities(bounds)}"
        for item in say.values["limits"]
        for name, bounds in item.items()
        if isinstance(bounds, Mapping)
    ]
    return f"LimitRange {say.name}: {'; '.join(parts)}."


def _quota(say: InfluencePart, _now: str) -> str:
    hard: Mapping[str, Any] = say.values["hard"]
    used: Mapping[str, Any] = say.values["used"]
    parts = [f"{used.get(name, 0)} of {most} {name}" for name, most in hard.items()]
    return f"ResourceQuota {say.name}: {', '.join(parts)} used."


def _buffer(say: InfluencePart, _now: str) -> str:
    chunks = pluralize(say.values["chunks"], "chunk")
    if say.values["sameTarget"]:
        return f"Buffer {say.name} is about the same target, and keeps {chunks} of its own."
    return f"Buffer {say.name} is older, and had its {chunks} of the quotas first."


def _freeze(say: InfluencePart, _now: str) -> str:
    reason = f": {say.values['why']}" if say.values.get("why") else ""
    return f"The {say.name} is frozen by {say.values['by']}{reason}. No running pod is changed until that is lifted."


def _admission(say: InfluencePart, now: str) -> str:
    renewed = say.values["renewed"]
    when = f"renewed at {format_moment(renewed, now)}" if renewed else "never renewed"
    there = "New pods are sized" if say.values["there"] else "Nobody sizes new pods"
    return f"{there}: the Lease {say.name} of the admission controller was {when}."


_SENTENCES: Final = {
    "HorizontalPodAutoscaler": _hpa,
    BUDGET: _budget,
    "LimitRange": _limits,
    "ResourceQuota": _quota,
    "Buffer": _buffer,
    "Freeze": _freeze,
    "AdmissionController": _admission,
}
