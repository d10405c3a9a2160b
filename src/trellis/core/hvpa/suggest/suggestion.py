"""Suggests an Hvpa for a workload, as a manifest that can be applied, with its cost beside that of what runs.

The HPA of the manifest keeps CPU at its target, within minutes. Its VPA sizes memory alone: what a VPA says of CPU is
what busy hours need, and the higher of both would count in quiet ones too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.registry import HVPA
from trellis.api.resolve import resolve_hvpa
from trellis.base.prices import Prices
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.core.hvpa.suggest.buckets import (
    BucketProposal,
    FewestReason,
    LargestReason,
    ProposedBucket,
    propose_buckets,
)
from trellis.core.hvpa.suggest.history import ObservedHpa, SuggestionRules, WorkloadHistory, WorkloadUsageHistory
from trellis.core.hvpa.suggest.replay import (
    ReplayCost,
    compute_replay_cost,
    replay_as_observed,
    replay_buckets,
    replay_hpa,
)
from trellis.core.hvpa.suggest.suitability import NO_SAVINGS, REPLICA_TOO_LARGE, find_unsuitable
from trellis.core.hvpa.view import ResolvedHvpa

Document = dict[str, Any]


def build_manifest(workload: WorkloadHistory, proposal: BucketProposal, rules: SuggestionRules) -> Document:
    """The manifest of the proposed Hvpa."""
    target = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    policy = {"containerName": "*", "controlledResources": ["memory"]}
    return {
        "apiVersion": HVPA.api_version,
        "kind": HVPA.name,
        "metadata": {"name": workload.hvpa or workload.name, "namespace": workload.namespace},
        "spec": {
            "targetRef": target,
            "hpa": {"deploy": True, "template": {"spec": _hpa(workload, proposal, rules)}},
            "vpa": {"deploy": True, "template": {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}},
            "buckets": [_bucket(bucket) for bucket in proposal.buckets],
        },
    }


def _hpa(workload: WorkloadHistory, proposal: BucketProposal, rules: SuggestionRules) -> Document:
    """Twice as many as the last count, so that it can still ask for more than there may be."""
    target = {"type": "Utilization", "averageUtilization": round(100 * workload.find_utilization(rules))}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return {"minReplicas": 1, "maxReplicas": 2 * proposal.most, "metrics": [metric]}


def _bucket(bucket: ProposedBucket) -> Document:
    sizes = {
        resource: {"min": _quantity(resource, low), "max": _quantity(resource, high)}
        for resource, low, high in zip(("cpu", "memory"), bucket.least, bucket.largest, strict=True)
    }
    return {"replicas": {"min": bucket.first, "max": bucket.last}, **sizes}


def _quantity(resource: str, amount: float) -> str:
    rounded = int(amount)
    return str(Quantity.from_milli(rounded) if resource == "cpu" else Quantity.from_units(rounded, binary=True))


class Suggestion(msgspec.Struct, frozen=True):
    """Buckets for a workload, or the reason why there are none; `manifest` is empty then.

    `now` is what it has cost, `by_hpa` what its HPA alone would, and `by_buckets` what the proposed Hvpa would. The
    HPA's is missing where it does not go by the CPU of whole pods.
    """

    reason: Reason | None = None
    proposal: BucketProposal | None = None
    manifest: dict[str, Any] = {}
    days: float = 0.0
    utilization: float = 0.0
    now: ReplayCost | None = None
    by_hpa: ReplayCost | None = None
    by_buckets: ReplayCost | None = None


def suggest(workload: WorkloadHistory, rules: SuggestionRules, prices: Prices) -> Suggestion:
    """What is proposed for one workload."""
    days = workload.usage.complete_samples.seconds / 86_400.0
    reason = find_unsuitable(workload, rules)
    if reason is not None:
        return Suggestion(reason, days=days)
    proposal = propose_buckets(workload, rules)
    if proposal is None:
        return Suggestion(REPLICA_TOO_LARGE, days=days)
    document = build_manifest(workload, proposal, rules)
    meaning = ResolvedHvpa.from_effective(resolve_hvpa(msgspec.convert(document, Hvpa)))
    history, base = workload.usage.complete_samples, proposal.base.memory
    observed = compute_replay_cost(history, replay_as_observed(workload), prices)
    proposed = compute_replay_cost(history, replay_buckets(workload, meaning, base, rules), prices)
    is_gain = _is_better(proposed, observed)
    return Suggestion(
        reason=None if is_gain else NO_SAVINGS,
        proposal=proposal,
        manifest=document if is_gain else {},
        days=days,
        utilization=workload.find_utilization(rules),
        now=observed,
        by_hpa=_compute_hpa_cost(workload, base, prices),
        by_buckets=proposed,
    )


def _is_better(proposed: ReplayCost, observed: ReplayCost) -> bool:
    """Cheaper, or less often too little."""
    return proposed.money < observed.money or max(proposed.cpu_over, proposed.memory_over) < max(
        observed.cpu_over, observed.memory_over
    )


def _compute_hpa_cost(workload: WorkloadHistory, base: float, prices: Prices) -> ReplayCost | None:
    hpa = workload.hpa
    if hpa is None or not hpa.utilization > 0 or not (workload.request[0] > 0 and workload.request[1] > 0):
        return None
    return compute_replay_cost(workload.usage.complete_samples, replay_hpa(workload, hpa, base), prices)


__all__ = [
    "BucketProposal",
    "FewestReason",
    "LargestReason",
    "ObservedHpa",
    "ProposedBucket",
    "ReplayCost",
    "Suggestion",
    "SuggestionRules",
    "WorkloadHistory",
    "WorkloadUsageHistory",
    "suggest",
]
