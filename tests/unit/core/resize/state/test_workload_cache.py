"""What is known of a workload, whoever tells it in whatever order, and whom a change concerns."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.resizes import NOW
from support.worlds.workload_state import WEB, CachedWorkload, in_shop, owned, pod, replica_set
from trellis.api.kube.nodes import Node
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.core.cluster.owners import ScaleInfo
from trellis.core.resize.actions import ControllerKey
from trellis.core.resize.freeze import FREEZE_ANNOTATION, FreezeScope
from trellis.core.resize.state.workload_cache import WorkloadCache


@given(order=st.permutations(range(5)))
def test_it_does_not_matter_in_which_order_things_are_observed(order: list[int]) -> None:
    workload = CachedWorkload()
    puts = workload.puts()
    for number in order:
        workload.concerned.clear()
        puts[number]()
    snapshot = workload.snapshot()
    assert {pod.metadata.name for pod in snapshot.pods} == {"web-1-a", "web-1-b"}
    assert snapshot.controllers == {ControllerKey("Deployment", "web"), ControllerKey("ReplicaSet", "web-1")}
    assert snapshot.configured_replicas == {ControllerKey("ReplicaSet", "web-1"): 2}
    # Whatever comes last makes the workload another.
    assert workload.concerned == [WEB]


def test_without_its_target_a_workload_has_no_snapshot() -> None:
    workload = CachedWorkload()
    workload.puts()[0]()
    assert workload.cache.build_snapshot(WEB, NOW) is None
    assert workload.cache.build_snapshot(("shop", "Deployment", "other"), NOW) is None


def test_a_change_that_no_plan_reads_enqueues_no_object() -> None:
    workload = CachedWorkload().put_all()
    workload.cache.put_pod(("shop", "web-1-a"), pod(), pod(resourceVersion="6"))
    workload.cache.put_workload("ReplicaSet", ("shop", "web-1"), replica_set(), replica_set())
    workload.cache.put_namespace("shop", {})
    assert workload.concerned == []
    workload.cache.put_pod(("shop", "web-1-a"), pod(), pod(labels={"app": "web", "tier": "1"}))
    assert workload.concerned == [WEB]


def test_a_foreign_pod_enqueues_no_vpa_and_one_with_other_labels_is_not_selected() -> None:
    workload = CachedWorkload().put_all()
    workload.cache.put_pod(("shop", "api-1-a"), None, pod("api-1-a", **owned("ReplicaSet", "api-1")))
    assert workload.concerned == []
    workload.cache.put_pod(("shop", "web-1-c"), None, pod("web-1-c", labels={"app": "debug"}))
    assert len(workload.snapshot().pods) == 2


def test_a_deleted_object_is_removed_from_the_cache() -> None:
    workload = CachedWorkload().put_all()
    workload.cache.put_pod(("shop", "web-1-a"), pod(), None)
    assert [pod.metadata.name for pod in workload.snapshot().pods] == ["web-1-b"]
    workload.cache.put_workload("ReplicaSet", ("shop", "web-1"), replica_set(), None)
    assert workload.snapshot().configured_replicas == {}
    workload.cache.put_governor("VerticalPodAutoscaler", ("shop", "web"), None)
    assert workload.cache.build_snapshot(WEB, NOW) is None
    assert workload.concerned == [WEB] * 3


def test_an_evicted_pod_counts_as_terminating_before_the_watch_shows_it() -> None:
    workload = CachedWorkload().put_all()
    workload.cache.pending_writes.expect_eviction("uid-web-1-a")
    workload.cache.pending_writes.expect_eviction("uid-web-1-b", until=NOW - 1)
    assert [pod.metadata.deletion_timestamp is not None for pod in workload.snapshot().pods] == [True, False]


def test_what_we_wrote_is_awaited_until_it_is_observed_and_that_is_a_change() -> None:
    workload = CachedWorkload().put_all()
    workload.cache.pending_writes.expect_write("uid-web-1-a", "9")
    assert workload.cache.has_pending_writes(workload.snapshot())
    workload.cache.put_pod(("shop", "web-1-a"), pod(), pod(resourceVersion="9"))
    assert not workload.cache.has_pending_writes(workload.snapshot())
    assert workload.concerned == [WEB]


def test_limits_hpas_and_freezes_reach_the_workloads_they_are_about() -> None:
    workload = CachedWorkload().put_all()
    item = {"type": "Container", "max": {"cpu": "2"}}
    before = workload.snapshot().limits
    workload.cache.put_limits("shop", [msgspec.convert({"spec": {"limits": [item]}}, LimitRange)])
    assert workload.snapshot().limits != before
    metric = {"resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric]}
    hpa = msgspec.convert({"spec": spec}, HorizontalPodAutoscaler)
    workload.cache.put_hpa(("shop", "web"), None, hpa)
    assert workload.snapshot().hpa_resources == {"cpu"}
    workload.cache.put_namespace("shop", {FREEZE_ANNOTATION: "alice"})
    frozen = workload.snapshot().freeze
    assert frozen is not None
    assert (frozen.author, frozen.scope) == ("alice", FreezeScope.NAMESPACE)
    workload.cache.put_freeze_config({"by": "bob"})
    assert str(workload.snapshot().freeze) == "the cluster is frozen by bob"
    assert workload.concerned == [WEB] * 4
    workload.cache.put_limits("shop", ())
    workload.cache.put_hpa(("shop", "web"), hpa, None)
    workload.cache.put_namespace("shop", {})
    workload.cache.put_freeze_config(None)
    snapshot = workload.snapshot()
    assert (snapshot.limits, snapshot.hpa_resources, snapshot.freeze) == (before, frozenset(), None)
    assert workload.concerned == [WEB] * 8


@pytest.mark.parametrize("kind", ["Rollout", "StatefulSet"])
def test_answers_of_scales_concern_those_whose_pods_they_change(kind: str) -> None:
    workload = CachedWorkload()
    ref = {"apiVersion": "example.com/v1", "kind": kind, "name": "web"}
    workload.cache.put_governor("VerticalPodAutoscaler", ("shop", "web"), in_shop(targetRef=ref))
    rollout = ("shop", kind, "web")
    [target] = workload.cache.governors.list_scaled_targets()
    workload.concerned.clear()
    workload.cache.put_scales({target: ScaleInfo("app=web")})
    assert workload.cache.build_snapshot(rollout, NOW) is not None
    workload.cache.put_scales({target: ScaleInfo("app=web")})
    assert workload.concerned == [rollout]
    workload.cache.put_scales({})
    assert workload.cache.build_snapshot(rollout, NOW) is None
    assert workload.concerned == [rollout] * 2


@pytest.mark.parametrize("tracks_headroom", [True, False])
def test_changes_of_nodes_are_taken_once(tracks_headroom: bool) -> None:
    known = WorkloadCache(tracks_headroom=tracks_headroom)
    node = msgspec.convert({"status": {"allocatable": {"cpu": "4"}}}, Node)
    known.put_node("n1", node)
    known.put_pod(("shop", "web-1-a"), None, pod())
    nodes, pods = known.drain_changes()
    assert (set(nodes), set(pods)) == (({"n1"}, {("shop", "web-1-a")}) if tracks_headroom else (set(), set()))
    assert known.drain_changes() == ({}, {})
    offered = known.nodes
    assert offered == {"n1": {"cpu": 4000}}
    known.put_node("n1", node)
    assert known.nodes is offered
    known.put_node("n1", None)
    assert known.nodes == {}
