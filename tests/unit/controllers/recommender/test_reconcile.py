"""The recommender from flags to requests, beside an API server in memory and on a virtual clock."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from support.controllers.recommender import CHECKPOINTS, MINUTE, VPAS, World
from trellis.base.errors import Unreachable
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response


def checkpoint_lists(world: World) -> list[Request]:
    """Requests for all checkpoints, of a namespace or of all."""
    return [
        request for request in world.server.requests if request.method == "GET" and request.path.endswith("checkpoints")
    ]


def test_a_steady_workload_gets_upstreams_recommendation_and_a_checkpoint() -> None:
    world = World()
    world.add_workload("web")

    async def play() -> None:
        await world.passes(3)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        provided = world.condition("web", "RecommendationProvided")
        assert provided is not None
        assert provided["status"] == "True"
        assert world.vpa("web")["status"]["observedGeneration"] == 1
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 6
        assert world.metric_value('vpa_recommender_execution_latency_seconds_count{step="total"}') == 3
        assert world.now() - world.metric_value("trellis_component_last_pass_timestamp_seconds{") <= 60

    world.run(play)


def test_the_first_pass_comes_at_once_and_not_after_an_interval() -> None:
    world = World("--recommender-interval=1h")
    world.add_workload("web")

    async def play() -> None:
        await world.passes(1)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.metric_value("vpa_recommender_recommendation_latency_seconds_count") == 1

    world.run(play)


def test_without_samples_there_is_no_recommendation_and_a_condition_with_the_reason() -> None:
    world = World()
    world.add_workload("web")
    world.usage.clear()

    async def play() -> None:
        await world.passes(2)
        provided = world.condition("web", "RecommendationProvided")
        assert provided is not None
        assert (provided["status"], provided["reason"]) == ("False", "NoSamples")
        assert world.target("web") == {}

    world.run(play)


@pytest.mark.req("CR-15")
def test_while_vpas_cannot_be_listed_passes_are_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.add_workload("web")

    def away(request: Request) -> ScriptedResponse | None:
        return Unreachable("nobody is there") if request.path.endswith("/verticalpodautoscalers") else None

    async def play() -> None:
        await world.passes(3)
        before = world.checkpoint("web-app")["status"]
        world.fault = away
        world.server.break_watches()
        await world.passes(11)
        assert world.checkpoint("web-app")["status"] == before
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert {error.getMessage() for error in errors} == {"pass skipped"}
        assert all("verticalpodautoscalers" in str(getattr(error, "trellis_fields", {})).lower() for error in errors)
        metrics = [item for item in world.server.requests if "/metrics.k8s.io/" in item.path]
        world.fault = lambda _request: None
        await world.passes(3)
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] > before["totalSamplesCount"]
        assert len(metrics) <= 4

    world.run(play)


def test_an_hour_without_metrics_changes_no_recommendation_and_is_counted() -> None:
    world = World()
    world.add_workload("web")

    async def play() -> None:
        await world.passes(5)
        target = world.target("web")
        newest = world.metric_value("trellis_recommender_newest_sample_timestamp_seconds")
        assert 0 <= world.now() - newest <= 2 * MINUTE
        world.fault = lambda request: (
            error_response(503, "ServiceUnavailable", "away") if "/metrics.k8s.io/" in request.path else None
        )
        await world.passes(61)
        assert world.target("web") == target != {}
        assert world.metric_value("trellis_recommender_newest_sample_timestamp_seconds") == newest
        client = 'client_name="default-metrics-client"'
        assert world.metric_value(f'vpa_recommender_metric_server_responses{{{client},is_error="true"}}') >= 59
        world.fault = lambda _request: None
        await world.passes(3)
        assert world.metric_value("trellis_recommender_newest_sample_timestamp_seconds") > newest + 61 * MINUTE
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] >= 14

    world.run(play)


@pytest.mark.parametrize(
    "usage",
    [
        {"cpu": "1000000000000000000", "memory": "300Mi"},
        {"cpu": "-5", "memory": "300Mi"},
        {"cpu": "what", "memory": "300Mi"},
        {"cpu": "500m", "memory": "-1"},
        {"cpu": "500m", "memory": "999999999999999999999Ei"},
        {},
        {"cpu": None},
    ],
)
def test_an_invalid_sample_changes_no_recommendation(usage: dict[str, str]) -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.add_workload("other", pods=1)

    async def play() -> None:
        await world.passes(3)
        world.usage["web-0"] = {"app": usage, "nobody": {"cpu": "1", "memory": "1Gi"}}
        world.usage["stranger"] = {"app": {"cpu": "1", "memory": "1Gi"}}
        await world.passes(5)
        assert world.target("web") == world.target("other") == {"cpu": "587m", "memory": "380258472"}
        assert world.checkpoint("other-app")["status"]["totalSamplesCount"] == 8

    world.run(play)


def test_the_same_sample_again_and_an_older_one_count_once() -> None:
    world = World()
    world.add_workload("web", pods=1)
    times = iter([1.0, 1.0, 0.5, 2.0, 2.0])

    async def play() -> None:
        await world.passes(5)
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 2

    pass_times: dict[float, float] = {}

    def usage_time() -> float:
        now = world.now()
        if now not in pass_times:
            pass_times[now] = next(times, 2.0)
        return 1_760_000_000.0 + pass_times[now]

    world.usage_time = usage_time
    world.run(play)


def test_samples_that_come_ten_minutes_late_still_count() -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.usage_time = lambda: world.now() - 600

    async def play() -> None:
        await world.passes(3)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 3

    world.run(play)


def test_a_vpa_edited_during_a_pass_is_not_overwritten_and_is_written_in_the_next() -> None:
    world = World()
    world.add_workload("web")
    edited: list[bool] = []

    def edit_first(request: Request) -> ScriptedResponse | None:
        if request.method == "PATCH" and request.path.startswith(f"{VPAS}/web") and not edited:
            edited.append(True)
            vpa = world.vpa("web")
            policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "200m"}}]}
            spec = {**vpa["spec"], "resourcePolicy": policy}
            world.server.put(f"{VPAS}/web", {**vpa, "metadata": {"generation": 2}, "spec": spec})
        return None

    world.fault = edit_first

    async def play() -> None:
        await world.passes(1)
        assert "status" not in world.vpa("web")
        await world.passes(2)
        assert world.target("web") == {"cpu": "200m", "memory": "380258472"}
        assert world.vpa("web")["status"]["observedGeneration"] == 2

    world.run(play)


def test_a_target_deleted_and_made_again_keeps_its_history() -> None:
    world = World()
    world.add_workload("web")
    deployment = "/apis/apps/v1/namespaces/shop/deployments/web"

    async def play() -> None:
        await world.passes(3)
        target = world.target("web")
        world.server.delete(deployment)
        await world.passes(3)
        unsupported = world.condition("web", "ConfigUnsupported")
        assert unsupported is not None
        assert "Deployment shop/web does not exist" in unsupported["message"]
        assert world.target("web") == target
        counted = world.checkpoint("web-app")["status"]["totalSamplesCount"]
        world.add_deployment("web")
        await world.passes(3)
        assert world.condition("web", "ConfigUnsupported") is None
        assert world.target("web") == target
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] > counted

    world.run(play)


def test_a_thousand_pods_replaced_at_once_lose_no_history() -> None:
    world = World()
    world.add_workload("web", pods=1000)

    async def play() -> None:
        await world.passes(2)
        for number in range(1000):
            world.server.delete(f"/api/v1/namespaces/shop/pods/web-{number}")
            world.add_pod("web", f"web-new-{number}")
        world.usage = {f"web-new-{number}": {"app": {"cpu": "500m", "memory": "300Mi"}} for number in range(1000)}
        await world.passes(2)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 4000
        assert world.metric_value("vpa_recommender_aggregate_container_states_count") == 1

    world.run(play)


def test_a_process_killed_during_a_pass_loses_at_most_that_pass() -> None:
    world = World()
    world.add_workload("web", pods=1)

    async def play() -> None:
        await world.passes(5)
        # The sixth pass takes its samples in and never gets further.
        world.fault = lambda request: Unreachable("killed") if request.method != "GET" else None
        await world.passes(2)

    world.run(play)
    second = World()
    second.server.objects, second.server.version = world.server.objects, world.server.version
    second.add_deployment("web")

    async def later() -> None:
        await second.passes(2)
        assert second.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert second.checkpoint("web-app")["status"]["totalSamplesCount"] == 5

    second.run(later)


def test_a_steady_hour_causes_few_writes() -> None:
    world = World()
    world.add_workload("web")

    async def play() -> None:
        await world.passes(60)
        assert world.writes(f"{VPAS}/web") <= 15
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}

    world.run(play)


def test_more_checkpoints_than_a_pass_may_write_take_turns() -> None:
    world = World("--checkpoint-writes-per-pass=2")
    for name in ("a", "b", "c", "d", "e"):
        world.add_workload(name, pods=1)

    async def play() -> None:
        await world.passes(1)
        assert world.writes("verticalpodautoscalercheckpoints") == 2
        await world.passes(3)
        counts = [world.checkpoint(f"{name}-app")["status"]["totalSamplesCount"] for name in "abcde"]
        assert min(counts) >= 1

    world.run(play)


@pytest.mark.req("CR-09", "CR-10", "CR-16")
def test_only_vpas_that_name_the_recommender_are_served_counted_and_written() -> None:
    world = World("--recommender-name=frugal")
    world.add_workload("web")
    world.add_workload("mine")
    world.add_vpa("mine", recommenders=[{"name": "frugal"}])
    before = world.vpa("web")

    async def play() -> None:
        await world.passes(3)
        assert world.vpa("web") == before
        assert world.target("mine") == {"cpu": "587m", "memory": "380258472"}
        assert world.writes("web") == 0
        served = 'vpa_recommender_vpa_objects_count{api="v1",has_recommendation="true",matches_pods="true"'
        assert world.metric_value(f'{served},unsupported_config="true",update_mode="Recreate"}}') == 0
        assert world.metric_value(f'{served},unsupported_config="false",update_mode="Recreate"}}') == 1

    world.run(play)


@pytest.mark.parametrize(("policy", "mode"), [(None, ""), ({"minReplicas": 2}, ""), ({"updateMode": "Off"}, "Off")])
def test_quality_metrics_are_labelled_with_the_written_mode(policy: Any, mode: str) -> None:
    world = World()
    world.add_workload("web")
    world.add_vpa("web", **({"updatePolicy": policy} if policy else {}))

    async def play() -> None:
        await world.passes(3)
        assert world.metric_value(f'vpa_quality_cpu_recommendations_cores_count{{update_mode="{mode}"}}') > 0
        labels = f'is_oom="false",resource="cpu",update_mode="{mode}"'
        assert world.metric_value(f"vpa_quality_usage_recommendation_relative_diffs_count{{{labels}}}") > 0
        # Objects are counted by the mode that holds.
        served = 'api="v1",has_recommendation="true",matches_pods="true",unsupported_config="false"'
        holds = mode or "Recreate"
        assert world.metric_value(f'vpa_recommender_vpa_objects_count{{{served},update_mode="{holds}"}}') == 1

    world.run(play)


def test_a_deprecated_mode_is_counted_apart_and_every_combination_has_a_series() -> None:
    world = World()
    world.add_workload("web")
    world.add_vpa("web", updatePolicy={"updateMode": "Auto"})

    async def play() -> None:
        await world.passes(3)
        served = 'api="v1",has_recommendation="true",matches_pods="true",unsupported_config="false"'
        assert world.metric_value(f'vpa_recommender_vpa_objects_count{{{served},update_mode="Auto"}}') == 1
        assert world.metric_value('vpa_quality_cpu_recommendations_cores_count{update_mode="Auto"}') > 0
        series = [line for line in world.metrics.format_text().decode().splitlines() if "vpa_objects_count{" in line]
        assert len(series) == 6 * 3 * 2**3
        assert sum(float(line.rpartition(" ")[2]) for line in series) == 1

    world.run(play)


@pytest.mark.req("CR-16")
def test_the_log_counts_served_vpas_and_does_not_list_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO - 4, "trellis.recommender")
    world = World()
    world.add_workload("web")
    world.add_workload("theirs")
    world.add_vpa("theirs", recommenders=[{"name": "somebody"}])

    async def play() -> None:
        await world.passes(2)

    world.run(play)
    fields = [getattr(record, "trellis_fields", {}) for record in caplog.records]
    assert {field["served"] for field in fields if "served" in field} == {1}
    assert {field["vpas"] for field in fields if "written" in field} == {1}
    assert not [field for field in fields if "theirs" in str(field)]


@pytest.mark.req("CR-19")
def test_a_label_has_no_effect_and_triggers_no_advice() -> None:
    world = World()
    world.add_workload("web")
    labelled = world.vpa("web")
    labelled["metadata"]["labels"] = {"recommender": "somebody", "vpa-recommender": "somebody"}
    world.server.put(f"{VPAS}/web", labelled)

    async def play() -> None:
        await world.passes(3)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        written = {request.path for request in world.server.requests if request.method != "GET"}
        assert written == {f"{VPAS}/web/status", CHECKPOINTS, f"{CHECKPOINTS}/web-app"}

    world.run(play)


@pytest.mark.req("CR-08")
def test_one_process_is_several_recommenders() -> None:
    world = World("--recommender-name=default,frugal")
    world.add_workload("web")
    world.add_workload("mine")
    world.add_vpa("mine", recommenders=[{"name": "frugal"}])

    async def play() -> None:
        await world.passes(2)
        assert world.target("web") == world.target("mine") == {"cpu": "587m", "memory": "380258472"}

    world.run(play)


def test_orphaned_checkpoints_are_deleted_and_those_of_other_recommenders_stay() -> None:
    world = World("--checkpoints-gc-interval=1m")
    world.add_workload("web", pods=1)
    world.add_vpa("foreign", recommenders=[{"name": "somebody"}])
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
    for vpa in ("foreign", "gone"):
        spec = {"vpaObjectName": vpa, "containerName": "app"}
        world.server.put(f"{path}/{vpa}-app", {"spec": spec, "status": {"version": "v3"}})
    foreign = world.checkpoint("foreign-app")

    async def play() -> None:
        await world.passes(3)
        assert f"{path}/gone-app" not in world.server.objects
        assert world.checkpoint("foreign-app") == foreign
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] >= 2

    world.run(play)


@pytest.mark.parametrize(("interval", "listed"), [("0s", 13), ("5m", 3)])
def test_orphans_are_searched_once_in_an_interval_and_without_one_in_every_pass(interval: str, listed: int) -> None:
    world = World(f"--checkpoints-gc-interval={interval}")
    world.add_workload("web", pods=1)

    async def play() -> None:
        await world.passes(12)
        # Once more to read what was known before.
        assert len(checkpoint_lists(world)) == listed

    world.run(play)


def test_checkpoints_of_a_vpa_deleted_before_they_were_listed_are_not_listed_for_ever() -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.fault = lambda request: (
        error_response(500, "InternalError", "no")
        if request.path.endswith("checkpoints") and request.method == "GET"
        else None
    )

    async def play() -> None:
        await world.passes(2)
        assert len(checkpoint_lists(world)) == 2
        world.server.delete(f"{VPAS}/web")
        await world.passes(3)
        assert len(checkpoint_lists(world)) == 2

    world.run(play)


def test_an_unreadable_checkpoint_is_set_aside_and_affects_no_other_vpa() -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.add_workload("other", pods=1)
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
    spec = {"vpaObjectName": "web", "containerName": "app"}
    status = {
        "version": "v3",
        "cpuHistogram": {"bucketWeights": {"999": 1}, "totalWeight": 1, "referenceTimestamp": "2025-10-09T00:00:00Z"},
    }
    world.server.put(f"{path}/web-app", {"spec": spec, "status": status})

    async def play() -> None:
        await world.passes(1)
        retained = world.checkpoint("web-app-unreadable")
        assert retained["status"] == {**status, "version": "unreadable"}
        annotations = {"trellis.x-k8s.io/kept-from": "web-app", "trellis.x-k8s.io/kept-version": "v3"}
        assert retained["metadata"]["annotations"] == annotations
        assert world.target("web") == world.target("other") == {"cpu": "587m", "memory": "380258472"}
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 1

    world.run(play)


def test_checkpoints_that_cannot_be_listed_are_not_overwritten_by_a_fresh_start() -> None:
    world = World()
    world.add_workload("web", pods=1)

    async def play() -> None:
        await world.passes(3)

    world.run(play)
    stored = world.checkpoint("web-app")["status"]
    second = World()
    second.server.objects, second.server.version = world.server.objects, world.server.version
    second.usage = world.usage
    second.fault = lambda request: (
        error_response(500, "InternalError", "no")
        if request.path.endswith("checkpoints") and request.method == "GET"
        else None
    )

    async def later() -> None:
        await second.passes(3)
        assert second.checkpoint("web-app")["status"] == stored
        second.fault = lambda _request: None
        await second.passes(2)
        assert second.checkpoint("web-app")["status"]["totalSamplesCount"] > stored["totalSamplesCount"]

    second.run(later)


def test_a_vpa_with_another_target_begins_a_new_history() -> None:
    world = World()
    world.add_workload("web", cpu="4", memory="3Gi")
    world.add_workload("small")
    world.server.delete(f"{VPAS}/small")

    async def play() -> None:
        await world.passes(5)
        assert world.target("web")["cpu"] == "4742m"
        vpa = world.vpa("web")
        target = {**vpa["spec"]["targetRef"], "name": "small"}
        world.server.put(f"{VPAS}/web", {**vpa, "metadata": {"generation": 2}, "spec": {"targetRef": target}})
        await world.passes(2)
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        assert world.checkpoint("web-app")["status"]["totalSamplesCount"] == 4

    world.run(play)


def test_a_slow_server_gets_few_checkpoints_in_a_pass_and_all_of_them_in_time() -> None:
    world = World("--checkpoint-time-per-pass=0s")
    for number in range(30):
        world.add_workload(f"app-{number}", pods=1)

    async def play() -> None:
        await world.passes(1)
        first = world.writes("verticalpodautoscalercheckpoints")
        assert 20 <= first <= 29
        await world.passes(1)
        counts = [world.checkpoint(f"app-{number}-app")["status"]["totalSamplesCount"] for number in range(30)]
        assert min(counts) >= 1

    world.run(play)
