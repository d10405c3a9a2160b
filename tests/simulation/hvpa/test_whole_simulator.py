"""Hvpas in the whole simulator: recommender, updater, admission and a model of the HPA controller around them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from support.builders.manifests import STORY_1, STORY_2
from support.worlds.simulated_cluster import container, container_demand, fleet, workload
from support.worlds.simulated_workloads import ROOMY, SimulatedRun, by_utilization, hpa, hvpa, vpa
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import StartProfile, Variant
from trellis.sim.run import simulate

GIGA = 1e9
MEMORY_ONLY = {"resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}}


def load(cpu: Any, memory: Any = GIGA, *, steps: int, base: float = 0.0) -> Any:
    return container_demand(cpu, memory, steps=steps, shared=True, base_memory=base)


def played(
    scaled: Any, cpu: Any, *, steps: int, replicas: int, size: tuple[str, str], start: float = 20.0, **more: Any
) -> SimulatedRun:
    memory, base = more.pop("memory", GIGA), more.pop("base", 0.0)
    app = container(cpu=size[0], memory=size[1], **more.pop("app", {}))
    kind = more.pop("kind", "Deployment")
    web = workload(
        "web", replicas, app, demand=(load(cpu, memory, steps=steps, base=base),), start=StartProfile(start), kind=kind
    )
    return SimulatedRun(web, scaled, steps=steps, step=60.0, every=more.pop("every", 60.0), **more)


def shapes(run: SimulatedRun, resource: str = "cpu", unit: float = 1.0) -> list[tuple[float, float]]:
    """Count and size of steps in which neither changes, each once in a row."""
    pods, size = run.pods(), np.round(run.requested(resource=resource) / unit, 3)
    steady = [(float(a), float(b)) for a, b in zip(pods, size, strict=True) if a % 1 == 0]
    return [state for at, state in enumerate(steady) if not at or steady[at - 1] != state]


def levels(*parts: tuple[int, float]) -> FloatColumn:
    """So many minutes at so many cores, one after the other."""
    return np.concatenate([np.full(minutes, cores) for minutes, cores in parts])


@pytest.mark.req("HV-13", "HV-38", "HV-33")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_constant_demand_reaches_its_bucket_in_one_step_and_stays_there(kind: str) -> None:
    scaled = hvpa(STORY_1, kind=kind, hpa=by_utilization(80))
    run = played(scaled, 19.2, steps=240, replicas=2, size=("6", "4G"), kind=kind)
    assert shapes(run)[-1] == (3.0, 8.0)
    assert run.totals.scaled.scalings == 1
    assert set(run.pods()[30:]) == {3.0}
    assert set(run.requested()[30:]) == {8.0}


@pytest.mark.req("HV-36")
@pytest.mark.parametrize("owned", [True, False], ids=["own VPA", "user's VPA"])
@pytest.mark.parametrize("start", [20.0, 300.0])
def test_constant_demand_never_runs_away_with_the_recommender(owned: bool, start: float) -> None:
    scaled = hvpa(STORY_1, vpa={"deploy": owned})
    users = () if owned else (vpa("Off"),)
    run = played(scaled, 20.0, steps=330, replicas=2, size=("12", "4G"), start=start, also=users, every=120.0)
    assert max(run.pods()) == run.pods()[-1] == 3.0
    assert max(run.marks("scaled")) < 1200.0, "whatever is thought before anybody serves, one step leads there"
    assert 20.0 <= 3 * run.requested()[-1] <= 27.0


@pytest.mark.req("HV-06", "HV-36")
def test_a_vpa_of_another_recommender_drives_an_hvpa_and_does_not_run_away() -> None:
    users = vpa("Off", recommenders=[{"name": "window"}])
    demand = levels((60, 10.0), (120, 40.0))
    run = played(hvpa(STORY_1), demand, steps=180, replicas=2, size=("6", "4G"), also=(users,), every=120.0)
    assert set(run.pods()[5:60]) == {2.0}
    assert set(run.pods()[-60:]) == {4.0}, "48 cores are the edge of four"
    assert 40.0 <= 4 * run.requested()[-1] <= 48.0
    assert not run.verdicts.get("NoTotals")


@pytest.mark.req("HV-39", "HV-18")
def test_the_total_of_an_hpa_decays_while_it_cannot_propose_less() -> None:
    demand = levels((40, 0.7), (80, 0.05))
    scaled = hvpa(*STORY_2, hpa=by_utilization(80), vpa={"deploy": False})
    run = played(scaled, demand, steps=120, replicas=1, size=("1", "1G"))
    assert run.requested()[39] == pytest.approx(0.875, rel=0.12)
    assert run.requested()[-1] == pytest.approx(0.063, rel=0.12)
    assert set(run.pods()[1:]) == {1.0}


@pytest.mark.req("HV-18")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("sources", [{}, {"hpa": by_utilization(80)}], ids=["VPA", "HPA and VPA"])
@pytest.mark.parametrize(("used", "requested"), [(0.7, "450m"), (0.2, "1")], ids=["up", "down"])
def test_a_single_replica_is_resized_in_the_first_bucket_of_story_2(
    kind: str, sources: Any, used: float, requested: str
) -> None:
    """Twelve hours of the story's own buckets, which say nothing of a minimum of replicas."""
    scaled = hvpa(*STORY_2, kind=kind, vpa={"deploy": True}, **sources)
    run = played(scaled, used, steps=720, replicas=1, size=(requested, "1G"), kind=kind)
    assert run.totals.resizes > 0
    assert run.totals.evictions == 0
    assert set(run.pods()[1:]) == {1.0}
    settled = run.requested()[len(run.times) // 4 :]
    assert used <= settled.min() <= settled.max() <= used * 1.3


@pytest.mark.req("HV-45")
def test_no_request_is_lost_on_the_way_out_nor_on_the_way_in() -> None:
    """Limits are as high as requests, so that Ready pods that hold too little are overloaded."""
    demand = levels((30, 9.6), (60, 11.5), (90, 6.0))
    scaled = hvpa(STORY_1, hpa=by_utilization(80))
    limits = {"cpu": "6", "memory": "4G"}
    run = played(scaled, demand, steps=180, replicas=2, size=("6", "4G"), start=50.0, app={"limits": limits})
    counts = [count for count, _ in shapes(run)]
    assert 3.0 in counts
    assert counts[-1] == 2.0
    assert run.totals.resizes > 3
    in_the_first_minute_when_nobody_is_ready = 9.6 / 60
    assert run.totals.scaled.overload == pytest.approx(in_the_first_minute_when_nobody_is_ready)


@pytest.mark.req("HV-28")
def test_memory_that_every_replica_has_for_itself_is_never_wanting() -> None:
    bucket = {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "8"}, "memory": {"min": "0", "max": "13.6G"}}
    run = played(
        hvpa(bucket, vpa={"template": {"spec": MEMORY_ONLY}}),
        2.0,
        steps=330,
        replicas=2,
        size=("2", "5G"),
        memory=6 * GIGA,
        base=2 * GIGA,
        every=120.0,
    )
    memory = run.requested(resource="memory")
    assert set(run.pods()[60:]) == {3.0}
    need = 6 * GIGA + 2 * GIGA * np.ceil(run.pods()[30:])
    assert (run.pods()[30:] * memory[30:] >= need).all(), "at no time below what is needed"
    assert 3 * memory[-1] <= 3 * (3 + 2) * GIGA * 1.15 * 1.05, "the target of two replicas, and a histogram bin"
    assert run.totals.scaled.scalings <= 1
    settled = run.requested(resource="memory")[-120:]
    assert settled.min() == settled.max()
    assert run.totals.oom_kills == 0


