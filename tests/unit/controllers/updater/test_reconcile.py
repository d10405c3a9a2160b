"""The whole updater, from flags to requests, beside an API server in memory and on a virtual clock."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from support.api_server.server import pod_path
from support.controllers.updater import START, VPAS, World
from trellis.base.errors import Unreachable
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response


def test_pods_outside_their_bounds_are_evicted_one_after_another_and_come_back_sized() -> None:
    world = World()
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(1.0)
        assert len(world.evictions) == 1
        await asyncio.sleep(30.0)
        assert world.requests() == ["500m", "500m"]
        assert len(world.evictions) == 2

    world.run(play)


def test_with_a_fixed_recommendation_nothing_more_is_done_and_each_pass_is_one_observation() -> None:
    world = World()
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await world.passes(4.5)
        assert len(world.evictions) == 2
        assert world.metric_value("vpa_updater_evicted_pods_total{") == 2
        assert world.metric_value('vpa_updater_execution_latency_seconds_count{step="total"}') == 5
        before = world.metric_value("trellis_updater_plans_total")
        await world.passes(5)
        assert world.metric_value("trellis_updater_plans_total") == before

    world.run(play)


def test_a_new_recommendation_is_acted_on_at_once_and_not_after_an_interval() -> None:
    world = World("--updater-interval=1h")
    world.add_workload(cpu="100m")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        assert world.evictions == []
        world.recommend("web", "500m")
        await asyncio.sleep(0.5)
        assert len(world.evictions) == 1

    world.run(play)


def test_half_of_a_large_workload_goes_at_a_time_and_never_more() -> None:
    world = World()
    world.add_workload(pods=10)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(0.5)
        assert len(world.evictions) == 5
        for _ in range(100):
            await asyncio.sleep(0.5)
            going = sum(not _serves(pod) for pod in world.pods().values())
            assert going <= 5
        assert world.requests() == ["500m"] * 10

    world.run(play)


def _serves(pod: dict[str, object]) -> bool:
    status: dict[str, list[dict[str, str]]] = pod["status"]  # type: ignore[assignment]
    return "deletionTimestamp" not in pod["metadata"] and status["conditions"][0]["status"] == "True"  # type: ignore[operator]


def test_in_place_a_pod_keeps_its_identity_and_is_marked_as_upstream_does() -> None:
    world = World()
    world.add_workload(mode="InPlaceOrRecreate")
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}

    async def play(_updater: UpdaterController) -> None:
        await world.passes(1.5)
        assert world.requests() == ["500m", "500m"]
        assert {name: pod["metadata"]["uid"] for name, pod in world.pods().items()} == before
        assert all(pod["metadata"]["annotations"]["vpaInPlaceUpdated"] == "true" for pod in world.pods().values())
        assert world.evictions == []
        assert len(world.resizes) == 2
        assert world.metric_value("vpa_updater_in_place_updated_pods_total{") == 2

    world.run(play)


def test_a_disruption_budget_is_law_and_asked_again_in_every_pass() -> None:
    world = World()
    world.add_workload()
    world.budget = lambda _pod: False

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3.5)
        assert world.evictions == []
        refused = world.metric_value("vpa_updater_failed_eviction_attempts_total{")
        assert 4 <= refused <= 10
        world.budget = lambda _pod: True
        await world.passes(2.5)
        assert world.requests() == ["500m", "500m"]

    world.run(play)


def test_nothing_is_evicted_while_no_admission_controller_is_there_and_resizes_go_on() -> None:
    world = World()
    world.add_workload("web")
    world.add_workload("api", mode="InPlace")
    world.admission_live = False

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.evictions == []
        assert world.requests("api") == ["500m", "500m"]
        assert world.list_events("AdmissionAbsent") != []
        passes = world.metric_value('vpa_updater_execution_latency_seconds_count{step="total"}')
        assert passes >= 2
        absent = "vpa_updater_admission_controller_status_invalid_total"
        assert world.metric_value(f'{absent}{{reason="error"}}') == passes
        stale = {"metadata": {"name": "vpa-admission-controller"}, "spec": {"renewTime": "2000-01-01T00:00:00.000000Z"}}
        world.fault = lambda request: json_response(stale) if "/leases/" in request.path else None
        await world.passes(1)
        assert world.metric_value(f'{absent}{{reason="invalid"}}') == 1
        world.fault = lambda _request: None
        leases = sum("/leases/" in request.path for request in world.server.requests)
        assert leases <= 3 * 60 / 5 + 2
        world.admission_live = True
        await asyncio.sleep(10.0)
        assert len(world.evictions) >= 1

    world.run(play)


def test_the_lease_can_be_left_unasked() -> None:
    world = World("--use-admission-controller-status=false")
    world.add_workload()
    world.admission_live = False

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(20.0)
        assert world.requests() == ["500m", "500m"]
        assert not any("/leases/" in request.path for request in world.server.requests)

    world.run(play)


def test_a_single_replica_is_left_alone_and_an_event_says_why() -> None:
    world = World()
    world.add_workload(pods=1)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        assert world.evictions == []
        [(about, message)] = world.list_events("TooFewReplicas")
        assert about == "VerticalPodAutoscaler/web"
        assert message.startswith("1 pod: ")

    world.run(play)


def test_what_was_done_is_reported_in_upstreams_words() -> None:
    world = World()
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(1.0)
        [(_, evicted)] = world.evictions
        assert world.list_events("EvictedByVPA") == [
            (f"Pod/{evicted}", "Pod was evicted by VPA Updater to apply resource recommendation.")
        ]
        assert world.list_events("EvictedPod") == [
            (
                "VerticalPodAutoscaler/web",
                f"VPA Updater evicted Pod {evicted} to apply resource recommendation.",
            )
        ]

    world.run(play)


def test_a_change_that_the_server_refuses_for_many_pods_is_one_event() -> None:
    world = World("--min-replicas=1", "--in-place-skip-disruption-budget=true")
    world.add_workload(pods=6, mode="InPlace")

    def quota(request: Request) -> ScriptedResponse | None:
        if not request.path.endswith("/resize"):
            return None
        name = request.path.split("/")[-2]
        return error_response(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: few')

    world.fault = quota

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        [(about, message)] = world.list_events("PodUpdateRefused")
        assert about == "VerticalPodAutoscaler/web"
        assert message == 'Pod web-0 and 5 more: pods "web-0" is forbidden: exceeded quota: few'

    world.run(play)


def test_a_dry_run_asks_the_server_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World("--dry-run=true")
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        with caplog.at_level(logging.INFO, logger="trellis.updater"):
            await world.passes(2)
        assert world.evictions == []
        asked = [request for request in world.server.requests if request.path.endswith("/eviction")]
        assert asked
        assert all(("dryRun", "All") in request.query for request in asked)
        assert "not applied" in caplog.text

    world.run(play)


def test_a_process_that_does_not_lead_does_nothing_and_starts_when_it_leads() -> None:
    world = World()
    world.add_workload()
    world.leads = False

    async def play(updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.evictions == []
        assert world.metric_value('vpa_updater_execution_latency_seconds_count{step="total"}') == 0
        assert "trellis_component_last_pass_timestamp_seconds{" not in world.metrics.format_text().decode()
        world.leads = True
        updater.on_started_leading()
        await asyncio.sleep(1.0)
        assert world.now() - world.metric_value("trellis_component_last_pass_timestamp_seconds{") <= 1
        assert len(world.evictions) == 1

    world.run(play)


def test_a_rate_of_evictions_is_kept() -> None:
    world = World("--eviction-rate-limit=0.1", "--eviction-rate-burst=1")
    for name in ("a", "b", "c", "d"):
        world.add_workload(name)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(35.0)
        assert 3 <= len(world.evictions) <= 4
        await world.passes(2)
        times = [at for at, _ in world.evictions]
        assert len(times) == 8
        assert all(later - sooner >= 9.9 for sooner, later in pairwise(times))

    world.run(play)


def test_budgets_per_hour_hold_for_the_cluster_and_for_each_namespace() -> None:
    world = World("--evictions-per-hour=3")
    for name in ("a", "b", "c", "d"):
        world.add_workload(name)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(30)
        assert len(world.evictions) == 3
        assert world.list_events("HourlyBudgetExhausted") != []
        await world.passes(35)
        assert len(world.evictions) == 6

    world.run(play)


def test_an_eviction_that_changes_nothing_is_not_repeated_and_reported() -> None:
    world = World()
    world.webhook = False
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await world.passes(30)
        assert len(world.evictions) <= 2
        assert world.list_events("EvictionLoop") != []

    world.run(play)


def test_a_server_that_is_away_stops_everything_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.add_workload(cpu="100m")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        world.fault = lambda _request: Unreachable("no route")
        world.server.break_watches()
        await asyncio.sleep(20.0)
        world.recommend("web", "500m")
        await asyncio.sleep(20.0)
        assert world.evictions == []
        world.fault = lambda _request: None
        await asyncio.sleep(90.0)
        assert len(world.evictions) == 2

    with caplog.at_level(logging.CRITICAL):
        world.run(play)


def test_a_lost_answer_is_not_taken_for_a_refusal_and_no_second_pod_is_evicted() -> None:
    world = World()
    world.add_workload()
    world.start_seconds = 300.0

    def lost(request: Request) -> ScriptedResponse | None:
        if request.path.endswith("/eviction") and not world.evictions:
            world.fault = lambda _request: None
            world.server._handle(request)  # it was carried out
            return Unreachable("the connection was reset before the answer came")
        return None

    world.fault = lost

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        assert len(world.evictions) == 1

    world.run(play)


def test_a_stale_view_fails_the_write_and_not_the_workload() -> None:
    """Somebody else has resized the pod since: the tests in the patch fail, and the next plan knows better."""
    world = World()
    world.add_workload(mode="InPlaceOrRecreate")
    refused: list[str] = []

    def stale(request: Request) -> ScriptedResponse | None:
        if request.path.endswith("/resize") and not refused:
            refused.append(request.path)
            return error_response(422, "Invalid", "the server rejected our request: testing value failed")
        return None

    world.fault = stale

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(30.0)
        assert refused
        assert world.evictions == []
        assert world.requests() == ["500m", "500m"]

    world.run(play)


def test_an_object_that_is_deleted_lets_its_pods_alone() -> None:
    world = World()
    world.add_workload(pods=4)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(0.5)
        begun = len(world.evictions)
        world.server.delete(f"{VPAS}/web")
        world.fault = lambda request: error_response(500, "Internal") if request.path.endswith("/eviction") else None
        await asyncio.sleep(0.9)
        assert begun == len(world.evictions) == 2

    world.run(play)


def test_a_pod_of_another_controller_with_the_same_labels_is_ignored() -> None:
    world = World()
    world.add_workload()
    stranger = world.add_pod("web", "stranger")
    stranger["metadata"]["ownerReferences"][0] |= {"kind": "StatefulSet", "name": "other"}
    world.server.put(pod_path("stranger"), stranger)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert "stranger" not in {name for _, name in world.evictions}
        assert world.metric_value("vpa_updater_controlled_pods_total{") == 2

    world.run(play)


def test_all_pods_that_are_to_be_evicted_are_counted_and_not_only_those_whose_turn_it_is() -> None:
    world = World()
    world.add_workload(pods=6)
    evictable = 'vpa_updater_evictable_pods_total{update_mode="Recreate",vpa_size_log2="2"}'

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(1.0)
        assert world.metric_value(evictable) == 6
        assert (
            world.metric_value('vpa_updater_vpas_with_evictable_pods_total{update_mode="Recreate",vpa_size_log2="2"}')
            == 1
        )

    world.run(play)


def test_pods_that_a_budget_keeps_are_still_to_be_evicted() -> None:
    world = World()
    world.add_workload()
    world.budget = lambda _pod: False

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        assert world.metric_value('vpa_updater_evictable_pods_total{update_mode="Recreate",vpa_size_log2="1"}') == 2

    world.run(play)


def test_a_deprecated_mode_is_counted_apart() -> None:
    world = World()
    world.add_workload(mode="Auto")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.metric_value('vpa_updater_controlled_pods_total{update_mode="Auto",vpa_size_log2="1"}') == 2
        assert world.metric_value('vpa_updater_evicted_pods_total{update_mode="Auto",') == 2

    world.run(play)


def test_pods_that_no_mode_would_change_are_not_counted_as_controlled() -> None:
    world = World()
    world.add_workload("first", pods=1, mode="Initial")
    world.add_workload("second", pods=1, mode="Initial", startupBoost={"cpu": {"type": "Factor", "factor": 2}})

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.metric_value("vpa_updater_controlled_pods_total{") == 1
        series = [line for line in world.metrics.format_text().decode().splitlines() if "updated_pods_total{" in line]
        assert not [line for line in series if 'vpa_name="first"' in line]
        assert [line for line in series if 'vpa_name="second"' in line]

    world.run(play)


def test_sizes_are_counted_as_upstream_does() -> None:
    world = World()
    world.add_workload(pods=5, cpu="100m")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        assert world.metric_value('vpa_updater_controlled_pods_total{update_mode="Recreate",vpa_size_log2="2"}') == 5
        text = world.metrics.format_text().decode()
        assert 'vpa_updater_in_place_updatable_pods_total{vpa_size_log2="19"} 0\n' in text
        first = 'vpa_updater_evicted_pods_total{update_mode="Recreate",vpa_name="web"'
        assert f'{first},vpa_namespace="shop",vpa_size_log2="2"}} 0' in text

    world.run(play)


def test_the_first_pass_waits_until_caches_are_synced() -> None:
    world = World()
    world.add_workload()
    world.fault = lambda request: error_response(500, "Internal") if request.path.endswith("/limitranges") else None

    async def play(updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        assert world.informers.find_readiness_problem() == "caches not synced: limitranges"
        assert world.evictions == []
        world.fault = lambda _request: None
        await asyncio.sleep(60.0)
        assert world.informers.find_readiness_problem() is None
        assert world.evictions[0][0] > START + 5.0

    world.run(play)
