"""The Buffer controller: what it follows, what it writes and what it leaves alone."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from support.api_server.server import Document, pod_path
from support.controllers.buffers import NAMESPACE, NODES_LEASE, TWO_OF_WEB, World, path
from support.worlds.buffers import app
from trellis.base.durations import Duration
from trellis.base.errors import Unreachable
from trellis.controllers.buffers.process import BufferController
from trellis.testing.scripted_transport import error_response

TEN_PERCENT = {**TWO_OF_WEB, "capacity": {"replicas": {"percent": {"percent": 10, "minCount": 1}}}}
FIVE_PODS = {"replicaNum": 5, "podLabels": {"team": "ci"}, "podSpec": {"containers": [app(cpu="1")]}}


def world_with(replicas: int = 2, **buffer: Any) -> World:
    """A Deployment of so many replicas, and a Buffer about it."""
    world = World()
    world.add_workload(replicas=replicas)
    world.add_buffer(**buffer)
    return world


def target(kind: str, name: str = "web", version: str = "apps/v1") -> dict[str, Any]:
    return {"targetRef": {"apiVersion": version, "kind": kind, "name": name}}


@pytest.mark.req("BF-07", "BF-12")
def test_the_chunks_of_a_buffer_are_shaped_like_the_newest_pod_of_its_target() -> None:
    world = world_with()
    world.add_pod("web", {"containers": [app(cpu="750m", memory="2Gi")], "nodeName": "node-1"})
    # Newer still, and not of the target.
    world.add_pod("api", {"containers": [app(cpu="3", memory="8Gi")]})

    async def play(_: BufferController) -> None:
        assert world.chunks() == 2
        assert world.requests() == {"cpu": "750m", "memory": "2Gi"}
        assert world.pod_based_spec()["podLabels"] == {"app": "web"}
        assert world.condition() == ("True", "BufferReady")
        assert world.condition("LimitedByQuotas") == ("False", "WithinQuotas")
        assert "hunter2" not in str(world.status())
        assert world.status()["observedGeneration"] == 1

    world.run(play)


@pytest.mark.req("BF-14")
def test_different_pods_count_as_shaped_like_the_newest() -> None:
    world = World()
    world.add_workload(replicas=3, pods=0)
    for cpu in ("1", "3", "2"):
        world.add_pod("web", {"containers": [app(cpu=cpu)]})
    world.add_buffer(**TWO_OF_WEB, capacity={"replicas": {"exactly": 5}})

    async def play(_: BufferController) -> None:
        assert (world.chunks(), world.requests()) == (5, {"cpu": "2"})

    world.run(play)


@pytest.mark.req("BF-15", "BF-23")
def test_size_and_shape_follow_the_target_within_a_second() -> None:
    world = world_with(40, **TEN_PERCENT)

    async def play(_: BufferController) -> None:
        assert world.chunks() == 4
        world.scale(60)
        await world.wait(1.0)
        assert world.chunks() == 6
        world.add_pod("web", {"containers": [app(cpu="2", memory="4Gi")]})
        await world.wait(1.0)
        assert world.requests() == {"cpu": "2", "memory": "4Gi"}

    world.run(play)


def test_no_request_is_made_while_nothing_changes() -> None:
    world = world_with()

    async def play(_: BufferController) -> None:
        assert world.writes == 1
        before = len(world.server.requests)
        await world.wait(600.0)
        assert world.writes == 1
        requests = [request for request in world.server.requests[before:] if "watch" not in dict(request.query)]
        # Whether somebody else says that Buffers are provisioned is known by a Lease alone.
        assert [request for request in requests if request.path != NODES_LEASE] == []

    world.run(play)


def test_a_pod_that_only_becomes_ready_is_not_read_again() -> None:
    world = world_with()

    async def play(_: BufferController) -> None:
        where = pod_path("web-2")
        pod = world.server.objects[where]
        before = len(world.server.requests)
        world.put(where, {**pod, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
        await world.wait(1.0)
        assert [request for request in world.server.requests[before:] if request.path == where] == []

    world.run(play)


@pytest.mark.req("BF-13")
def test_without_a_pod_the_shape_is_the_template_as_admission_stores_it() -> None:
    world = World()
    world.admit = lambda pod: {**pod, "spec": {**pod["spec"], "priority": 7, "priorityClassName": "high"}}
    world.add_workload(replicas=0)
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.pod_based_spec()["podSpec"]["priority"] == 7
        assert world.requests() == {"cpu": "500m", "memory": "1Gi"}
        assert "template" in world.message()
        await world.wait(300.0)
        world.scale(0)
        await world.wait(1.0)
        assert world.dry_runs == 1

    world.run(play)


def test_without_dry_runs_the_shape_is_the_template_with_the_defaults_of_limit_ranges() -> None:
    world = World(admission_dry_run=False)
    world.add_workload(replicas=0, template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [app()]}})
    world.add_buffer()

    def put_default(cpu: str) -> None:
        item = {"type": "Container", "defaultRequest": {"cpu": cpu}}
        world.put(path("limitranges", "defaults"), {"spec": {"limits": [item]}})

    put_default("250m")

    async def play(_: BufferController) -> None:
        assert world.requests() == {"cpu": "250m"}
        put_default("300m")
        await world.wait(5.0)
        assert world.requests() == {"cpu": "300m"}
        assert (world.dry_runs, world.condition()) == (0, ("True", "BufferReady"))

    world.run(play)


def test_the_dry_run_of_a_stateful_set_has_its_volumes_which_are_noted() -> None:
    world = World()
    observed: list[Any] = []

    def admit(pod: Document) -> Document:
        observed.append(pod["spec"]["volumes"])
        return pod

    world.admit = admit
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    world.add_workload(replicas=0, plural="statefulsets", volumeClaimTemplates=claims)
    world.add_buffer(**target("StatefulSet"), capacity={"replicas": {"exactly": 1}})

    async def play(_: BufferController) -> None:
        assert observed == [[{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]]
        assert world.condition() == ("True", "BufferReady")
        assert "data-web-0" in world.message()
        assert world.count_events("VolumesDropped") == 1

    world.run(play)


@pytest.mark.req("BF-24")
@pytest.mark.parametrize(
    ("plural", "kind", "version"),
    [
        ("deployments", "Deployment", "apps/v1"),
        ("replicasets", "ReplicaSet", "apps/v1"),
        ("statefulsets", "StatefulSet", "apps/v1"),
        ("replicationcontrollers", "ReplicationController", "v1"),
        ("jobs", "Job", "batch/v1"),
    ],
)
def test_a_percentage_is_of_the_replicas_of_any_well_known_kind(plural: str, kind: str, version: str) -> None:
    world = World()
    world.add_workload(replicas=35, plural=plural, pods=1)
    world.add_buffer(**target(kind, version=version), capacity={"replicas": {"percent": {"percent": 10}}})

    async def play(_: BufferController) -> None:
        assert world.chunks() == 4

    world.run(play)


@pytest.mark.req("BF-22", "BF-24")
@pytest.mark.parametrize(
    ("plural", "kind", "version"), [("deployments", "Deployment", "apps/v1"), ("rollouts", "Rollout", "example.com/v1")]
)
def test_a_percentage_is_of_status_replicas_and_not_of_spec_replicas(plural: str, kind: str, version: str) -> None:
    world = World()
    world.add_workload(replicas=60, plural=plural, pods=1)
    result = world.server.objects[path(plural, "web")]
    world.put(path(plural, "web"), {**result, "status": {"replicas": 40, "selector": "app=web"}})
    world.add_buffer(**target(kind, version=version), capacity={"replicas": {"percent": {"percent": 10}}})

    async def play(_: BufferController) -> None:
        assert world.chunks() == 4

    world.run(play)


@pytest.mark.req("BF-24")
@pytest.mark.parametrize(("version", "chunks", "cpu"), [("apps.kruise.io/v1beta1", 4, "3"), ("apps/v1", 1, "500m")])
def test_a_kind_named_like_a_well_known_one_is_read_by_its_own_scale(version: str, chunks: int, cpu: str) -> None:
    world = World()
    world.add_workload(replicas=10, plural="statefulsets", pods=1)
    other = f"/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/statefulsets/web"
    world.put(other, {"spec": {}, "status": {"replicas": 40, "selector": "app=theirs"}})
    world.add_pod("theirs", {"containers": [app(cpu="3")]})
    world.add_buffer(**target("StatefulSet", version=version), capacity={"replicas": {"percent": {"percent": 10}}})

    async def play(_: BufferController) -> None:
        assert (world.chunks(), world.requests()["cpu"]) == (chunks, cpu)

    world.run(play)


@pytest.mark.req("BF-13", "BF-24")
def test_a_kind_without_a_template_waits_for_its_first_pod_and_keeps_its_shape_at_zero() -> None:
    world = World()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 0, "selector": "app=web"}})
    capacity = {"replicas": {"percent": {"percent": 50, "minCount": 1}}}
    world.add_buffer(**target("Rollout", version="example.com/v1"), capacity=capacity)

    async def play(_: BufferController) -> None:
        assert world.condition() == ("False", "TargetWithoutPods")
        assert world.chunks() is None
        world.add_pod("web")
        world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 3, "selector": "app=web"}})
        await world.wait(1.0)
        assert (world.chunks(), world.condition()) == (2, ("True", "BufferReady"))
        world.remove_pods("web")
        world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 0, "selector": "app=web"}})
        await world.wait(1.0)
        assert (world.chunks(), world.requests()["cpu"]) == (1, "500m")
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 3}})
        await world.wait(1.0)
        assert (world.chunks(), world.requests()["cpu"]) == (3, "500m")

    world.run(play)


@pytest.mark.req("BF-23")
def test_an_unwatched_scale_that_reports_its_pods_late_is_read_again_soon() -> None:
    world = World()
    world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 1, "selector": "app=web"}})
    world.add_pod("web")
    world.add_buffer(**target("Rollout", version="example.com/v1"), capacity={"replicas": {"percent": {"percent": 50}}})

    async def play(_: BufferController) -> None:
        assert world.chunks() == 1
        await world.wait(10.0)
        world.add_pod("web")
        await world.wait(1.0)
        world.put(path("rollouts", "web"), {"spec": {}, "status": {"replicas": 8, "selector": "app=web"}})
        await world.wait(4.0)
        assert world.chunks() == 4
        before = len(world.server.requests)
        await world.wait(40.0)
        scales = [request for request in world.server.requests[before:] if request.path.endswith("/scale")]
        assert len(scales) <= 2, "what does not change is not asked for every few seconds"

    world.run(play)


def test_a_recommendation_in_force_is_the_size_of_the_chunk() -> None:
    world = world_with()

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == "500m"
        world.add_vpa("1200m")
        await world.wait(1.0)
        assert world.requests()["cpu"] == "1200m"
        world.add_vpa("1300m", updatePolicy={"updateMode": "Off"})
        await world.wait(1.0)
        assert world.requests()["cpu"] == "500m"

    world.run(play)


@pytest.mark.parametrize(("owner", "cpu"), [("Game", "1200m"), ("Rollout", "500m")])
def test_a_vpa_applies_to_an_owned_deployment_unless_its_owner_is_scalable(owner: str, cpu: str) -> None:
    world = World()
    world.put(path("rollouts", "shop"), {"spec": {}, "status": {"replicas": 1, "selector": "app=web"}})
    world.add_workload()
    owners = [{"apiVersion": "example.com/v1", "kind": owner, "name": "shop", "controller": True}]
    result = world.server.objects[path("deployments", "web")]
    world.put(path("deployments", "web"), {**result, "metadata": {"ownerReferences": owners}})
    world.add_vpa("1200m")
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == cpu

    world.run(play)


@pytest.mark.parametrize("pods", [0, 1])
@pytest.mark.parametrize("labels", [{"app": "nightly-1"}, {}])
def test_a_vpa_on_a_cron_job_sizes_the_chunks_of_its_jobs(pods: int, labels: Document) -> None:
    world = cron_world(labels, pods)
    world.add_vpa("2", "nightly", "nightly", kind="CronJob")

    async def play(_: BufferController) -> None:
        assert (world.chunks(), world.requests()) == (2, {"cpu": "2", "memory": "1Gi"})
        world.add_vpa("3", "nightly", "nightly", kind="CronJob")
        await world.wait(2.0)
        assert world.requests()["cpu"] == "3"
        world.server.delete(path("verticalpodautoscalers", "nightly"))
        await world.wait(2.0)
        assert world.requests()["cpu"] == "500m"

    world.run(play)


def test_a_vpa_on_a_job_of_a_cron_job_sizes_no_chunk() -> None:
    world = cron_world({"app": "nightly-1"}, 1)
    world.add_vpa("2", "nightly", "nightly-1", kind="Job")

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == "500m"

    world.run(play)


def test_without_permission_to_read_cron_jobs_the_chunks_of_jobs_are_as_written() -> None:
    world = cron_world({"app": "nightly-1"}, 1)
    world.add_vpa("2", "nightly", "nightly", kind="CronJob")
    world.fault = lambda request: error_response(403, "Forbidden", "no") if request.path.endswith("/cronjobs") else None

    async def play(_: BufferController) -> None:
        await world.wait(10.0)
        assert (world.chunks(), world.requests()["cpu"]) == (2, "500m")
        world.fault = lambda _request: None
        await world.wait(120.0)
        assert world.requests()["cpu"] == "2"

    world.run(play)


def cron_world(labels: Document, pods: int) -> World:
    """A Job of two that a CronJob has made, whose template has these labels, and a Buffer of as many on the Job."""
    world = World()
    template = {"metadata": {"labels": labels}, "spec": {"containers": [app(cpu="500m", memory="1Gi")]}}
    world.put(path("cronjobs", "nightly"), {"spec": {"jobTemplate": {"spec": {"template": template}}}})
    world.add_workload("nightly-1", 2, "jobs", pods=pods)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u", "controller": True}
    where = path("jobs", "nightly-1")
    result = world.server.objects[where]
    world.put(where, {**result, "metadata": {**result["metadata"], "ownerReferences": [owner]}})
    world.add_buffer(**target("Job", "nightly-1", "batch/v1"), capacity={"replicas": {"exactly": 2}})
    return world


def test_the_decision_of_an_hvpa_is_the_size_of_a_chunk() -> None:
    world = world_with()
    bucket = {"replicas": {"min": 1}, "cpu": {"min": "0", "max": "24"}, "memory": {"min": "0", "max": "24Gi"}}
    part = {"containerName": "app", "target": {"cpu": "2", "memory": "3Gi"}}
    status = {"recommendation": {"containerRecommendations": [part]}}

    async def play(_: BufferController) -> None:
        world.put(path("hvpas", "web"), {"spec": {**TWO_OF_WEB, "buckets": [bucket]}, "status": status})
        await world.wait(1.0)
        assert world.requests() == {"cpu": "2", "memory": "3Gi"}

    world.run(play)


def test_a_startup_boost_is_part_of_the_chunk() -> None:
    world = world_with()
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "60s"}}

    async def play(_: BufferController) -> None:
        world.add_vpa("800m", startupBoost=boost)
        await world.wait(1.0)
        assert world.requests()["cpu"] == "2400m"

    world.run(play)


def test_a_boosted_newest_pod_is_not_boosted_twice() -> None:
    world = World()
    world.add_workload(pods=0)
    had = '{"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {}}'
    note = {"vpaCpuStartupBoost/app": had}
    world.add_pod("web", {"containers": [app(cpu="1500m", memory="1Gi")]}, annotations=note)
    world.add_vpa("800m", startupBoost={"cpu": {"type": "Factor", "factor": 3}}, updatePolicy={"updateMode": "Off"})
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.requests()["cpu"] == "1500m"

    world.run(play)


@pytest.mark.req("BF-19")
def test_other_types_and_kinds_set_aside_are_not_written() -> None:
    world = World(set_aside_target_kinds=("StatefulSet",))
    world.add_workload()
    world.add_buffer("foreign", **TWO_OF_WEB, type="example.com/other", capacity={"replicas": {"exactly": 2}})
    world.add_buffer("aside", **target("StatefulSet"), capacity={"replicas": {"exactly": 2}})

    async def play(_: BufferController) -> None:
        await world.wait(120.0)
        assert world.status("foreign") == world.status("aside") == {}
        assert (world.writes, world.events) == (0, [])
        assert world.metric_value('trellis_buffers_objects{reason="OtherBufferType"}') == 1
        assert world.metric_value('trellis_buffers_objects{reason="TargetKindExcluded"}') == 1

    world.run(play)


@pytest.mark.req("BF-37")
def test_both_writers_of_the_status_keep_each_others_fields() -> None:
    world = world_with()

    async def play(_: BufferController) -> None:
        world.provisioned()
        await world.wait(1.0)
        assert world.writes == 1
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 5}})
        await world.wait(1.0)
        assert world.chunks() == 5
        assert world.condition("Provisioned") == ("True", "AllThere")
        assert world.status()["lastFullyProvisioned"] == "2026-11-18T12:00:00Z"
        await world.wait(60.0)
        assert world.metric_value("trellis_buffers_last_full_timestamp_seconds") == 1_795_003_200.0

    world.run(play)


@pytest.mark.req("BF-45")
def test_an_edit_of_type_strategy_or_capacity_is_followed() -> None:
    world = world_with()

    async def play(_: BufferController) -> None:
        world.put(path("buffers", "web"), {"spec": {"capacity": {"pods": FIVE_PODS}}})
        await world.wait(1.0)
        assert (world.chunks(), world.requests()) == (5, {"cpu": "1"})
        assert world.pod_based_spec()["podLabels"] == {"team": "ci"}
        world.put(path("buffers", "web"), {"spec": {**TEN_PERCENT, "recreationStrategy": "KeepMinimum"}})
        await world.wait(1.0)
        assert (world.chunks(), world.requests()["cpu"]) == (1, "500m")
        status = world.status()
        world.put(path("buffers", "web"), {"spec": {**TEN_PERCENT, "type": "example.com/other"}, "status": status})
        world.scale(40)
        await world.wait(1.0)
        assert world.status() == status

    world.run(play)


@pytest.mark.req("BF-46")
def test_story_1_works_as_written() -> None:
    world = World()
    world.add_workload("my-deployment", replicas=35, pods=1)
    world.add_buffer(
        "story",
        **target("Deployment", "my-deployment"),
        type="buffer.x-k8s.io/active-capacity",
        recreationStrategy="keep-empty",
        replicaBasedBufferSpec={"replicasCountPercentage": 10, "minCount": 1},
    )

    async def play(_: BufferController) -> None:
        assert world.chunks("story") == 4

    world.run(play)


@pytest.mark.req("BF-48")
def test_story_2_is_split_into_chunks_for_the_smallest_node_and_follows_the_nodes() -> None:
    world = World()
    label = {"cloud.google.com__compute-class": "my-custom-class"}
    world.add_node("small", "7900m", **label)
    world.add_node("large", "31", **label)
    world.add_node("other", "2")
    world.add_buffer(
        "story",
        **target("CustomComputeClass", "my-custom-class"),
        type="buffer.x-k8s.io/active-capacity",
        recreationStrategy="keep-empty",
        nodeClassBufferSpec={"totalCpu": 40, "totalMem": "5120Mi"},
    )

    async def play(_: BufferController) -> None:
        assert (world.chunks("story"), world.requests("story")["cpu"]) == (6, "6666m")
        owner = {"kind": "DaemonSet", "name": "agent", "controller": True}
        spec = {"nodeName": "small", "containers": [app(cpu="2")]}
        world.add_pod("agent", spec, ownerReferences=[owner])
        await world.wait(1.0)
        assert (world.chunks("story"), world.requests("story")["cpu"]) == (7, "5714m")
        world.add_node("smaller", "5", **label)
        await world.wait(1.0)
        assert (world.chunks("story"), world.requests("story")["cpu"]) == (8, "5")

    world.run(play)


@pytest.mark.req("BF-52")
def test_pods_that_fill_a_dedicated_buffer_reduce_its_chunks() -> None:
    world = World()
    world.add_buffer(
        recreationStrategy="KeepMinimum",
        capacity={"pods": {"replicaNum": 10, "podSpec": {"containers": [app(cpu="1")]}}},
        podSelector={"matchLabels": {"team": "ci"}},
    )

    async def play(_: BufferController) -> None:
        assert world.chunks() == 10
        names = [world.add_pod("ci", {"containers": [app(cpu="1")]}, labels={"team": "ci"}) for _number in range(4)]
        world.add_pod("other", {"containers": [app(cpu="1")]}, labels={"team": "shop"})
        await world.wait(1.0)
        assert world.chunks() == 6
        world.server.delete(pod_path(names[0]))
        await world.wait(1.0)
        assert world.chunks() == 7

    world.run(play)


def test_quotas_go_to_the_oldest_buffer_first_and_are_followed() -> None:
    world = World()
    world.add_workload()
    world.add_quota("compute", {"requests.cpu": "2"}, {"requests.cpu": "500m"})
    world.add_buffer("older", **TWO_OF_WEB, capacity={"replicas": {"exactly": 2}})
    world.add_buffer("younger", **TWO_OF_WEB, capacity={"replicas": {"exactly": 2}})

    async def play(_: BufferController) -> None:
        assert (world.chunks("older"), world.chunks("younger")) == (2, 1)
        assert world.condition("LimitedByQuotas", "younger") == ("True", "LimitedByQuotas")
        assert "compute" in world.message("LimitedByQuotas", "younger")
        assert world.count_events("LimitedByQuotas") == 1
        world.server.delete(path("buffers", "older"))
        await world.wait(1.0)
        assert world.chunks("younger") == 2
        world.add_quota("compute", {"requests.cpu": "2"}, {"requests.cpu": "2"})
        await world.wait(1.0)
        assert world.chunks("younger") == 0
        world.server.delete(path("resourcequotas", "compute"))
        await world.wait(1.0)
        assert (world.chunks("younger"), world.condition("LimitedByQuotas", "younger")[0]) == (2, "False")

    world.run(play)


def test_an_edit_is_not_acknowledged_with_the_quota_share_of_the_previous_spec() -> None:
    world = world_with()
    world.add_quota("compute", {"pods": "100"})
    world.put(path("rollouts", "slow"), {"spec": {}, "status": {"replicas": 3, "selector": "app=slow"}})

    async def play(_: BufferController) -> None:
        # Somebody who is not known yet is waited for before quotas are shared out.
        world.fault = lambda request: Unreachable("no answer") if request.path.endswith("/scale") else None
        about = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "slow"}
        status = {"podBasedBufferSpec": {"replicaNum": 1, "podSpec": {}}, "conditions": []}
        spec = {"targetRef": about, "capacity": {"replicas": {"exactly": 1}}}
        world.put(path("buffers", "slow"), {"spec": spec, "status": status})
        await world.wait(1.0)
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 3}})
        await world.wait(0.5)
        world.add_pod("web")
        await world.wait(1.0)
        assert (world.status()["observedGeneration"], world.chunks()) == (1, 2)
        await world.wait(5.0)
        assert (world.status()["observedGeneration"], world.chunks()) == (2, 3)

    world.run(play)


def test_a_buffer_being_deleted_blocks_no_other_on_quotas() -> None:
    world = world_with()
    world.add_quota("compute", {"pods": "100"})
    going = {"metadata": {"deletionTimestamp": "2026-11-18T12:00:00Z", "finalizers": ["example.com/wait"]}}
    world.put(path("buffers", "old"), {**going, "spec": {**TWO_OF_WEB, "capacity": {"replicas": {"exactly": 9}}}})

    async def play(_: BufferController) -> None:
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 3}})
        await world.wait(0.5)
        assert (world.chunks(), world.chunks("old")) == (3, None)

    world.run(play)


def test_an_edit_without_effect_on_chunks_is_acknowledged_under_a_quota() -> None:
    world = world_with()
    world.add_quota("compute", {"pods": "100"})

    async def play(_: BufferController) -> None:
        world.edit("buffers", "web", recreationStrategy="KeepEmpty")
        await world.wait(1.0)
        assert (world.status()["observedGeneration"], world.chunks(), world.writes) == (2, 2, 2)

    world.run(play)


def test_a_later_limit_range_applies_to_a_template() -> None:
    world = World()
    world.add_workload(replicas=0)
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.dry_runs == 1
        world.admit = lambda pod: {**pod, "spec": {**pod["spec"], "priority": 3}}
        world.put(path("limitranges", "new"), {"spec": {"limits": []}})
        await world.wait(1.0)
        assert (world.dry_runs, world.pod_based_spec()["podSpec"]["priority"]) == (2, 3)

    world.run(play)


@pytest.mark.req("BF-50")
@pytest.mark.parametrize(
    ("start", "opens"),
    [
        ("0 8 * * *", "2026-11-18T07:00:00"),
        # The night when clocks are put forward at two: half past two is skipped, and three o'clock stands for it.
        ("30 2 * * *", "2026-03-29T01:00:00"),
        ("0 8 * * *", "2026-03-29T06:00:00"),
        # The night when they are put back at three: half past two comes twice, and counts once.
        ("30 2 * * *", "2026-10-25T00:30:00"),
        ("0 8 * * *", "2026-10-25T07:00:00"),
    ],
)
def test_a_window_of_a_schedule_opens_and_closes_to_the_second(start: str, opens: str) -> None:
    # No pass comes in time for an edge: it has to be waited for.
    world = World(buffer_interval=Duration.from_seconds(86_400))
    world.add_workload()
    schedule = {"timeZone": "Europe/Berlin", "windows": [{"start": start, "duration": "1h"}]}
    world.add_buffer(**TWO_OF_WEB, capacity={"replicas": {"exactly": 2}}, schedule=schedule)
    edge = datetime.fromisoformat(opens).replace(tzinfo=UTC).timestamp()

    async def play(_: BufferController) -> None:
        assert (world.chunks(), world.condition()) == (0, ("False", "OutsideSchedule"))
        await world.wait(edge - world.now() - 0.5)
        assert world.chunks() == 0
        await world.wait(1.0)
        assert (world.chunks(), world.condition()) == (2, ("True", "BufferReady"))
        await world.wait(3600 - 1.0)
        assert world.chunks() == 2
        await world.wait(1.0)
        assert world.chunks() == 0
        await world.wait(3 * 3600)
        # At first, and at each edge.
        assert world.writes == 3

    world.run(play, start=edge - 3 * 3600)


@pytest.mark.req("BF-44")
def test_metrics_have_requested_and_actual_chunks_up_to_a_number_of_buffers() -> None:
    world = World(metrics_buffers=1)
    world.add_workload()
    world.add_quota("compute", {"pods": "3"}, {"pods": "2"})
    for name in ("a", "b"):
        world.add_buffer(name, **TWO_OF_WEB, capacity={"replicas": {"exactly": 2}})

    async def play(_: BufferController) -> None:
        await world.wait(60.0)
        assert world.metric_value('trellis_buffers_wanted_chunks{buffer_name="a",buffer_namespace="shop"}') == 2
        assert world.metric_value('trellis_buffers_chunks{buffer_name="a",buffer_namespace="shop"}') == 1
        assert world.metric_value('trellis_buffers_chunks{buffer_name="b",buffer_namespace="shop"') == 0
        assert world.metric_value('trellis_buffers_objects{reason="BufferReady"}') == 2
        assert world.metric_value('trellis_buffers_noted_objects{reason="LimitedByQuotas"}') == 2
        assert world.metric_value("trellis_buffers_last_change_timestamp_seconds") > 0

    world.run(play)


@pytest.mark.req("BF-03", "BF-38")
def test_creating_changing_and_deleting_a_buffer_writes_nothing_but_its_status() -> None:
    world = World()
    world.add_workload(replicas=0)
    world.add_buffer(**TWO_OF_WEB, capacity={"replicas": {"exactly": 1}})

    def writes() -> list[tuple[str, str]]:
        changes = [request for request in world.server.requests if request.method != "GET"]
        return [(change.method, change.path) for change in changes if ("dryRun", "All") not in change.query]

    async def play(_: BufferController) -> None:
        await world.wait(120.0)
        small = copy.deepcopy(world.pod_based_spec())
        world.edit("buffers", "web", capacity={"replicas": {"exactly": 4000}})
        await world.wait(120.0)
        assert world.chunks() == 4000
        # A Buffer of any size takes the same space: only the digits of its count are more.
        assert world.pod_based_spec() == {**small, "replicaNum": 4000}
        assert len(str(world.status())) < 2_000
        assert set(writes()) == {("PATCH", path("buffers", "web") + "/status")}
        before = writes()
        world.server.delete(path("buffers", "web"))
        await world.wait(120.0)
        assert writes() == before

    world.run(play)
