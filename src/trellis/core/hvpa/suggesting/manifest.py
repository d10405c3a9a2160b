"""Which Hvpa has these buckets? A manifest that can be applied as it is.

Its HPA keeps CPU where it is to be, within minutes. Its VPA looks after memory alone: what it says of CPU is what busy
hours need, and the higher of both would count in quiet ones too.
"""

from __future__ import annotations

from typing import Any

from trellis.api.kinds import HVPA
from trellis.base.quantity import Quantity
from trellis.core.hvpa.suggesting.laying import Rung
from trellis.core.hvpa.suggesting.lived import LivedWorkload, SuggestingRules
from trellis.core.hvpa.suggesting.rungs import Rungs

Document = dict[str, Any]


def hvpa_manifest(workload: LivedWorkload, found: Rungs, rules: SuggestingRules) -> Document:
    """The whole object."""
    target = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    policy = {"containerName": "*", "controlledResources": ["memory"]}
    return {
        "apiVersion": HVPA.api_version,
        "kind": HVPA.name,
        "metadata": {"name": workload.hvpa or workload.name, "namespace": workload.namespace},
        "spec": {
            "targetRef": target,
            "hpa": {"deploy": True, "template": {"spec": _hpa(workload, found, rules)}},
            "vpa": {"deploy": True, "template": {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}},
            "buckets": [_bucket(each) for each in found.buckets],
        },
    }


def _hpa(workload: LivedWorkload, found: Rungs, rules: SuggestingRules) -> Document:
    """Twice as many as the last count, so that it can still ask for more than there may be."""
    target = {"type": "Utilization", "averageUtilization": round(100 * workload.utilization(rules))}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return {"minReplicas": 1, "maxReplicas": 2 * found.most, "metrics": [metric]}


def _bucket(rung: Rung) -> Document:
    sizes = {
        resource: {"min": _quantity(resource, low), "max": _quantity(resource, high)}
        for resource, low, high in zip(("cpu", "memory"), rung.least, rung.largest, strict=True)
    }
    return {"replicas": {"min": rung.first, "max": rung.last}, **sizes}


def _quantity(resource: str, amount: float) -> str:
    whole = int(amount)
    return str(Quantity.from_milli(whole) if resource == "cpu" else Quantity.from_units(whole, binary=True))
