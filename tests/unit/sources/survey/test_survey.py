"""A survey from Prometheus alone: workloads, their usage, and reports of failures."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from support.builders.dumps import shop
from support.local_server import Handler, serving
from support.prometheus.kube_state_metrics import DAY, HASH, HOUR, MIB, NOW, STEP, SurveyedPrometheus
from support.prometheus.server import error
from trellis.base.errors import InvalidRecording, PrometheusError
from trellis.core.advice.survey.model import SurveyedContainer, SurveyedWorkload, SurveyResult
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.kube.flow_control import RetryBackoff
from trellis.runtime.settings.loader import WrittenValue
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.survey.cluster import list_cluster_workloads
from trellis.sources.survey.resume_file import ResumeFile, build_resume_key
from trellis.sources.survey.settings import survey_settings
from trellis.sources.survey.survey import PrometheusSurvey, PrometheusSurveyProgress

AT_ONCE = RetryBackoff(initial=0.0, maximum=0.0)
LENGTH = "2d"


def survey(
    handler: Handler,
    choice: WorkloadFilter = WorkloadFilter(),  # noqa: B008 - frozen
    resume: Path | None = None,
    **how: Any,
) -> SurveyResult:
    asked = SurveySettings(
        create_built_in_recommenders()[how.pop("recommender", "default")], totals=how.pop("totals", False)
    )
    present: SurveyObjects | None = how.pop("present", None)

    async def main() -> SurveyResult:
        async with serving(handler) as url:
            written = {"prometheus-address": url, "history-length": LENGTH, "prometheus-retries": "1"}
            settings = survey_settings({name: WrittenValue(value, name) for name, value in written.items()})
            figures = {**build_resume_key(settings, asked), "address": "always the same"}
            async with PrometheusClient(settings, environment={}, backoff=AT_ONCE) as client:
                keeping = ResumeFile(how.pop("now", NOW), resume, figures)
                return await PrometheusSurvey(client, settings, choice, asked, resume_file=keeping, **how).run(present)

    return asyncio.run(main())


def failing(
    server: SurveyedPrometheus, is_meant: Callable[[str], bool], response: Callable[[], web.Response | None]
) -> Handler:
    """The same server, but that it fails where it is asked something."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        form = await request.post()
        if is_meant(str(form.get("query", form.get("match[]", "")))):
            result = response()
            if result is not None:
                return result
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return await server(request)

    return handle


def names(result: SurveyResult) -> list[tuple[str, str, str]]:
    return [(workload.namespace, workload.kind, workload.name) for workload in result.workloads]


def one(result: SurveyResult) -> tuple[SurveyedWorkload, SurveyedContainer]:
    [workload] = result.workloads
    [container] = workload.containers
    return workload, container


def test_a_deployment_has_its_requests_and_estimates() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", pods=3, cpu=0.2, memory=400 * MIB)
    result = survey(server)
    workload, container = one(result)
    assert (workload.namespace, workload.api_version, workload.kind, workload.name) == (
        "shop",
        "apps/v1",
        "Deployment",
        "web",
    )
    assert (workload.pods, workload.desired_replicas) == (3, 3)
    assert (container.request.cpu, container.request.memory) == (1000, 1024 * MIB)
    assert math.isnan(container.limit.cpu)
    assert container.limit.memory == 1024 * MIB
    estimate = container.estimate
    assert estimate.target.cpu == pytest.approx(1.15 * 200, rel=0.1)
    assert estimate.target.memory == pytest.approx(1.15 * 400 * MIB, rel=0.1)
    assert estimate.lower.cpu <= estimate.target.cpu <= estimate.upper.cpu
    assert estimate.reason == "Recommended"
    assert estimate.confidence > 0.5
    assert (container.highest.cpu, container.highest.memory) == (200, 400 * MIB)
    assert container.samples == 3 * 289
    assert container.days == pytest.approx(1.0)
    assert not result.is_partial
    assert (
        result.values["margin-fraction" if "margin-fraction" in result.values else next(iter(result.values))]
        is not None
    )


