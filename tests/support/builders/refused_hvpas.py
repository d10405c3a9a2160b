"""Hvpas that are refused: each rule once, with the field that the message names."""

from __future__ import annotations

from typing import Any

import msgspec

from support.builders.manifests import STORY_1, bucket


class Refusal(msgspec.Struct, frozen=True):
    """An Hvpa's spec, but for its target; the field that is wrong, and whether the CRD says so too."""

    field: str
    spec: dict[str, Any]
    in_crd: bool = True


def _bucket(**change: Any) -> dict[str, Any]:
    return {"buckets": [{**STORY_1, **change}]}


def _hpa(**spec: Any) -> dict[str, Any]:
    return {"buckets": [STORY_1], "hpa": {"template": {"spec": spec}}}


def _vpa(**spec: Any) -> dict[str, Any]:
    return {"buckets": [STORY_1], "vpa": {"template": {"spec": spec}}}


_UP = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
_SMALL, _FALLING = bucket((1, 2), ("1", "10"), ("4G", "10G")), bucket((3, 4), ("1", "2"), ("4G", "20G"))

REFUSALS = {
    "no bucket": Refusal("spec.buckets", {"buckets": []}),
    "seventeen buckets": Refusal("spec.buckets", {"buckets": [bucket((n, n), (n, n), (n, n)) for n in range(1, 18)]}),
    "overlapping replicas": Refusal("spec.buckets", {"buckets": [_SMALL, bucket((2, 4), ("5", "10"), ("4G", "10G"))]}),
    "descending replicas": Refusal("spec.buckets", {"buckets": [bucket((3, 4), ("1", "2"), ("1G", "2G")), _SMALL]}),
    "no replica": Refusal("spec.buckets[0].replicas.min", _bucket(replicas={"min": 0, "max": 8})),
    "fewest above most": Refusal("spec.buckets[0].replicas", _bucket(replicas={"min": 3, "max": 2})),
    "least above most CPU": Refusal("spec.buckets[0].cpu", _bucket(cpu={"min": "2", "max": "1999m"})),
    "least above most memory": Refusal("spec.buckets[0].memory", _bucket(memory={"min": "1Gi", "max": "1G"})),
    "negative CPU": Refusal("spec.buckets[0].cpu.min", _bucket(cpu={"min": "-1", "max": "1"})),
    "an amount that is none": Refusal("spec.buckets[0].memory.max", _bucket(memory={"min": "1G", "max": "2 GB"})),
    "falling maxima": Refusal("spec.buckets[1].cpu.max", {"buckets": [_SMALL, _FALLING]}, in_crd=False),
    "falling minima": Refusal(
        "spec.buckets[1].memory.min",
        {"buckets": [_SMALL, bucket((3, 4), ("1", "20"), ("1G", "20G"))]},
        in_crd=False,
    ),
    "an HPA with a high minimum": Refusal("spec.hpa.template.spec.minReplicas", _hpa(minReplicas=2, maxReplicas=16)),
    "an HPA with a low maximum": Refusal("spec.hpa.template.spec.maxReplicas", _hpa(maxReplicas=7)),
    "an HPA with a target": Refusal(
        "spec.hpa.template.spec", _hpa(scaleTargetRef={"kind": "Deployment", "name": "web"})
    ),
    "a VPA with a target": Refusal("spec.vpa.template.spec", _vpa(targetRef={"kind": "Deployment", "name": "web"})),
    "a VPA with a mode": Refusal("spec.vpa.template.spec.updatePolicy", _vpa(updatePolicy={"updateMode": "Off"})),
    "a VPA with eviction requirements": Refusal(
        "spec.vpa.template.spec.updatePolicy", _vpa(updatePolicy={"evictionRequirements": [_UP]})
    ),
    "a VPA that evicts after kills": Refusal(
        "spec.vpa.template.spec.updatePolicy", _vpa(updatePolicy={"evictAfterOOMSeconds": 5})
    ),
    "two requirements of a resource": Refusal(
        "spec.vpa.template.spec.updatePolicy", _vpa(updatePolicy={"actuationRequirements": [_UP, _UP]})
    ),
    "a mode that is none": Refusal(
        "spec.scaleUp.updateMode", {"buckets": [STORY_1], "scaleUp": {"updateMode": "Initial"}}
    ),
    "more than all of it": Refusal(
        "spec.scaleDown.overlapPercent", {"buckets": [STORY_1], "scaleDown": {"overlapPercent": 101}}
    ),
    "a time that is none": Refusal(
        "spec.maintenanceWindow.begin",
        {"buckets": [STORY_1], "maintenanceWindow": {"begin": "250000-0000", "end": "230000-0000"}},
    ),
}
