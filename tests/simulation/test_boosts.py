"""Startup boosts in the whole simulator: admission, kubelets, Ready, and the updater that takes them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from support.worlds.simulated_cluster import BEGIN, GIB, container, container_demand, fault, workload
from support.worlds.simulated_workloads import SimulatedRun, fixed, vpa
from trellis.base.yaml.documents import Document, read_documents
from trellis.sim.fleet import SimulatedWorkload, StartProfile

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "startup-boost"
BOOSTED = "boosted-container-name"
DAY = 86_400.0
MIB = 2.0**20

# Two seconds until the kubelet looks, half a second until it is done, a second of a step.
SOON = 5.0


def example(name: str) -> dict[str, Any]:
    (document,) = read_documents((EXAMPLES / f"{name}.yaml").read_bytes())
    assert isinstance(document, Document)
    assert isinstance(document.value, dict)
    return document.value


def of_example(document: dict[str, Any], *containers: dict[str, Any], **more: Any) -> SimulatedWorkload:
    example = workload("example", 1, *containers, **more)
    return msgspec.structs.replace(example, namespace=document["metadata"]["namespace"])


def boost(duration: str, factor: int = 3, **more: Any) -> dict[str, Any]:
    return {"cpu": {"type": "Factor", "factor": factor, "duration": duration, **more}}


@pytest.mark.req("SB-50")
def test_boost_only_gives_a_pod_its_own_request_back() -> None:
    document = example("boost-only")
    workload = of_example(document, demand=(container_demand(0.7, GIB, steps=120),), start=StartProfile(20.0))
    played = SimulatedRun(workload, document, steps=120)
    requested = played.requested()[1:]
    assert set(requested.tolist()) == {1.5, 0.5}
    # Ready 21 seconds after the beginning, and boosted for ten more.
    assert 30 <= played.last(1.5) <= 31 + SOON
    assert played.target()[-1] > 0.8
    assert (played.totals.resizes, played.totals.evictions, played.totals.restarts) == (1, 0, 0)


@pytest.mark.req("SB-49")
@pytest.mark.parametrize(
    ("probe", "duration", "ended"), [(False, "0s", 1), (False, "60s", 61), (True, "0s", 41), (True, "60s", 101)]
)
def test_a_boost_lasts_until_ready_and_its_duration_have_passed(probe: bool, duration: str, ended: float) -> None:
    start = StartProfile(20.0, 40.0, 2.0, probe)
    web = workload("web", 1, container(cpu="500m"), demand=(container_demand(steps=120),), start=start)
    played = SimulatedRun(web, vpa("InPlaceOrRecreate", startupBoost=boost(duration)), steps=120)
    assert ended - 1 <= played.last(1.5) <= ended + SOON
    assert played.totals.evictions == 0


@pytest.mark.req("SB-28", "SB-29")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_pod_that_is_not_ready_stays_boosted_whatever_is_recommended(mode: str) -> None:
    web = workload("web", 3, demand=(container_demand(2.0, GIB, steps=48),), start=StartProfile(1e6))
    policy = vpa(mode, resourcePolicy=fixed("4", "4Gi"), startupBoost=boost("10s"))
    played = SimulatedRun(web, policy, steps=48, step=300.0, every=300.0)
    assert set(played.requested()[1:].tolist()) == {1.5}
    assert played.target()[-1] == 4.0
    assert (played.totals.resizes, played.totals.evictions) == (0, 0)


@pytest.mark.req("SB-29")
def test_a_boosted_pod_that_is_not_ready_is_given_up_as_configured() -> None:
    web = workload("web", 1, demand=(container_demand(steps=120),), start=StartProfile(1e6))
    boosting = boost("10s", giveUpAfterSeconds=60)
    played = SimulatedRun(web, vpa("InPlaceOrRecreate", startupBoost=boosting), steps=120)
    assert 59 <= played.last(1.5) <= 60 + SOON


@pytest.mark.req("SB-29")
@pytest.mark.parametrize(("own", "ended"), [(None, 1800.0), (600, 600.0), (3600, 3600.0)])
def test_the_flag_gives_up_a_pod_that_is_not_ready_and_an_object_goes_first(own: int | None, ended: float) -> None:
    web = workload("web", 1, demand=(container_demand(steps=400),), start=StartProfile(1e6))
    boosting = boost("10s", **({} if own is None else {"giveUpAfterSeconds": own}))
    policy = vpa("InPlaceOrRecreate", startupBoost=boosting)
    played = SimulatedRun(web, policy, steps=400, step=10.0, settings={"boost-give-up-after": "30m"})
    assert ended - 30 <= played.last(1.5) <= ended + 10


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_pod_whose_vpa_is_deleted_gets_its_own_request_back(mode: str, ready: bool) -> None:
    web = workload("web", 3, demand=(container_demand(0.7, GIB, steps=240),), start=StartProfile(1.0 if ready else 1e6))
    policy = vpa(mode, startupBoost=boost("1h"))
    played = SimulatedRun(web, policy, steps=240, faults=(fault("vpa-deleted", 60.0),))
    # Deleted at 60, and taken back half a minute later.
    assert 89 <= played.last(1.5) <= 90 + SOON
    assert played.requested()[-1] == 0.5
    assert (played.totals.resizes, played.totals.evictions, played.totals.restarts) == (3, 0, 0)
    assert "BoostWithoutPolicy" in played.verdicts


def test_an_updater_that_was_down_when_the_vpa_was_deleted_takes_the_boost_back_when_it_is_back() -> None:
    web = workload("web", 1, demand=(container_demand(steps=240),), start=StartProfile(1e6))
    faults = (fault("vpa-deleted", 60.0), fault("updater-down", 50.0, 70.0))
    played = SimulatedRun(web, vpa("Off", startupBoost=boost("1h")), steps=240, faults=faults)
    assert 149 <= played.last(1.5) <= 160 + SOON
    assert played.requested()[-1] == 0.5


def test_a_vpa_that_is_replaced_costs_a_pod_that_starts_no_boost() -> None:
    web = workload("web", 1, demand=(container_demand(steps=240),), start=StartProfile(1e6))
    faults = tuple(fault("vpa-deleted", begin, 20.0) for begin in (30.0, 90.0, 150.0))
    played = SimulatedRun(web, vpa("Off", startupBoost=boost("1h")), steps=240, faults=faults)
    assert set(played.requested()[1:].tolist()) == {1.5}
    assert played.totals.resizes == 0


@pytest.mark.req("SB-28")
@pytest.mark.parametrize(("mode", "evicted"), [("Recreate", True), ("InPlace", False)])
def test_only_an_oom_kill_lifts_the_hold_and_only_in_modes_that_evict(mode: str, evicted: bool) -> None:
    memory = np.where(np.arange(120) < 60, 0.5, 1.5) * GIB
    app = container(limits={"memory": "1Gi"})
    web = workload("web", 3, app, demand=(container_demand(0.1, memory, steps=120),))
    played = SimulatedRun(web, vpa(mode, startupBoost=boost("20h")), steps=120, step=10.0)
    kills = played.marks("killed")
    assert kills[0] >= 600
    assert bool(played.marks("evicted")) is evicted
    assert all(time >= kills[0] for time in played.marks("evicted"))
    assert played.totals.resizes == 0


@pytest.mark.req("SB-41")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
@pytest.mark.parametrize("kind", ["refuse-downsizes", "refuse-resizes", "defer-resizes"])
def test_kubelets_that_take_no_boost_back_see_no_eviction_in_a_day(mode: str, kind: str) -> None:
    web = workload("web", 3, demand=(container_demand(0.2, 0.5 * GIB, steps=48),), rollouts=(BEGIN + DAY / 2,))
    policy = vpa(mode, startupBoost=boost("10s"))
    played = SimulatedRun(web, policy, steps=48, step=1800.0, every=1800.0, faults=(fault(kind),))
    assert played.totals.evictions == 0
    assert played.totals.resizes == 0
    assert played.requested()[20] == 1.5
    assert "UnboostFailing" in played.verdicts


@pytest.mark.req("SB-52")
def test_boost_and_scaling_goes_from_thrice_the_target_to_the_target_of_that_moment() -> None:
    document = example("boost-and-scaling")
    demand = container_demand(np.where(np.arange(300) < 130, 0.3, 0.9), GIB, steps=300)
    workload = of_example(document, demand=(demand,), start=StartProfile(20.0), rollouts=(BEGIN + 120,))
    played = SimulatedRun(workload, document, steps=300)
    requested, target = played.requested(), played.target()
    # The new pod is Ready at 141, the old one gone at 143, and the boost over at 151.
    assert requested[145] == pytest.approx(3 * target[119], rel=0.01)
    after = requested[151 + int(SOON)]
    assert after == pytest.approx(target[150], rel=0.01)
    assert target[150] > 1.2 * target[119]
    assert played.totals.evictions == 0


@pytest.mark.req("SB-53")
def test_one_container_is_boosted_and_the_others_are_sized() -> None:
    document = example("container-boost-only")
    demand = (container_demand(0.7, GIB, BOOSTED, steps=240), container_demand(0.3, GIB, "other", steps=240))
    containers = (container(BOOSTED, cpu="500m"), container("other", cpu="100m"))
    workload = of_example(document, *containers, demand=demand, rollouts=(BEGIN + 120,))
    played = SimulatedRun(workload, document, steps=240)
    requested, other = played.requested(BOOSTED), played.requested("other")
    assert set(requested[1:120].tolist()) == {2.5, 0.5}
    assert requested[-1] == 0.5
    assert max(other[1:120]) == 0.1
    assert other[-1] == pytest.approx(played.target("other")[119], rel=0.05)
    assert max(other[1:]) < 0.5


@pytest.mark.req("SB-55")
def test_a_boost_may_exceed_max_allowed_and_a_size_may_not() -> None:
    document = example("container-boost-and-scaling")
    workload = of_example(
        document,
        container(BOOSTED, cpu="500m", memory="500Mi"),
        demand=(container_demand(0.8, 900 * MIB, BOOSTED, steps=240),),
        rollouts=(BEGIN + 120,),
    )
    played = SimulatedRun(workload, document, steps=240)
    requested, memory = played.requested(BOOSTED), played.requested(BOOSTED, "memory")
    assert played.target(BOOSTED)[-1] == 0.5
    # On average of the boosted pod and of the one that it replaces, which is gone after the boost has ended.
    assert max(requested[120:]) == pytest.approx((0.5 + 4.5) / 2)
    assert 0.25 <= requested[-1] <= 0.5
    assert ((memory[1:] >= 100 * MIB) & (memory[1:] <= 600 * MIB)).all()
