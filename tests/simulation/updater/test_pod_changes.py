"""Changes of running pods in the whole simulator: in place before evictions, and only in permitted directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.worlds.simulated_cluster import GIB, container, container_demand, workload
from support.worlds.simulated_workloads import SimulatedRun, vpa
from trellis.sim.fleet import ContainerDemand, StartProfile

STEPS = 72
STEP = 1800.0
FALL = 24
UP_ONLY = [
    {"resources": [resource], "changeRequirement": "TargetHigherThanOrEqualToRequests"}
    for resource in ("cpu", "memory")
]


def falling() -> ContainerDemand:
    """A day and a half: little, then much, then little again for so long that it is forgotten."""
    busy = (np.arange(STEPS) >= 8) & (np.arange(STEPS) < FALL)
    return container_demand(np.where(busy, 1.5, 0.3), np.where(busy, 3.0, 0.8) * GIB, steps=STEPS)


def played(mode: str, replicas: int = 3, settings: dict[str, str] | None = None, **more: Any) -> SimulatedRun:
    requirements = more.pop("requirements", None)
    policy: dict[str, Any] = {"updatePolicy": {"actuationRequirements": requirements}} if requirements else {}
    app = container(cpu="500m", memory="1Gi", **more.pop("app", {}))
    web = workload("web", replicas, app, demand=(falling(),), **more)
    quick = {"cpu-histogram-decay-half-life": "1h", "memory-histogram-decay-half-life": "1h", **(settings or {})}
    return SimulatedRun(web, vpa(mode, **policy), steps=STEPS, step=STEP, every=2 * STEP, settings=quick)


def lowered(requested: Any) -> bool:
    return bool((np.diff(requested[1:]) < -1e-9).any())


@pytest.mark.req("AR-22")
def test_a_successful_resize_evicts_no_pod_in_either_direction() -> None:
    run = played("InPlaceOrRecreate")
    assert lowered(run.requested())
    assert np.nanmax(run.requested()) > 1.5
    assert run.totals.resizes > 3
    assert run.totals.evictions == 0


@pytest.mark.req("AR-14")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_requirements_allow_scale_up_only(mode: str) -> None:
    free, bound = played(mode), played(mode, requirements=UP_ONLY)
    for resource in ("cpu", "memory"):
        assert lowered(free.requested(resource=resource))
        assert not lowered(bound.requested(resource=resource))
        most = np.nanmax(free.requested(resource=resource))
        assert np.nanmax(bound.requested(resource=resource)) == pytest.approx(most, rel=0.1)


@pytest.mark.req("AR-28")
def test_a_slow_starter_that_is_never_lowered_is_not_evicted_for_it_and_pays_in_requests() -> None:
    slow: dict[str, Any] = {"replicas": 1, "settings": {"min-replicas": "1"}, "start": StartProfile(600.0)}
    free, bound = played("Recreate", **slow), played("Recreate", requirements=UP_ONLY, **slow)
    fall = FALL * STEP
    assert any(time > fall for time in free.marks("evicted"))
    assert not any(time > fall for time in bound.marks("evicted"))
    assert bound.totals.slack.cpu > free.totals.slack.cpu
    assert bound.totals.money > free.totals.money
