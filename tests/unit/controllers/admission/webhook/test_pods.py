"""Pods that are made get the size of whatever governs them, and are never refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.controllers.admission import NAMESPACE, World, build_pod_review, get_requests, owner, pod
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

SIZED = {"cpu": "400m", "memory": "300Mi"}
PLAIN = {"cpu": "100m", "memory": "100Mi"}


def test_pod_gets_what_is_recommended() -> None:
    world = World()
    world.add_app()

    async def play() -> None:
        sized = await world.admit(pod())
        assert get_requests(sized) == SIZED
        assert sized["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "800m", "memory": "600Mi"}
        assert sized["metadata"]["annotations"]["vpaObservedContainers"] == "app"
        assert world.metric_value('vpa_admission_controller_admission_pods_total{applied="true"}') == 1
        assert world.metric_value('trellis_admission_reviews_total{reason="PodSized",resource="Pod"}') == 1
        assert world.metric_value('vpa_admission_controller_execution_latency_seconds_count{step="admit"}') == 1
        applied = 'vpa_admission_controller_admission_latency_seconds_count{resource="Pod",status="applied"}'
        assert world.metric_value(applied) == 1

    world.run(play)


@pytest.mark.req("AR-19")
def test_requirements_on_changes_do_not_keep_a_new_pod_from_its_size() -> None:
    world = World()
    requirements = [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]
    world.add_app(advice={"app": {"cpu": "50m"}}, updatePolicy={"actuationRequirements": requirements})

    async def play() -> None:
        assert get_requests(await world.admit(pod()))["cpu"] == "50m"

    world.run(play)


def test_recommendation_that_changes_reaches_the_next_pod() -> None:
    world = World()
    world.add_app()

    async def play() -> None:
        assert get_requests(await world.admit(pod())) == SIZED
        world.add_vpa("web", advice={"app": {"cpu": "500m"}})
        await asyncio.sleep(1)
        assert get_requests(await world.admit(pod())) == {"cpu": "500m", "memory": "100Mi"}
        world.server.delete(f"/apis/autoscaling.k8s.io/v1/namespaces/{NAMESPACE}/verticalpodautoscalers/web")
        await asyncio.sleep(1)
        assert await world.admit(pod()) == pod()

    world.run(play)


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([], id="nobody's"),
        pytest.param([owner("Node", "node-1", "v1")], id="static"),
        pytest.param([{**owner("ReplicaSet", "web-x"), "controller": False}], id="owned but not controlled"),
    ],
)
def test_pod_without_a_controller_is_left_alone(owners: list[Any]) -> None:
    world = World()
    world.add_app()

    async def play() -> None:
        assert await world.admit(pod(owners=owners)) == pod(owners=owners)

    world.run(play)


def test_pod_whose_labels_its_target_does_not_select_is_left_alone() -> None:
    world = World()
    world.add_app()
    stranger = pod()
    stranger["metadata"]["labels"] = {"app": "another"}

    async def play() -> None:
        assert await world.admit(stranger) == stranger

    world.run(play)


def test_pods_of_namespaces_that_are_ignored_are_left_alone() -> None:
    world = World(f"--ignored-vpa-object-namespaces={NAMESPACE}")
    world.add_app()

    async def play() -> None:
        assert await world.admit(pod()) == pod()

    world.run(play)


def test_mode_off_changes_nothing() -> None:
    world = World()
    world.add_app(updatePolicy={"updateMode": "Off"})

    async def play() -> None:
        assert await world.admit(pod()) == pod()

    world.run(play)


@pytest.mark.req("SB-04")
def test_in_mode_off_a_boost_raises_the_pods_own_cpu_and_changes_nothing_else() -> None:
    world = World()
    world.add_app(updatePolicy={"updateMode": "Off"}, **_BOOST)

    async def play() -> None:
        boosted = await world.admit(pod())
        raised = {"requests": {"cpu": "300m", "memory": "100Mi"}, "limits": {"cpu": "600m", "memory": "200Mi"}}
        assert boosted["spec"] == pod(resources=raised)["spec"]
        assert "vpaCpuStartupBoost/app" in boosted["metadata"]["annotations"]

    world.run(play)


def test_vpa_that_acts_governs_before_an_older_one_that_does_not() -> None:
    world = World()
    world.add_app(
        "web", advice={"app": {"cpu": "1"}}, updatePolicy={"updateMode": "Off"}, created="2020-01-01T00:00:00Z"
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    world.add_vpa("younger", target=target)

    async def play() -> None:
        assert get_requests(await world.admit(pod())) == SIZED

    world.run(play)


def test_oldest_of_several_governs() -> None:
    world = World()
    world.add_app("web", advice={"app": {"cpu": "1"}})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    world.add_vpa("older", target=target, created="2020-01-01T00:00:00Z")

    async def play() -> None:
        assert get_requests(await world.admit(pod())) == SIZED

    world.run(play)


def test_hvpa_sizes_its_pods_unless_a_vpa_acts() -> None:
    world = World()
    world.add_app(updatePolicy={"updateMode": "Off"})
    world.add_hvpa("web", {"app": {"cpu": "700m"}})

    async def play() -> None:
        assert get_requests(await world.admit(pod()))["cpu"] == "700m"
        world.add_vpa("web")
        await asyncio.sleep(1)
        assert get_requests(await world.admit(pod())) == SIZED

    world.run(play)


@pytest.mark.parametrize(
    ("plural", "kind", "api_version", "spec"),
    [
        ("statefulsets", "StatefulSet", "apps/v1", {"selector": {"matchLabels": {"app": "web"}}}),
        ("daemonsets", "DaemonSet", "apps/v1", {"selector": {"matchLabels": {"app": "web"}}}),
        ("replicasets", "ReplicaSet", "apps/v1", {"selector": {"matchLabels": {"app": "web"}}}),
        ("jobs", "Job", "batch/v1", {"selector": {"matchLabels": {"app": "web"}}}),
    ],
)
def test_every_kind_of_controller_can_be_a_target(
    plural: str, kind: str, api_version: str, spec: dict[str, Any]
) -> None:
    world = World()
    world.add_workload(plural, "web", **spec)
    world.add_vpa("web", target={"apiVersion": api_version, "kind": kind, "name": "web"})

    async def play() -> None:
        assert get_requests(await world.admit(pod(owners=[owner(kind, "web", api_version)]))) == SIZED

    world.run(play)


def test_pods_of_cron_jobs_are_sized_by_the_cron_job() -> None:
    world = World()
    template = {"spec": {"template": {"metadata": {"labels": {"app": "web"}}}}}
    world.add_workload("cronjobs", "web", jobTemplate=template)
    world.add_workload("jobs", "web-1", owners=[owner("CronJob", "web", "batch/v1")])
    world.add_vpa("web", target={"apiVersion": "batch/v1", "kind": "CronJob", "name": "web"})

    async def play() -> None:
        assert get_requests(await world.admit(pod(owners=[owner("Job", "web-1", "batch/v1")]))) == SIZED

    world.run(play)


def test_selector_that_changes_is_heeded() -> None:
    world = World()
    path = f"/api/v1/namespaces/{NAMESPACE}/replicationcontrollers/web"
    world.server.put(path, {"spec": {"selector": {"app": "web"}}})
    world.add_vpa("web", target={"apiVersion": "v1", "kind": "ReplicationController", "name": "web"})
    ours = pod(owners=[owner("ReplicationController", "web", "v1")])

    async def play() -> None:
        assert get_requests(await world.admit(ours)) == SIZED
        world.server.put(path, {"spec": {"selector": {"app": "other"}}})
        await asyncio.sleep(1)
        assert get_requests(await world.admit(ours)) == PLAIN

    world.run(play)


def test_limit_range_of_the_namespace_bounds_the_size() -> None:
    world = World()
    world.add_app()
    path = f"/api/v1/namespaces/{NAMESPACE}/limitranges/most"
    world.server.put(path, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "600m"}}]}})

    async def play() -> None:
        assert get_requests(await world.admit(pod()))["cpu"] == "300m"
        world.server.delete(path)
        await asyncio.sleep(1)
        assert get_requests(await world.admit(pod()))["cpu"] == "400m"

    world.run(play)


def test_controller_that_no_watch_has_brought_yet_is_asked_for() -> None:
    world = World()
    world.add_app()
    late = pod(owners=[owner("ReplicaSet", "web-late")])
    replica_set = {
        "metadata": {"name": "web-late", "namespace": NAMESPACE, "ownerReferences": [owner("Deployment", "web")]}
    }
    world.fault = lambda request: json_response(replica_set) if request.path.endswith("/replicasets/web-late") else None

    async def play() -> None:
        many = await asyncio.gather(*(world.admit(late) for _ in range(20)))
        assert [get_requests(pod) for pod in many] == [SIZED] * 20
        # One question for all of them, and none for the next.
        assert get_requests(await world.admit(late)) == SIZED
        assert world.count_single_gets("/replicasets/web-late") == 1
        assert world.metric_value('trellis_admission_lookups_total{result="found"}') == 1

    world.run(play)


def test_controller_that_does_not_exist_is_asked_for_once_in_a_while() -> None:
    world = World()
    world.add_app()
    orphan = pod(owners=[owner("ReplicaSet", "gone")])

    async def play() -> None:
        for _ in range(3):
            assert await world.admit(orphan) == orphan
        assert world.count_single_gets("/replicasets/gone") == 1
        assert world.metric_value('trellis_admission_reviews_total{reason="PodOwnerUnknown",resource="Pod"}') == 3
        await asyncio.sleep(6)
        await world.admit(orphan)
        assert world.count_single_gets("/replicasets/gone") == 2

    world.run(play)


def test_nothing_is_asked_for_where_nothing_governs() -> None:
    world = World()
    world.add_app()

    async def play() -> None:
        stranger = pod(owners=[owner("ReplicaSet", "unknown")])
        assert await world.admit(stranger, namespace="another") == stranger
        assert world.count_single_gets("/replicasets/unknown") == 0

    world.run(play)


def test_pod_waits_for_its_controller_no_longer_than_the_deadline() -> None:
    world = World("--owner-lookup-deadline=300ms")
    world.add_app()
    late = pod(owners=[owner("ReplicaSet", "web-late")])

    async def play() -> None:
        send = world.server.transport.send

        async def slow(request: Request) -> Any:
            if "web-late" in request.path:
                await asyncio.sleep(60)
            return await send(request)

        world.server.transport.send = slow  # type: ignore[method-assign]
        clock = asyncio.get_running_loop().time
        began = clock()
        assert await world.admit(late) == late
        assert clock() - began == pytest.approx(0.3)
        assert world.metric_value('trellis_admission_lookups_total{result="timeout"}') == 1
        assert world.metric_value("trellis_admission_lookup_seconds_count") == 1

    world.run(play)


def test_a_server_that_refuses_the_lookup_of_an_owner_delays_no_admission() -> None:
    world = World()
    world.add_app()
    late = pod(owners=[owner("ReplicaSet", "web-late")])

    def refuse(request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "no") if request.path.endswith("/web-late") else None

    world.fault = refuse

    async def play() -> None:
        assert await world.admit(late) == late
        assert world.metric_value('trellis_admission_lookups_total{result="failed"}') == 1

    world.run(play)


@pytest.mark.parametrize(("kind", "plural"), [("Rollout", "rollouts"), ("StatefulSet", "statefulsets")])
def test_target_of_a_foreign_kind_is_known_before_its_first_pod_comes(kind: str, plural: str) -> None:
    world = World()
    world.add_vpa("web", target={"apiVersion": "example.com/v1", "kind": kind, "name": "web"})
    world.add_workload("replicasets", "web-x", owners=[owner(kind, "web", "example.com/v1")])
    scale = {"status": {"selector": "app=web"}, "metadata": {"name": "web", "namespace": NAMESPACE}}
    asks = f"/apis/example.com/v1/namespaces/{NAMESPACE}/{plural}/web/scale"
    world.fault = lambda request: json_response(scale) if request.path == asks else None

    async def play() -> None:
        await asyncio.sleep(1)
        asked = len(world.server.requests)
        assert get_requests(await world.admit(pod())) == SIZED
        assert len(world.server.requests) == asked

    world.run(play)


def test_a_pod_created_before_caches_are_synced_is_admitted() -> None:
    world = World()
    world.add_app()

    def blind(request: Request) -> ScriptedResponse | None:
        return error_response(500, "InternalError", "not now") if request.path.endswith("/replicasets") else None

    world.fault = blind

    async def play() -> None:
        response = await world.review(build_pod_review(pod()))
        assert response["allowed"] is True
        assert "patch" not in response
        assert response["warnings"] == [
            "A new pod was admitted unchanged, because the caches of the admission controller had not synced."
        ]
        assert world.admission.find_readiness_problem() == "caches not synced: replicasets.apps"
        world.fault = lambda _request: None
        await asyncio.sleep(60)
        assert world.admission.find_readiness_problem() is None
        assert get_requests(await world.admit(pod())) == SIZED

    world.run(play, wait_until_ready=False)


_BOOST: dict[str, Any] = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}


@pytest.mark.req("SB-01", "SB-42")
def test_pod_is_boosted_when_it_is_made() -> None:
    world = World()
    world.add_app(**_BOOST)

    async def play() -> None:
        boosted = await world.admit(pod())
        assert get_requests(boosted) == {"cpu": "1200m", "memory": "300Mi"}
        assert boosted["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2400m", "memory": "600Mi"}
        assert "vpaCpuStartupBoost/app" in boosted["metadata"]["annotations"]

    world.run(play)


@pytest.mark.req("SB-45", "SB-46")
@pytest.mark.parametrize(
    ("flags", "resizable"),
    [(("--feature-gates=CPUStartupBoost=false",), True), ((), False)],
    ids=["gate", "old server"],
)
def test_nothing_is_boosted_that_could_not_be_lowered_again(flags: tuple[str, ...], resizable: bool) -> None:
    world = World(*flags, resizable=resizable)
    world.add_app(**_BOOST)

    async def play() -> None:
        plain = await world.admit(pod())
        assert get_requests(plain) == SIZED
        assert "vpaCpuStartupBoost/app" not in plain["metadata"]["annotations"]

    world.run(play)


@pytest.mark.req("SB-23")
def test_flag_caps_the_boost() -> None:
    world = World("--max-allowed-cpu-boost=1")
    world.add_app(**_BOOST)

    async def play() -> None:
        assert get_requests(await world.admit(pod()))["cpu"] == "1"

    world.run(play)


def _node(cpu: str) -> dict[str, Any]:
    return {"status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}}


def test_boost_is_cut_to_what_some_node_could_give_if_that_is_asked_for() -> None:
    world = World("--require-fit=true")
    world.add_app(**_BOOST)
    world.server.put("/api/v1/nodes/small", _node("900m"))

    async def play() -> None:
        assert get_requests(await world.admit(pod()))["cpu"] == "900m"
        world.server.put("/api/v1/nodes/large", _node("8"))
        await asyncio.sleep(1)
        assert get_requests(await world.admit(pod()))["cpu"] == "1200m"
        world.server.delete("/api/v1/nodes/large")
        await asyncio.sleep(1)
        assert get_requests(await world.admit(pod()))["cpu"] == "900m"

    world.run(play)


def test_an_amount_that_is_none_is_no_error_of_ours() -> None:
    """The API server refuses such a pod in its own words."""
    world = World("--require-fit=true")
    world.add_app(**_BOOST)
    world.server.put("/api/v1/nodes/small", _node("900m"))

    async def play() -> None:
        response = await world.review(build_pod_review(pod(resources={"requests": {"cpu": "lots", "memory": "1Gi"}})))
        assert response["allowed"] is True
        assert world.metric_value("trellis_admission_failures_total") == 0

    world.run(play)


def test_boost_that_fits_no_node_is_mentioned() -> None:
    world = World()
    world.add_app(**_BOOST)
    world.server.put("/api/v1/nodes/small", _node("900m"))

    async def play() -> None:
        response = await world.review(build_pod_review(pod()))
        assert get_requests(await world.admit(pod()))["cpu"] == "1200m"
        assert len(response["warnings"]) == 1

    world.run(play)