def test_a_namespace_takes_one_query_per_resource() -> None:
    server = SurveyedPrometheus()
    for number in range(12):
        server.deploy("shop", f"web-{number}", days=0.2)
    result = survey(server)
    ranges = [item for item in server.asked if item.path == "/api/v1/query_range"]
    assert len(ranges) == 2
    assert result.effort.queries == len(server.asked)
    assert result.effort.repeated == 0
    assert result.effort.samples == 12 * 2 * round(0.2 * DAY / STEP + 1)
    assert result.effort.queries_per_container == 24


def test_a_namespace_where_nothing_runs_at_this_moment_is_found_by_its_past() -> None:
    server = SurveyedPrometheus()
    server.add_series("kube_deployment_spec_replicas", 0, {"namespace": "night", "deployment": "report"})
    times = [NOW - DAY + STEP * number for number in range(12)]
    for resource, used in (("cpu", 0.2), ("memory", 100 * MIB)):
        server.put(resource, ("night", f"report-{HASH}-x2k9b", "app"), dict.fromkeys(times, used))
    assert names(survey(server, WorkloadFilter.parse(["ni*"]))) == [("night", "Deployment", "report")]


def test_namespaces_are_chosen_by_patterns_and_kinds() -> None:
    server = SurveyedPrometheus()
    for namespace in ("team-a", "team-b", "kube-system"):
        server.deploy(namespace, "web", days=0.1)
    assert names(survey(server, WorkloadFilter.parse(["team-*"]))) == [
        ("team-a", "Deployment", "web"),
        ("team-b", "Deployment", "web"),
    ]
    assert names(survey(server, WorkloadFilter.parse(["!kube-*", "!team-b"]))) == [("team-a", "Deployment", "web")]
    nothing = survey(server, WorkloadFilter.parse(["team-*"], kinds=["sts"]))
    assert nothing.workloads == ()
    assert nothing.notes == ("no workload matches the selection",)


def test_deleted_pods_count_whatever_their_owner() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", cpu=0.1, days=0.2)
    # One is known by the name of its ReplicaSet's owner, the other by its own name alone.
    server.past.append(
        {
            "__name__": "kube_pod_owner",
            "namespace": "shop",
            "pod": "odd",
            "owner_kind": "ReplicaSet",
            "owner_name": "web-5f6b7c8d9f",
        }
    )
    server.past.append(
        {
            "__name__": "kube_replicaset_owner",
            "namespace": "shop",
            "replicaset": "web-5f6b7c8d9f",
            "owner_kind": "Deployment",
            "owner_name": "web",
        }
    )
    server.add_usage("shop", "odd", "app", cpu=3.0, days=0.5)
    server.add_usage("shop", "web-5f6b7c8d9f-bcdfg", "app", memory=900 * MIB, days=0.5)
    server.add_usage("shop", "nobodys", "app", cpu=50.0)
    _, container = one(survey(server))
    assert container.highest.cpu == 3000
    assert container.highest.memory == 900 * MIB


def test_jobs_of_a_cron_job_are_one_workload_also_when_none_runs() -> None:
    server = SurveyedPrometheus()
    server.add_series("kube_cronjob_info", 1, {"namespace": "shop", "cronjob": "report", "schedule": "* * * * *"})
    for number in range(3):
        server.add_usage("shop", f"report-2930561{number}-x2k9b", "report", cpu=0.5, days=0.2)
    workload, container = one(survey(server))
    assert (workload.kind, workload.name, workload.pods) == ("CronJob", "report", 0)
    assert container.samples > 0
    assert math.isnan(container.request.cpu)


def test_bare_pods_and_pods_of_unknown_kinds_are_workloads_too() -> None:
    server = SurveyedPrometheus()
    server.add_owner("shop", "debug", "<none>", "<none>")
    server.add_owner("shop", "kafka-0", "StrimziPodSet", "kafka")
    for pod in ("debug", "kafka-0"):
        server.add_requests("shop", pod, "app", 1.0, MIB)
        server.add_usage("shop", pod, "app", days=0.1)
    assert names(survey(server)) == [("shop", "Pod", "debug"), ("shop", "StrimziPodSet", "kafka")]


