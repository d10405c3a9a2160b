"""Measures whether an Hvpa serves better than a VPA alone, and costs less than an HPA alone.

Four loads that are driven by requests, a week of each in the simulator: with the day, with working hours, with bursts
and in steps. All of a load is shared by the pods that are Ready, and every pod has memory of its own beside it. Each
load is served by an HPA alone, a VPA alone, both side by side on CPU, and an Hvpa whose CPU comes from an HPA and whose
memory from a VPA. A fifth has its CPU from the VPA too, for comparison.

Bursts bring memory here. A VPA keeps it for days, and the pods of an HPA take theirs along when they go, so that an
Hvpa costs more there: that is reported, and has no bar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.measurement import Row
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import (
    ContainerDemand,
    Fleet,
    Intervals,
    NodeShape,
    SimulatedWorkload,
    SimulationClock,
    StartProfile,
    Variant,
)
from trellis.sim.results import SimulationTotals
from trellis.sim.run import simulate

_BEGIN = 1_780_272_000.0  # a Monday
_DAY = 1440  # steps of a minute
_DAYS = 8
_PERCENT = 70
_FIXED = 4
_BRINGS_MEMORY = "spiky"
_CORE_MEMORY, _POD_MEMORY = 300e6, 400e6


def measure() -> list[Row]:
    """The bars, and what else there is to know of each load."""
    totals = measured(_DAYS)
    rows: list[Row] = []
    for load in loads(_DAY):
        hpa, vpa, both, ours, by_vpa = (totals[name][load] for name in ("hpa", "vpa", "both", "hvpa", "hvpa-vpa"))
        served = round(ours.scaled.overload, 1) <= round(vpa.scaled.overload, 1)
        bar, cheaper = ("less", ours.money < hpa.money) if load != _BRINGS_MEMORY else ("-", None)
        rows += [
            Row(f"{load} load: overload, against a VPA alone", *_overloads(ours, vpa), bar="no more", met=served),
            Row(f"{load} load: cost, against an HPA alone", *_costs(ours, hpa), bar=bar, met=cheaper),
            Row(f"{load} load: overload, against an HPA alone", *_overloads(ours, hpa)),
            Row(f"{load} load: cost, against a VPA alone", *_costs(ours, vpa)),
            Row(f"{load} load: overload, against both side by side", *_overloads(ours, both)),
            Row(f"{load} load: cost, against both side by side", *_costs(ours, both)),
            Row(f"{load} load: changes of count / of pods, against an HPA", _changes(ours), _changes(hpa)),
            Row(f"{load} load: changes of count / of pods, against both", _changes(ours), _changes(both)),
            Row(f"{load} load: overload with CPU from the VPA too", *_overloads(by_vpa, vpa)),
            Row(f"{load} load: cost with CPU from the VPA too", *_costs(by_vpa, hpa)),
        ]
    return rows


def measured(days: int) -> dict[str, dict[str, SimulationTotals]]:
    """What came of each load, by variant and load; the first day is for learning."""
    result = simulate(fleet_of(days), processes=2)
    return {
        variant.name: {workload.name: workload.totals for workload in variant.workloads} for variant in result.variants
    }


def fleet_of(days: int) -> Fleet:
    """The loads and all ways to serve them."""
    steps = days * _DAY
    node = {"status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}}}
    return Fleet(
        name="Hvpa loads",
        seed=1,
        clock=SimulationClock(_BEGIN, 60.0, steps, _BEGIN + 86400.0),
        intervals=Intervals(recommender=300.0, updater=300.0),
        nodes=(NodeShape("node", 4, node),),
        workloads=tuple(_workload(name, cores) for name, cores in loads(steps).items()),
        variants=tuple(Variant(name, objects=tuple(_objects(name))) for name in _MADE),
    )


def loads(steps: int) -> dict[str, FloatColumn]:
    """Cores that the whole workload wants, for each minute."""
    rng = np.random.default_rng(8)
    minute = np.arange(steps)
    hour = minute / 60.0 % 24.0
    busy = np.clip(np.minimum(hour - 7.5, 18.5 - hour), 0.0, 1.0) * (minute // _DAY % 7 < 5)
    bursts = np.zeros(steps)
    for begin in np.flatnonzero(rng.random(steps) < 6 / _DAY).tolist():
        bursts[begin : begin + 1 + int(rng.exponential(15.0))] += 8.0 * float(rng.lognormal(0.0, 0.3))
    made = {
        "daily": 6.5 - 5.5 * np.cos(2.0 * np.pi * (hour - 2.0) / 24.0),
        "weekly": 1.0 + 9.0 * busy,
        "spiky": 2.0 + np.minimum(bursts, 16.0),
        "step": np.where(minute // (_DAY * 3 // 2) % 2 == 0, 2.0, 10.0),
    }
    return {name: column * rng.lognormal(0.0, 0.05, steps) for name, column in made.items()}


def _workload(name: str, cores: FloatColumn) -> SimulatedWorkload:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1500m"}}
    return SimulatedWorkload(
        namespace="loads",
        name=name,
        kind="Deployment",
        replicas=_FIXED,
        template={"spec": {"containers": [{"name": "app", "resources": resources}]}},
        demand=(ContainerDemand("app", cores, cores * _CORE_MEMORY, shared=True, base_memory=_POD_MEMORY),),
        start=StartProfile(20.0),
    )


def _objects(variant: str) -> list[dict[str, Any]]:
    return [document for name in loads(1) for document in _MADE[variant](name)]


def _target(name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def _made(api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "loads"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


_METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": _PERCENT}},
    }
]


def _hpa(name: str) -> list[dict[str, Any]]:
    spec = {"scaleTargetRef": _target(name), "minReplicas": 2, "maxReplicas": 30, "metrics": _METRICS}
    return [_made("autoscaling/v2", "HorizontalPodAutoscaler", name, spec)]


def _vpa(name: str) -> list[dict[str, Any]]:
    spec = {"targetRef": _target(name), "updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
    return [_made("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", name, spec)]


def _hvpa(name: str, *, cpu_from_vpa: bool = False) -> list[dict[str, Any]]:
    policy = {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}
    bucket = {
        "replicas": {"min": 2, "max": 8},
        "cpu": {"min": "250m", "max": "4"},
        "memory": {"min": "256Mi", "max": "4Gi"},
    }
    spec = {
        "targetRef": _target(name),
        "vpa": {"template": {"spec": {} if cpu_from_vpa else {"resourcePolicy": policy}}},
        "buckets": [bucket],
    }
    hpa = {} if cpu_from_vpa else {"hpa": {"template": {"spec": {"minReplicas": 1, "metrics": _METRICS}}}}
    return [_made("autoscaling.x-k8s.io/v1alpha1", "Hvpa", name, spec | hpa)]


_MADE: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "hpa": _hpa,
    "vpa": _vpa,
    "both": lambda name: [*_hpa(name), *_vpa(name)],
    "hvpa": _hvpa,
    "hvpa-vpa": lambda name: _hvpa(name, cpu_from_vpa=True),
}


def _overloads(ours: SimulationTotals, peer: SimulationTotals) -> tuple[str, str, str]:
    mine, theirs = ours.scaled.overload, peer.scaled.overload
    return f"{mine:,.1f} core-hours", f"{theirs:,.1f}", _ratio(mine, theirs)


def _costs(ours: SimulationTotals, peer: SimulationTotals) -> tuple[str, str, str]:
    return f"{ours.money:,.2f} USD", f"{peer.money:,.2f}", _ratio(ours.money, peer.money)


def _changes(totals: SimulationTotals) -> str:
    return f"{totals.scaled.scalings:,} / {totals.resizes + totals.evictions:,}"


def _ratio(ours: float, peer: float) -> str:
    return f"{ours / peer:.2f}x" if peer else "-"
