"""Whole runs on virtual time: what is decided reaches pods, and the same seed gives the same bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from support.builders.fleets import BEGIN, FIXED, MIB, fleet, nodes, vpa, workload
from trellis.base.errors import InvalidInput
from trellis.sim.faults import ADMISSION_DOWN, METRICS_GAP, RECOMMENDER_DOWN, UPDATER_DOWN
from trellis.sim.fleet import Fault, Fleet, StartProfile, Variant
from trellis.sim.results import ResourceChart, VariantResult
from trellis.sim.run import SimulationProgress, run_variant, simulate

STEP = 900.0
DAY = 96  # steps


def steps_of(*levels: float, steps: int = DAY // 2) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.repeat(np.array(levels), steps)


def sized(mode: str = "Recreate", *names: str, **spec: Any) -> Variant:
    return Variant("default", "Default", tuple(vpa(name, mode, **spec) for name in names or ("web",)))


def shop(*variants: Variant, cpu: Any = None, faults: tuple[Fault, ...] = (), **more: Any) -> Fleet:
    demand = steps_of(0.2, 0.8) if cpu is None else cpu
    settings: dict[str, Any] = {"interval": 1800.0, "steps": len(demand), "step": STEP, "faults": faults}
    return fleet([workload("web", demand, **more)], variants or (FIXED,), **settings)


def cpu_line(result: VariantResult, number: int = 0) -> ResourceChart:
    chart = result.workloads[number].chart
    assert chart is not None
    return next(line for line in chart.lines if line.resource == "cpu")


def requests(result: VariantResult) -> set[float]:
    """All that pods ever requested; before they run they request nothing."""
    return {value for value in cpu_line(result).requested if not np.isnan(value)}


def marks(result: VariantResult) -> list[str]:
    chart = result.workloads[0].chart
    assert chart is not None
    return [mark.what for mark in chart.marks]


def test_fixed_requests_never_change_a_pod() -> None:
    result = run_variant(shop(FIXED), FIXED)
    assert requests(result) == {1.0}
    assert (result.fleet.pods_made, result.fleet.evictions, result.fleet.resizes) == (3, 0, 0)
    assert result.verdicts == {}
    assert result.fleet.footprint.cpu == pytest.approx(1.0 / 0.5, rel=0.02)
    assert result.node_hours == pytest.approx(3 * 24.0)
    assert result.node_money == pytest.approx(3 * 24.0 * 0.5)


@pytest.mark.parametrize(
    ("mode", "what"), [("Recreate", "evicted"), ("InPlaceOrRecreate", "resized"), ("InPlace", "resized")]
)
def test_requests_follow_a_step_of_demand(mode: str, what: str) -> None:
    variant = sized(mode)
    result = run_variant(shop(variant, cpu=steps_of(0.2, 0.2, 0.8, 0.8, 0.8)), variant)
    line = cpu_line(result)
    assert line.requested[1] == 1.0
    assert line.requested[DAY - 1] == pytest.approx(0.2 * 1.15, rel=0.2)
    assert line.requested[-1] == pytest.approx(0.8 * 1.15, rel=0.2)
    assert line.target[-1] == line.requested[-1]
    assert what in marks(result)


def test_a_vpa_that_is_off_recommends_and_changes_nothing() -> None:
    variant = sized("Off")
    result = run_variant(shop(variant), variant)
    assert requests(result) == {1.0}
    assert cpu_line(result).target[-1] > 0.5
    assert marks(result) == []


def test_memory_that_runs_out_is_counted_and_heeded() -> None:
    memory = np.concatenate((np.full(8, 200 * MIB), np.full(DAY // 2 - 8, 600 * MIB)))
    web = workload("web", np.full(DAY // 2, 0.1), memory, requested_memory="256Mi", limits={"memory": "512Mi"})
    made = fleet([web], [FIXED, sized()], steps=DAY // 2, step=STEP, interval=1800.0)
    fixed, default = simulate(made).variants
    assert fixed.fleet.oom_kills > default.fleet.oom_kills > 0
    assert default.workloads[0].chart is not None
    assert default.workloads[0].chart.lines[1].requested[-1] > 512 * MIB


def test_pods_are_boosted_while_they_start() -> None:
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3, "duration": "30s"}}}
    variant = sized("Recreate", **boost)
    slow = StartProfile(seconds=5.0, work=60.0, cores=3.0)
    made = shop(variant, cpu=steps_of(0.5, 0.5), start=slow, limits={"cpu": "1", "memory": "1Gi"})
    result = run_variant(made, variant)
    assert result.fleet.boosts == result.fleet.pods_made > 0
    assert "boosted" in marks(result)
    assert cpu_line(result).requested[-1] < 1.0


def test_the_same_seed_gives_the_same_bytes() -> None:
    made = shop(FIXED, sized("InPlaceOrRecreate"), spread=0.3, cpu=steps_of(0.2, 0.2))
    once, again = (msgspec.json.encode(simulate(made)) for _ in range(2))
    assert once == again
    other = msgspec.json.encode(simulate(msgspec.structs.replace(made, seed=8)))
    assert other != once


def test_processes_give_what_one_process_gives_and_one_that_fails_costs_no_other_its_result() -> None:
    broken = Variant("broken", settings={"min-replica": "2"})
    made = shop(FIXED, broken, sized(), cpu=steps_of(0.2))
    reports: list[SimulationProgress] = []
    apart = simulate(made, progress=reports.append, processes=2)
    assert msgspec.json.encode(apart) == msgspec.json.encode(simulate(made))
    assert {report.variant for report in reports if report.done == report.steps} == {"fixed", "default"}
    assert [variant.name for variant in apart.variants] == ["fixed", "default"]
    assert apart.partial
    assert apart.notes == [
        'variant broken failed: "min-replica": is not a flag that a simulation supports (did you mean min-replicas?)'
    ]


@pytest.mark.parametrize("processes", [1, 2])
def test_stopping_gives_the_results_so_far_marked_as_partial(processes: int) -> None:
    made = shop(FIXED, sized(), cpu=steps_of(0.2, 0.2, steps=100 * DAY))
    far: list[SimulationProgress] = []

    def stop() -> bool:
        return any(report.done >= 32 for report in far)

    result = simulate(made, progress=far.append, stop=stop, processes=processes)
    assert result.partial
    first = result.variants[0]
    assert first.partial_until is not None
    assert BEGIN + 32 * STEP <= first.partial_until < made.clock.end
    assert len(first.chart.times) > 0


def test_a_recommender_that_is_not_here_is_reported() -> None:
    variant = sized("Off", recommenders=[{"name": "of-others"}])
    result = simulate(shop(variant, cpu=steps_of(0.2)))
    assert cpu_line(result.variants[0]).target[-1] > 0.0
    assert result.notes == [
        "variant default: recommender of-others does not come with Trellis; the recommender default is used instead"
    ]


def test_settings_of_a_variant_are_heeded() -> None:
    variant = msgspec.structs.replace(sized(), settings={"min-replicas": "9"})
    result = run_variant(shop(variant), variant)
    assert result.fleet.evictions == 0
    assert "TooFewReplicas" in result.verdicts


def test_parameters_of_a_variant_go_to_its_recommender() -> None:
    generous = msgspec.structs.replace(sized("Off"), parameters={"default": {"recommendation-margin-fraction": "1.0"}})
    with pytest.raises(InvalidInput, match="is not a parameter of this recommender"):
        run_variant(shop(sized()), msgspec.structs.replace(sized(), parameters={"default": {"nonsense": "1"}}))
    plain, more = (run_variant(shop(variant), variant) for variant in (sized("Off"), generous))
    assert cpu_line(more).target[-1] > cpu_line(plain).target[-1]


def test_while_a_component_is_down_it_does_nothing() -> None:
    def during(kind: str, variant: Variant) -> VariantResult:
        fault = Fault(kind, BEGIN - 1.0, BEGIN + 1e9)
        return run_variant(shop(variant, cpu=steps_of(0.2, 0.2), faults=(fault,)), variant)

    assert during(UPDATER_DOWN, sized()).verdicts == {}
    for kind in (RECOMMENDER_DOWN, METRICS_GAP):
        assert np.isnan(cpu_line(during(kind, sized())).target).all()
    absent = during(ADMISSION_DOWN, sized())
    assert absent.fleet.evictions == 0
    assert absent.verdicts["AdmissionAbsent"] > 0
    unheeded = msgspec.structs.replace(sized(), settings={"use-admission-controller-status": "false"})
    assert requests(during(ADMISSION_DOWN, unheeded)) == {1.0}
    assert during(ADMISSION_DOWN, unheeded).fleet.evictions > 0


def test_a_gap_in_the_metrics_of_one_workload_leaves_others_alone() -> None:
    demand = steps_of(0.2)
    gap = Fault(METRICS_GAP, BEGIN - 1.0, BEGIN + 1e9, "web")
    variant = sized("Off", "web", "api")
    made = fleet(
        [workload("web", demand), workload("api", demand)],
        [variant],
        steps=len(demand),
        step=STEP,
        interval=1800.0,
        faults=[gap],
    )
    result = run_variant(made, variant)
    assert np.isnan(cpu_line(result, 0).target).all()
    assert not np.isnan(cpu_line(result, 1).target[-1])


def test_a_limit_range_bounds_the_size_of_pods() -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "bounds", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "500m"}}]},
    }
    variant = msgspec.structs.replace(sized(), objects=(vpa("web"), limits))
    result = run_variant(shop(variant, cpu=steps_of(0.2, 0.2, 0.2)), variant)
    assert cpu_line(result).requested[-1] == 0.5


def test_pods_waiting_for_headroom_are_counted() -> None:
    made = fleet([workload("web", np.full(12, 0.1))], steps=12, step=STEP, shapes=[nodes(1, cpu="2")])
    result = run_variant(made, FIXED)
    assert result.chart.pending[-1] == 1.0
    assert result.fleet.pending_seconds == 12 * STEP


def test_the_warm_up_is_not_scored() -> None:
    variant = sized()
    made = fleet(
        [workload("web", steps_of(0.2, 0.2, 0.2))],
        [variant],
        steps=3 * DAY // 2,
        step=STEP,
        interval=1800.0,
        warm_up=DAY,
    )
    result = run_variant(made, variant)
    assert "evicted" in marks(result)
    assert result.fleet.evictions == 0
    assert result.fleet.container_seconds == pytest.approx(3 * DAY // 2 * STEP)
    assert result.fleet.requested.cpu == pytest.approx(3 * cpu_line(result).requested[-1])