def test_hpas_are_read_with_their_targets() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", days=0.1)
    place = {"namespace": "shop", "horizontalpodautoscaler": "web-hpa"}
    target = {
        "scaletargetref_kind": "Deployment",
        "scaletargetref_name": "web",
        "scaletargetref_api_version": "apps/v1",
    }
    server.add_series("kube_horizontalpodautoscaler_info", 1, place | target)
    server.add_series("kube_horizontalpodautoscaler_spec_min_replicas", 2, place)
    server.add_series("kube_horizontalpodautoscaler_spec_max_replicas", 9, place)
    server.add_series("kube_horizontalpodautoscaler_status_current_replicas", 3, place)
    metric = "kube_horizontalpodautoscaler_spec_target_metric"
    server.add_series(metric, 70, place | {"metric_name": "cpu", "metric_target_type": "utilization"})
    server.add_series(metric, 5, place | {"metric_name": "requests", "metric_target_type": "average"})
    workload, _ = one(survey(server))
    [hpa] = workload.hpas
    assert (hpa.name, hpa.least, hpa.most, hpa.replicas, hpa.others) == ("web-hpa", 2, 9, 3, 1)
    assert [(item.resource, item.utilization) for item in hpa.targets] == [("cpu", 70.0)]


def test_a_kill_for_lack_of_memory_counts() -> None:
    def surveyed(*, killed: bool) -> SurveyedContainer:
        server = SurveyedPrometheus()
        [pod] = server.deploy("shop", "web", memory=300 * MIB)
        if killed:
            place = {"namespace": "shop", "pod": pod, "container": "app"}
            reason = "kube_pod_container_status_last_terminated_reason"
            server.add_series(reason, 1, place | {"reason": "OOMKilled"})
            server.add_series("kube_pod_container_status_last_terminated_timestamp", NOW - 30 * HOUR, place)
        return one(survey(server))[1]

    without, killed = surveyed(killed=False), surveyed(killed=True)
    assert (without.kills, killed.kills, killed.last_kill) == (0, 1, NOW - 30 * HOUR)
    assert killed.estimate.target.memory > 1.1 * without.estimate.target.memory


def test_workloads_of_a_cluster_have_the_usage_in_prometheus() -> None:
    server = SurveyedPrometheus()
    cluster = asyncio.run(list_cluster_workloads(shop().client, WorkloadFilter(), "shop"))
    for pod in cluster.pods:
        if pod.metadata.namespace == "shop":
            server.add_usage("shop", pod.metadata.name, "app", cpu=0.3)
    deleted = {"namespace": "shop", "pod": "odd", "owner_kind": "ReplicaSet", "owner_name": "web-667788999"}
    server.past.append({"__name__": "kube_pod_owner", **deleted})
    made = {"namespace": "shop", "replicaset": "web-667788999", "owner_kind": "Deployment", "owner_name": "web"}
    server.past.append({"__name__": "kube_replicaset_owner", **made})
    server.add_usage("shop", "odd", "app", cpu=0.9, days=0.2)
    result = survey(server, WorkloadFilter.parse(["shop"]), present=cluster)
    workload, container = one(result)
    assert (workload.pods, workload.vpas, [hpa.name for hpa in workload.hpas]) == (2, ("web-vpa",), ["web-hpa"])
    assert (container.request.cpu, container.highest.cpu) == (500, 900)
    assert container.estimate.target.cpu > 300
    assert not result.is_partial


def test_without_prometheus_workloads_of_a_cluster_have_no_estimates() -> None:
    cluster = asyncio.run(list_cluster_workloads(shop().client, WorkloadFilter(), "shop"))
    result = survey(failing(SurveyedPrometheus(), lambda _query: True, lambda: None), present=cluster)
    assert len(result.workloads) == 3
    assert {item.what for item in result.missing} == {"deleted pods", "usage"}
    assert all(math.isnan(c.estimate.target.cpu) for workload in result.workloads for c in workload.containers)


def test_labels_that_prometheus_renamed_are_read() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", days=0.1)
    for labels, _ in server.state:
        for name in ("namespace", "pod", "container"):
            if name in labels:
                labels[f"exported_{name}"] = labels.pop(name)
        labels["namespace"] = "monitoring"
    workload, container = one(survey(server))
    assert (workload.namespace, workload.kind, workload.name) == ("shop", "Deployment", "web")
    assert container.request.cpu == 1000


def test_without_kube_state_metrics_workloads_are_guessed_by_names_with_a_note() -> None:
    server = SurveyedPrometheus()
    for pod in (f"web-{HASH}-x2k9b", f"web-{HASH}-x2k9c", "db-0", "debug"):
        server.add_usage("shop", pod, "app", days=0.1)
    result = survey(server)
    assert names(result) == [("shop", "Deployment", "web"), ("shop", "Pod", "debug"), ("shop", "StatefulSet", "db")]
    assert result.is_partial
    assert "derived from the names of pods" in result.missing[0].why


