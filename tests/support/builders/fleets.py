"""Small fleets made by hand, for tests and measurements of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import (
    ContainerDemand,
    Fault,
    Fleet,
    Intervals,
    NodeShape,
    SimulatedWorkload,
    SimulationClock,
    StartProfile,
    Variant,
)

BEGIN = 1_700_006_400.0
MIB = 2.0**20

FIXED = Variant("fixed", "Fixed requests")


def nodes(count: int = 3, cpu: str = "16", memory: str = "64Gi") -> NodeShape:
    """So many nodes alike."""
    document = {"apiVersion": "v1", "kind": "Node", "status": {"capacity": {"cpu": cpu, "memory": memory}}}
    return NodeShape("node", count, document, price=0.5)


def vpa(
    name: str, mode: str = "Recreate", *, namespace: str = "shop", kind: str = "Deployment", **spec: Any
) -> dict[str, Any]:
    """A VPA for the workload of its name."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
            "updatePolicy": {"updateMode": mode},
            **spec,
        },
    }


def template(requested_memory: str = "1Gi", *, limits: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod template with one container, which asks for a core and so much memory."""
    resources: dict[str, Any] = {"requests": {"cpu": "1", "memory": requested_memory}}
    if limits:
        resources["limits"] = limits
    return {"spec": {"containers": [{"name": "app", "resources": resources}]}}


def workload(
    name: str,
    cpu: FloatColumn,
    memory: FloatColumn | None = None,
    *,
    replicas: int = 3,
    namespace: str = "shop",
    spread: float = 0.0,
    start: StartProfile = StartProfile(),  # noqa: B008 - frozen
    **template_fields: Any,
) -> SimulatedWorkload:
    """A Deployment with one container."""
    held = memory if memory is not None else np.full(len(cpu), 200 * MIB)
    demand = ContainerDemand("app", cpu, held, spread=spread)
    return SimulatedWorkload(namespace, name, "Deployment", replicas, template(**template_fields), (demand,), start)


def fleet(
    workloads: Sequence[SimulatedWorkload],
    variants: Sequence[Variant] = (FIXED,),
    *,
    steps: int,
    step: float = 60.0,
    warm_up: int = 0,
    interval: float = 60.0,
    shapes: Sequence[NodeShape] | None = None,
    faults: Sequence[Fault] = (),
    seed: int = 7,
) -> Fleet:
    """A fleet of these workloads."""
    return Fleet(
        name="made by hand",
        seed=seed,
        clock=SimulationClock(BEGIN, step, steps, BEGIN + warm_up * step),
        intervals=Intervals(interval, 60.0),
        nodes=tuple(shapes) if shapes is not None else (nodes(),),
        workloads=tuple(workloads),
        variants=tuple(variants),
        faults=tuple(faults),
    )
