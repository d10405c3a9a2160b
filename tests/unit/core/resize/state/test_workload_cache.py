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
    told = CachedWorkload()
    puts = told.puts()
    for number in order:
        told.concerned.clear()
        puts[number]()
    found = told.snapshot()
    assert {each.metadata.name for each in found.pods} == {"web-1-a", "web-1-b"}
    assert found.controllers == {ControllerKey("Deployment", "web"), ControllerKey("ReplicaSet", "web-1")}
    assert found.configured_replicas == {ControllerKey("ReplicaSet", "web-1"): 2}
    # Whatever comes last makes the workload another.
    assert told.concerned == [WEB]


def test_without_its_target_a_workload_has_no_snapshot() -> None:
    told = CachedWorkload()
    told.puts()[0]()
    assert told.cache.build_snapshot(WEB, NOW) is None
    assert told.cache.build_snapshot(("shop", "Deployment", "other"), NOW) is None


def test_a_change_that_no_plan_reads_enqueues_no_object() -> None:
    told = CachedWorkload().put_all()
    told.cache.put_pod(("shop", "web-1-a"), pod(), pod(resourceVersion="6"))
    told.cache.put_workload("ReplicaSet", ("shop", "web-1"), replica_set(), replica_set())
    told.cache.put_namespace("shop", {})
    assert told.concerned == []
    told.cache.put_pod(("shop", "web-1-a"), pod(), pod(labels={"app": "web", "tier": "1"}))
    assert told.concerned == [WEB]


def test_a_foreign_pod_enqueues_no_vpa_and_one_with_other_labels_is_not_selected() -> None:
    told = CachedWorkload().put_all()
    told.cache.put_pod(("shop", "api-1-a"), None, pod("api-1-a", **owned("ReplicaSet", "api-1")))
    assert told.concerned == []
    told.cache.put_pod(("shop", "web-1-c"), None, pod("web-1-c", labels={"app": "debug"}))
    assert len(told.snapshot().pods) == 2


def test_a_deleted_object_is_removed_from_the_cache() -> None:
    told = CachedWorkload().put_all()
    told.cache.put_pod(("shop", "web-1-a"), pod(), None)
    assert [each.metadata.name for each in told.snapshot().pods] == ["web-1-b"]
    told.cache.put_workload("ReplicaSet", ("shop", "web-1"), replica_set(), None)
    assert told.snapshot().configured_replicas == {}
    told.cache.put_governor("VerticalPodAutoscaler", ("shop", "web"), None)
    assert told.cache.build_snapshot(WEB, NOW) is None
    assert told.concerned == [WEB] * 3


def test_an_evicted_pod_counts_as_terminating_before_the_watch_shows_it() -> None:
    told = CachedWorkload().put_all()
    told.cache.pending_writes.expect_eviction("uid-web-1-a")
    told.cache.pending_writes.expect_eviction("uid-web-1-b", until=NOW - 1)
    assert [each.metadata.deletion_timestamp is not None for each in told.snapshot().pods] == [True, False]


def test_what_we_wrote_is_awaited_until_it_is_observed_and_that_is_a_change() -> None:
    told = CachedWorkload().put_all()
    told.cache.pending_writes.expect_write("uid-web-1-a", "9")
    assert told.cache.has_pending_writes(told.snapshot())
    told.cache.put_pod(("shop", "web-1-a"), pod(), pod(resourceVersion="9"))
    assert not told.cache.has_pending_writes(told.snapshot())
    assert told.concerned == [WEB]


def test_limits_hpas_and_freezes_reach_the_workloads_they_are_about() -> None:
    told = CachedWorkload().put_all()
    item = {"type": "Container", "max": {"cpu": "2"}}
    before = told.snapshot().limits
    told.cache.put_limits("shop", [msgspec.convert({"spec": {"limits": [item]}}, LimitRange)])
    assert told.snapshot().limits != before
    metric = {"resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric]}
    hpa = msgspec.convert({"spec": spec}, HorizontalPodAutoscaler)
    told.cache.put_hpa(("shop", "web"), None, hpa)
    assert told.snapshot().hpa_resources == {"cpu"}
    told.cache.put_namespace("shop", {FREEZE_ANNOTATION: "alice"})
    frozen = told.snapshot().freeze
    assert frozen is not None
    assert (frozen.author, frozen.scope) == ("alice", FreezeScope.NAMESPACE)
    told.cache.put_freeze_config({"by": "bob"})
    assert str(told.snapshot().freeze) == "the cluster is frozen by bob"
    assert told.concerned == [WEB] * 4
    told.cache.put_limits("shop", ())
    told.cache.put_hpa(("shop", "web"), hpa, None)
    told.cache.put_namespace("shop", {})
    told.cache.put_freeze_config(None)
    found = told.snapshot()
    assert (found.limits, found.hpa_resources, found.freeze) == (before, frozenset(), None)
    assert told.concerned == [WEB] * 8


@pytest.mark.parametrize("kind", ["Rollout", "StatefulSet"])
def test_answers_of_scales_concern_those_whose_pods_they_change(kind: str) -> None:
    told = CachedWorkload()
    ref = {"apiVersion": "example.com/v1", "kind": kind, "name": "web"}
    told.cache.put_governor("VerticalPodAutoscaler", ("shop", "web"), in_shop(targetRef=ref))
    rollout = ("shop", kind, "web")
    [target] = told.cache.governors.list_scaled_targets()
    told.concerned.clear()
    told.cache.put_scales({target: ScaleInfo("app=web")})
    assert told.cache.build_snapshot(rollout, NOW) is not None
    told.cache.put_scales({target: ScaleInfo("app=web")})
    assert told.concerned == [rollout]
    told.cache.put_scales({})
    assert told.cache.build_snapshot(rollout, NOW) is None
    assert told.concerned == [rollout] * 2


@pytest.mark.parametrize("knows_rooms", [True, False])
def test_changes_of_nodes_are_taken_once(knows_rooms: bool) -> None:
    known = WorkloadCache(tracks_headroom=knows_rooms)
    node = msgspec.convert({"status": {"allocatable": {"cpu": "4"}}}, Node)
    known.put_node("n1", node)
    known.put_pod(("shop", "web-1-a"), None, pod())
    nodes, pods = known.drain_changes()
    assert (set(nodes), set(pods)) == (({"n1"}, {("shop", "web-1-a")}) if knows_rooms else (set(), set()))
    assert known.drain_changes() == ({}, {})
    offered = known.nodes
    assert offered == {"n1": {"cpu": 4000}}
    known.put_node("n1", node)
    assert known.nodes is offered
    known.put_node("n1", None)
    assert known.nodes == {}
