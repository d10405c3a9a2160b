"""Measures a simulation in which the core decides everything, and how it grows with pods and steps.

A fleet of workloads with five pods each, usage at one minute, decisions every ten minutes, VPAs that evict. Usage has a
rhythm of a day, noise, and for some a level that changes now and then, so that recommendations move and pods change.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from bench.measurement import Row
from bench.process_usage import peak_megabytes
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import ContainerDemand, Fleet, Intervals, NodeShape, SimulatedWorkload, SimulationClock, Variant
from trellis.sim.run import run_variant

BAR_SECONDS = 240.0
DAY = 1440  # steps of a minute
PODS = 5
_BEGIN = 1_780_272_000.0
_IN_NAMESPACE = 20
_MIB = 2.0**20


def measure() -> list[Row]:
    """The bar, what decisions every minute cost, and how time grows."""
    seconds = run(1_000, 7)
    rows = [
        Row(
            f"closed loop: 1,000 workloads x {PODS} pods x 7 days, decisions every 10 min",
            f"{seconds:,.0f} s",
            bar=f"<= {BAR_SECONDS:.0f} s",
            met=seconds <= BAR_SECONDS,
        ),
        Row("closed loop: most memory so far", f"{peak_megabytes(os.getpid()):,.0f} MB"),
        Row("closed loop: 1,000 workloads, one day, decisions every minute", f"{run(1_000, 1, every=60.0):,.0f} s"),
    ]
    once = run(250, 1)
    for what, workloads, days in (
        ("twice the pods", 500, 1),
        ("four times the pods", 1_000, 1),
        ("twice the steps", 250, 2),
    ):
        more = run(workloads, days)
        rows.append(
            Row(
                f"closed loop: {what} of 250 workloads in a day",
                f"{more:,.1f} s",
                f"{once:,.1f} s",
                f"{more / once:.1f}x",
            )
        )
    return rows


def run(workloads: int, days: int, *, every: float = 600.0) -> float:
    """Processor seconds of one run."""
    fleet = fleet_of(workloads, days, every)
    begin = time.process_time()
    run_variant(fleet, fleet.variants[0])
    return time.process_time() - begin


def fleet_of(workloads: int, days: int, every: float) -> Fleet:
    """A seeded fleet."""
    rng = np.random.default_rng(20)
    made = tuple(_workload(number, days * DAY, rng) for number in range(workloads))
    node = {"status": {"capacity": {"cpu": "64", "memory": "256Gi"}}}
    return Fleet(
        name="closed loop",
        seed=1,
        clock=SimulationClock(_BEGIN, 60.0, days * DAY, _BEGIN),
        intervals=Intervals(every, 60.0),
        nodes=(NodeShape("node", max(2, workloads * PODS // 60), node),),
        workloads=made,
        variants=(Variant("default", objects=tuple(map(_vpa, made))),),
    )


def _workload(number: int, steps: int, rng: np.random.Generator) -> SimulatedWorkload:
    size = float(rng.lognormal(-2.0, 1.0))
    demand = ContainerDemand("app", _cpu(size, number, steps, rng), _memory(steps, rng), spread=0.1)
    request = f"{max(10, round(size * 2000))}m"
    container = {"name": "app", "resources": {"requests": {"cpu": request, "memory": "1Gi"}}}
    return SimulatedWorkload(
        namespace=f"team-{number // _IN_NAMESPACE}",
        name=f"app-{number}",
        kind="Deployment",
        replicas=PODS,
        template={"spec": {"containers": [container]}},
        demand=(demand,),
    )


def _cpu(size: float, number: int, steps: int, rng: np.random.Generator) -> FloatColumn:
    minutes = np.arange(steps)
    rhythm = 1.0 + 0.5 * np.sin(2.0 * np.pi * (minutes / DAY + rng.random()))
    level = np.ones(steps)
    if number % 10 == 0:
        # A new version now and then that needs more, or less.
        level = np.exp(0.3 * np.cumsum(rng.standard_normal(steps // DAY + 1)))[minutes // DAY]
    cpu: FloatColumn = size * rhythm * level * rng.lognormal(0.0, 0.2, steps)
    return cpu


def _memory(steps: int, rng: np.random.Generator) -> FloatColumn:
    memory: FloatColumn = rng.uniform(100.0, 900.0) * _MIB * rng.lognormal(0.0, 0.05, steps)
    return memory


def _vpa(workload: SimulatedWorkload) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name}},
    }