def test_an_hvpa_whose_vpa_is_about_memory_sizes_cpu_all_the_same() -> None:
    scaled = hvpa(STORY_1, hpa=by_utilization(80), vpa={"template": {"spec": MEMORY_ONLY}})
    run = played(scaled, 19.2, steps=120, replicas=2, size=("6", "4G"))
    assert shapes(run)[-1] == (3.0, 8.0)


def test_an_hvpa_yields_to_an_hpa_on_its_target_and_leaves_count_and_size() -> None:
    other = hpa(80, "other", minReplicas=1, maxReplicas=9)
    run = played(hvpa(STORY_1, vpa={}), 19.2, steps=120, replicas=2, size=("6", "4G"), also=(other,))
    assert set(run.requested()[~np.isnan(run.requested())]) == {6.0}
    assert run.pods()[-1] == 4.0
    assert run.verdicts["ConflictingHPA"] == 1


@pytest.mark.req("HV-43")
def test_a_dip_that_is_shorter_than_the_window_changes_nothing() -> None:
    demand = levels((60, 19.2), (3, 9.0), (57, 19.2))
    run = played(hvpa(STORY_1, hpa=by_utilization(80)), demand, steps=120, replicas=3, size=("8", "4G"))
    assert shapes(run)[1:] == [(3.0, 8.0)]
    assert run.totals.scaled.scalings == 0


@pytest.mark.req("HV-41")
def test_the_bounds_of_a_users_hpa_are_no_wishes() -> None:
    users = hpa(80, "mine", target_kind="Hvpa", minReplicas=10, maxReplicas=16)
    run = played(hvpa(STORY_1), 5.0, steps=60, replicas=2, size=("3125m", "4G"), also=(users,))
    assert shapes(run)[1:] == [(2.0, 3.125)]
    assert run.totals.scaled.scalings == 0


def test_counts_are_reported_for_every_variant_if_any_changes_them_and_else_for_none() -> None:
    web = workload("web", 2, container(cpu="500m"), demand=(load(2.0, steps=30),))
    small = fleet(web, nodes=ROOMY, steps=30)
    fixed, scaled = Variant("fixed"), Variant("scaled", objects=(hpa(80, maxReplicas=9),))
    both = simulate(msgspec.structs.replace(small, variants=(fixed, scaled))).variants
    assert [variant.fleet.scaled.scalings > 0 for variant in both] == [False, True]
    assert [variant.workloads[0].totals.scaled.replicas > 1.5 for variant in both] == [True, True]
    (alone,) = simulate(msgspec.structs.replace(small, variants=(fixed,))).variants
    assert alone.fleet.scaling is msgspec.UNSET
