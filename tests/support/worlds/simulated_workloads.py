"""One workload, its autoscaler, and the whole simulator: what became of its requests and its pods over time."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from support.worlds.simulated_cluster import BEGIN, Document, fleet, shape
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import Fault, Intervals, SimulatedWorkload, Variant
from trellis.sim.results import SimulationTotals
from trellis.sim.run import run_variant

ROOMY = (shape("64", "256Gi", count=2),)


class SimulatedRun:
    """A simulated run. Columns have one entry for each step, as long as there are no more than a chart has points."""

    def __init__(self, target: SimulatedWorkload, vpa: Document, **more: Any) -> None:
        steps, step = more.pop("steps"), more.pop("step", 1.0)
        faults: tuple[Fault, ...] = more.pop("faults", ())
        interval = more.pop("every", 10.0)
        settings, nodes = more.pop("settings", {}), more.pop("nodes", ROOMY)
        others: tuple[SimulatedWorkload, ...] = more.pop("others", ())
        also: tuple[Document, ...] = more.pop("also", ())
        simulated = fleet(target, *others, nodes=nodes, steps=steps, step=step, faults=faults)
        simulated = msgspec.structs.replace(simulated, intervals=Intervals(interval, interval))
        result = run_variant(simulated, Variant("only", objects=(vpa, *also), settings=settings, **more))
        chart = result.workloads[0].chart
        assert chart is not None
        self.chart = chart
        self.verdicts = result.verdicts
        self.totals: SimulationTotals = result.workloads[0].totals
        self.times: FloatColumn = np.array(chart.times) - BEGIN

    def requested(self, container: str = "app", resource: str = "cpu") -> FloatColumn:
        """Of a pod on average, in cores or bytes; NaN while nothing runs."""
        return np.array(self._find_chart(container, resource).requested)

    def target(self, container: str = "app", resource: str = "cpu") -> FloatColumn:
        return np.array(self._find_chart(container, resource).target)

    def pods(self) -> FloatColumn:
        """How many run."""
        return np.array(self.chart.pods)

    def last(self, amount: float, container: str = "app") -> float:
        """When a container last requested so many cores."""
        return float(self.times[np.isclose(self.requested(container), amount)][-1])

    def marks(self, kind: str) -> list[float]:
        return [mark.time - BEGIN for mark in self.chart.marks if mark.what == kind]

    def _find_chart(self, container: str, resource: str) -> Any:
        return next(chart for chart in self.chart.lines if (chart.container, chart.resource) == (container, resource))


def vpa(mode: str | None = None, *, target: str = "web", **spec: Any) -> Document:
    policy = {**({"updateMode": mode} if mode else {}), **spec.pop("updatePolicy", {})}
    reference = {"apiVersion": "apps/v1", "kind": spec.pop("kind", "Deployment"), "name": target}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": target, "namespace": "shop"},
        "spec": {"targetRef": reference, **({"updatePolicy": policy} if policy else {}), **spec},
    }


def hvpa(*buckets: Document, kind: str = "Deployment", **spec: Any) -> Document:
    """An Hvpa of the workload `web`."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Hvpa",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"targetRef": reference, "buckets": list(buckets), **spec},
    }


def by_utilization(percent: int, resource: str = "cpu") -> Document:
    """The source of an Hvpa: an HPA on utilization."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"template": {"spec": {"metrics": [{"type": "Resource", "resource": {"name": resource, "target": target}}]}}}


def hpa(percent: int, name: str = "web", *, target_kind: str = "Deployment", **spec: Any) -> Document:
    """An HPA on the utilization of CPU: of the workload `web`, or of the Hvpa of that name."""
    versions = {"Hvpa": "autoscaling.x-k8s.io/v1alpha1"}
    reference = {"apiVersion": versions.get(target_kind, "apps/v1"), "kind": target_kind, "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"scaleTargetRef": reference, **by_utilization(percent)["template"]["spec"], **spec},
    }


def fixed(cpu: str, memory: str = "1Gi") -> Document:
    """A policy under which nothing else is recommended."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"containerPolicies": [{"containerName": "*", "minAllowed": amounts, "maxAllowed": amounts}]}