def test_no_metrics_at_all_is_reported() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web")
    server.usage = {"cpu": {}, "memory": {}}
    result = survey(server)
    _, container = one(result)
    assert container.samples == 0
    assert math.isnan(container.estimate.target.cpu)
    assert len(result.notes) == 1
    assert "has no usage of these workloads" in result.notes[0]


def test_cpu_that_is_scraped_too_rarely_for_a_rate_is_reported() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web")
    server.usage["cpu"] = {}
    result = survey(server)
    assert math.isnan(one(result)[1].highest.cpu)
    (note,) = result.notes
    assert "has memory and no CPU usage of these workloads" in note
    assert "take a longer --resolution" in note


def test_too_many_samples_are_queried_in_parts() -> None:
    server = SurveyedPrometheus(most_samples=400)
    server.deploy("shop", "web", pods=2, cpu=0.2, days=1.0)
    _, container = one(survey(server))
    assert container.samples == 2 * 289
    assert container.highest.cpu == 200


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(lambda: error(503, "", "starting up"), id="503"),
        pytest.param(lambda: None, id="closes midway"),
        pytest.param(lambda: error(400, "bad_data", "no"), id="refused"),
        pytest.param(lambda: web.Response(body=b'{"status":"success","data":{"res'), id="half an answer"),
    ],
)
def test_an_unreadable_namespace_is_reported_and_affects_no_other(
    response: Callable[[], web.Response | None],
) -> None:
    server = SurveyedPrometheus()
    for namespace in ("shop", "office", "zoo"):
        server.deploy(namespace, "web", days=0.1)
    result = survey(failing(server, lambda query: "rate(" in query and '"shop"' in query, response))
    assert result.is_partial
    assert [(item.what, item.where) for item in result.missing] == [("usage", "shop")]
    known = {workload.namespace: workload.containers[0].samples > 0 for workload in result.workloads}
    assert known == {"office": True, "shop": False, "zoo": True}


def test_a_failed_query_is_retried() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", days=0.1)
    failures = [error(503, "", "starting up")]
    result = survey(failing(server, lambda query: "rate(" in query and bool(failures), failures.pop))
    assert not result.is_partial
    assert result.effort.repeated == 1


def test_an_unreachable_prometheus_ends_the_survey_after_two_namespaces() -> None:
    server = SurveyedPrometheus()
    for number in range(9):
        server.deploy(f"team-{number}", "web", days=0.1)
    asked: list[str] = []

    def is_usage(query: str) -> bool:
        asked.extend([query] if "rate(" in query else [])
        return "rate(" in query

    result = survey(failing(server, is_usage, lambda: None))
    assert [item.where for item in result.missing] == [f"team-{number}" for number in range(9)]
    assert len(asked) == 2 * 2, "two namespaces, each tried twice"


def test_a_prometheus_that_does_not_respond_is_an_error() -> None:
    with pytest.raises(PrometheusError, match="closed the connection"):
        survey(failing(SurveyedPrometheus(), lambda _query: True, lambda: None))


def test_invalid_values_and_duplicate_series_are_ignored() -> None:
    server = SurveyedPrometheus()
    [pod] = server.deploy("shop", "web", cpu=0.2, days=0.1)

    def twice(text: dict[str, Any]) -> dict[str, Any]:
        result = text["data"]["result"]
        result += [{**item, "values": [[time, "NaN"] for time, _ in item["values"][:5]]} for item in result]
        return text

    async def handle(request: web.BaseRequest) -> web.StreamResponse:

        response = await server(request)
        if request.path != "/api/v1/query_range":
            return response
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        return web.json_response(twice(json.loads(response.body)))

    _, container = one(survey(handle))
    assert container.highest.cpu == 200
    assert 24 <= container.samples <= 29
    assert pod


