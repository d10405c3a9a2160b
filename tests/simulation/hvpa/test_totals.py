"""Where the totals of an Hvpa come from, in the whole simulator: recommender, updater, admission and a model HPA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.builders.manifests import STORY_1, STORY_2
from support.worlds.simulated_cluster import Document, container, container_demand, shape, workload
from support.worlds.simulated_workloads import SimulatedRun, by_utilization, hvpa, vpa
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import StartProfile

GIGA = 1e9
MINUTE = 60.0
NODES = (shape("256", "512Gi", count=2),)
MEMORY_ONLY = {"resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}}
# What a recommendation is above the usage that it is made from, and how much wider a histogram bin may make it.
MARGIN, BIN = 1.15, 1.05


def levels(*parts: tuple[int, float]) -> FloatColumn:
    """So many steps at so much, one after the other."""
    return np.concatenate([np.full(steps, amount) for steps, amount in parts])


def lived(scaled: Document, cpu: FloatColumn, *, replicas: int, size: tuple[str, str], **more: Any) -> SimulatedRun:
    """A Deployment whose pods share a load, with its autoscaler."""
    memory, base, steps = more.pop("memory", GIGA), more.pop("base", 0.0), len(cpu)
    demand = (container_demand(cpu, memory, steps=steps, shared=True, base_memory=base),)
    app, start = container(cpu=size[0], memory=size[1]), StartProfile(more.pop("start", 20.0))
    web = workload("web", replicas, app, demand=demand, start=start)
    return SimulatedRun(web, scaled, steps=steps, step=more.pop("step", MINUTE), every=MINUTE, nodes=NODES, **more)


def at(run: SimulatedRun, step: int) -> tuple[float, float, float]:
    """Count, cores and gigabytes of each at a step."""
    cores, memory = run.requested()[step], run.requested(resource="memory")[step] / GIGA
    return float(run.pods()[step]), round(float(cores), 3), round(float(memory), 3)


@pytest.mark.req("HV-06")
def test_the_total_of_an_hpa_is_what_a_pod_requests_times_its_wish() -> None:
    """24 cores are four of six. The next count holds 12, so that less than 24 would be seen in the size."""
    run = lived(hvpa(STORY_1, hpa=by_utilization(80)), levels((40, 19.2)), replicas=2, size=("6", "4G"))
    assert run.totals.scaled.scalings == 1
    assert at(run, -1)[:2] == (3.0, 8.0)


@pytest.mark.req("HV-06")
@pytest.mark.parametrize("replicas", [2, 3])
def test_the_total_of_a_vpa_is_that_of_the_workload_and_in_a_steady_state_target_times_replicas(replicas: int) -> None:
    """A VPA that has seen two replicas has a target of a half: three of it would be 34.5, and a fourth replica."""
    cpu = levels((240, 20.0))
    run = lived(hvpa(STORY_1, vpa={}), cpu, replicas=replicas, size=("10", "4G"))
    count, cores, _ = at(run, -1)
    assert count == 3.0
    assert 20 * MARGIN <= count * cores <= 20 * MARGIN * BIN
    alone = lived(vpa("Off"), cpu, replicas=3, size=("8", "4G"))
    assert count * cores == pytest.approx(3 * float(alone.target()[-1]), rel=BIN - 1)


@pytest.mark.req("HV-19")
def test_beyond_the_first_bucket_of_story_2_count_and_size_grow_up_to_the_last_one() -> None:
    cpu = levels((60, 0.8), (90, 7.8), (150, 100.0))
    memory = levels((60, 1.5 * GIGA), (90, 6 * GIGA), (150, 200 * GIGA))
    run = lived(hvpa(*STORY_2, vpa={}), cpu, replicas=1, size=("1", "2G"), memory=memory)
    count, cores, size = at(run, 59)
    assert (count, cores <= 1.0, size <= 2.0) == (1.0, True, True), "as long as a core and 2G are enough"
    count, cores, _ = at(run, 149)
    assert count == 3.0, "9.1 cores are more than two replicas hold, and three hold 9.857"
    assert 7.8 * MARGIN <= count * cores <= 7.8 * MARGIN * BIN
    assert at(run, -1) == (8.0, 9.0, 20.0)
    counts = [float(pod) for pod in run.pods()[1:]]
    assert counts == sorted(counts)


@pytest.mark.req("HV-40")
def test_an_hpa_on_cpu_never_raises_the_memory_total() -> None:
    """Each replica has 1G for itself. The recommender forgets within the hour what one replica needed."""
    scaled = hvpa(
        STORY_1,
        hpa=by_utilization(80),
        vpa={"template": {"spec": MEMORY_ONLY}},
        scaleDown={"minChangePercent": 0},
    )
    soon = {"memory-aggregation-interval": "10m", "memory-histogram-decay-half-life": "10m"}
    run = lived(
        scaled,
        levels((30, 2.0), (210, 20.0)),
        replicas=1,
        size=("2500m", "3450M"),
        memory=2 * GIGA,
        base=GIGA,
        settings=soon,
    )
    count, cores, memory = at(run, -1)
    assert count == 3.0
    assert cores == pytest.approx(25 / 3, rel=0.01)
    need = (2 + count) * MARGIN
    assert need <= count * memory <= need * BIN
    totals = (run.pods() * run.requested(resource="memory"))[40:]
    one_replica_needed = 3 * MARGIN * GIGA
    assert totals.max() <= count * one_replica_needed * BIN, "nor on the way, beyond what the VPA says of a replica"


@pytest.mark.req("HV-42")
def test_no_wish_is_lost_on_a_long_way_up() -> None:
    spec = by_utilization(80)
    spec["template"]["spec"]["maxReplicas"] = 16
    run = lived(hvpa(STORY_1, hpa=spec), levels((240, 150.0)), replicas=2, size=("6", "4G"), step=5.0, start=5.0)
    last: dict[float, float] = {}
    for count, cores in zip(run.pods(), np.round(run.requested(), 3), strict=True):
        if count > 0 and count % 1 == 0:
            last[float(count)] = float(cores)
    assert list(last.items()) == [(2.0, 6.0), (4.0, 9.0), (5.0, 14.4), (7.0, 20.572), (8.0, 24.0)]
    assert run.totals.scaled.scalings == 4