def test_an_interrupted_survey_resumes_with_the_same_result(tmp_path: Path) -> None:
    server = SurveyedPrometheus()
    for namespace, cpu in (("office", 0.1), ("shop", 0.4), ("zoo", 0.7)):
        server.deploy(namespace, "web", cpu=cpu, days=0.5)
    complete = survey(server)
    file = tmp_path / "survey"
    stops = iter([False, True, True])
    part = survey(server, resume=file, stop=lambda: next(stops))
    assert [(item.where, item.why) for item in part.missing] == [
        (name, "the survey was stopped before this namespace") for name in ("shop", "zoo")
    ]
    with file.open("ab") as text:
        text.write(b'{"kind":"namespace","da')  # whoever wrote it was stopped there
    server.asked.clear()
    resumed = survey(server, resume=file, now=NOW + 500)
    asked = [item.parameters["query"] for item in server.asked if item.path == "/api/v1/query_range"]
    assert not any("office" in query for query in asked)
    assert resumed.workloads == complete.workloads
    assert resumed.time == NOW
    assert survey(server, resume=file).workloads == complete.workloads


def test_totals_of_workloads_are_read_on_request() -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", pods=3, cpu=0.2, memory=400 * MIB)
    deleted = f"web-{HASH}-zzzzz"
    server.put("cpu", ("shop", deleted, "app"), dict.fromkeys([NOW - DAY, NOW - 1.5 * DAY], 0.5))
    assert one(survey(server))[0].totals is None
    totals = one(survey(server, totals=True))[0].totals
    assert totals is not None
    assert (totals.step, totals.start, len(totals.pods)) == (STEP, NOW - 2 * DAY, 577)
    assert totals.pods.tolist() == [0] * 144 + [1] + [0] * 143 + [4] + [3] * 288
    assert totals.cpu[[144, 288, 289, 576]].tolist() == pytest.approx([500, 1100, 600, 600])
    assert totals.memory[[288, 576]].tolist() == [1200 * MIB] * 2
    assert math.isnan(totals.cpu[0])
    assert math.isnan(totals.memory[144])


def test_totals_are_counted_for_scalable_workloads_only() -> None:
    server = SurveyedPrometheus()
    server.add_owner("shop", "agent-x2k9b", "DaemonSet", "agent")
    server.add_usage("shop", "agent-x2k9b", "app", days=0.1)
    assert one(survey(server, totals=True))[0].totals is None


def test_totals_survive_an_interruption(tmp_path: Path) -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", pods=2, days=0.5)
    complete = one(survey(server, resume=tmp_path / "survey", totals=True))[0].totals
    server.asked.clear()
    second = one(survey(server, resume=tmp_path / "survey", totals=True))[0].totals
    assert not any(item.path == "/api/v1/query_range" for item in server.asked)
    assert complete is not None
    assert second is not None
    assert second.pods.tolist() == complete.pods.tolist()
    np.testing.assert_array_equal(second.cpu, complete.cpu)
    np.testing.assert_array_equal(second.memory, complete.memory)
    with pytest.raises(InvalidRecording, match="totals of workloads"):
        survey(server, resume=tmp_path / "survey")


def test_a_file_of_another_survey_is_refused(tmp_path: Path) -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", days=0.1)
    survey(server, resume=tmp_path / "survey")
    with pytest.raises(InvalidRecording, match="hourly history"):
        survey(server, resume=tmp_path / "survey", recommender="seasonal")
    (tmp_path / "other").write_text("hello\n")
    with pytest.raises(InvalidRecording, match="line 1"):
        survey(server, resume=tmp_path / "other")


@pytest.mark.parametrize("recommender", ["default", "window", "seasonal", "adaptive", "phases"])
def test_any_recommender_can_estimate(recommender: str) -> None:
    server = SurveyedPrometheus()
    server.deploy("shop", "web", cpu=0.2, days=2.0)
    result = survey(server, recommender=recommender)
    _, container = one(result)
    assert result.recommender == recommender
    assert container.estimate.target.cpu == pytest.approx(200, rel=0.4)


def test_progress_ends_at_the_total() -> None:
    server = SurveyedPrometheus()
    for namespace in ("office", "shop"):
        server.deploy(namespace, "web", days=0.1)
    reports: list[PrometheusSurveyProgress] = []
    result = survey(server, report=reports.append)
    assert [item.namespace for item in reports] == ["office", "office", "shop", "shop", ""]
    assert [item.done for item in reports] == [0, 1, 1, 2, 2]
    assert reports[-1].samples == result.effort.samples
