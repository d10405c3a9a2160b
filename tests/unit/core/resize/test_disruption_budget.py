"""How many pods may be out of service at a time, and what counts as being so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import STORY_2
from support.worlds.resizes import (
    GROUP,
    Document,
    container,
    decided,
    governor,
    hvpa_pods,
    list_decisions,
    resizing,
    running,
)
from trellis.api.kube.workloads import (
    DaemonSet,
    DaemonSetStatus,
    Job,
    ReplicaSet,
    ReplicatedSpec,
    StatefulSet,
    StatefulSetSpec,
)
from trellis.core.resize.disruption_budget import HourlyAllowance, PodAvailability, ReplicaBudget
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.view import read_configured_replicas

SERVING = PodAvailability(living=True, serving=True)
PENDING = PodAvailability(living=True, serving=False)
GOING = PodAvailability(living=False, serving=False)


def allowed(configured: int | None, pods: list[PodAvailability], minimum: int = 1, tolerance: float = 0.5) -> int:
    """How many serving pods may be disturbed in one pass."""
    budget = ReplicaBudget(configured, pods, minimum, tolerance)
    count = 0
    while count < len(pods) and budget.find_refusal(serving=True) is None:
        budget.record_disruption(serving=True)
        count += 1
    return count


@pytest.mark.parametrize(("replicas", "count"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 5)])
def test_half_of_the_replicas_may_go_and_a_single_one(replicas: int, count: int) -> None:
    assert allowed(replicas, [SERVING] * replicas) == count


@pytest.mark.parametrize("away", [PENDING, GOING])
def test_pods_that_are_out_of_service_already_count(away: PodAvailability) -> None:
    assert allowed(4, [SERVING] * 3 + [away]) == 1
    assert allowed(4, [SERVING] * 2 + [away] * 2) == 0
    assert allowed(1, [away]) == 0


STARTING = PodAvailability(living=True, serving=True, ready=False)


def test_a_ready_pod_waits_for_those_that_are_not() -> None:
    assert allowed(2, [SERVING, STARTING]) == 0
    assert allowed(4, [SERVING] * 3 + [STARTING]) == 1
    assert allowed(1, [STARTING]) == 0


def test_pods_that_are_not_ready_have_their_turn_as_if_they_were() -> None:
    budget = ReplicaBudget(4, [STARTING] * 4, 1, 0.5)
    count = 0
    while budget.find_refusal(serving=True, ready=False) is None:
        budget.record_disruption(serving=True)
        count += 1
    assert count == 2
    assert ReplicaBudget(1, [STARTING], 1, 0.5).find_refusal(serving=True, ready=False) is None


def test_a_controller_with_unknown_replicas_wants_the_pods_it_has() -> None:
    assert allowed(None, [SERVING] * 10) == 5
    assert allowed(None, [SERVING] * 5 + [GOING] * 5) == 0


@pytest.mark.parametrize(("configured", "why"), [(1, "TooFewReplicas"), (2, "EvictionToleranceExhausted")])
def test_below_the_minimum_no_pod_is_disrupted_not_even_a_pending_one(configured: int, why: str) -> None:
    budget = ReplicaBudget(configured, [SERVING], 2, 0.5)
    refused = [budget.find_refusal(serving=serving) for serving in (True, False)]
    assert [reason.code if reason else None for reason in refused] == [why] * 2


def test_a_pending_pod_uses_no_disruption_budget() -> None:
    budget = ReplicaBudget(2, [SERVING, PENDING], 1, 0.5)
    assert budget.find_refusal(serving=False) is None
    budget.record_disruption(serving=False)
    assert budget.find_refusal(serving=False) is None


@given(
    st.integers(1, 30),
    st.lists(st.sampled_from([SERVING, PENDING, GOING]), min_size=1, max_size=30),
    st.floats(0.0, 1.0),
)
def test_never_more_than_the_tolerance_is_out_of_service(
    configured: int, pods: list[PodAvailability], tolerance: float
) -> None:
    serving = sum(pod.serving for pod in pods)
    left = serving - allowed(configured, pods, 0, tolerance)
    needed = configured - max(int(configured * tolerance), 1)
    assert left >= min(serving, needed)


def pods(count: int, **more: Any) -> list[Document]:
    return [running(f"web-1-{number}", container(), **more) for number in range(count)]


def ways(plan: Any) -> list[str]:
    return [way for way, _ in list_decisions(plan)]


def test_the_minimum_is_the_objects_or_else_the_flags() -> None:
    single = pods(1)
    assert list_decisions(decided(governor(), *single)) == [("Wait", "TooFewReplicas")]
    assert ways(decided(governor(policy={"minReplicas": 1}), *single)) == ["Evict"]
    three = decided(governor(policy={"minReplicas": 4}), *pods(3))
    assert list_decisions(three) == [("Wait", "TooFewReplicas")] * 3


def test_pods_that_are_going_do_not_count_towards_the_minimum() -> None:
    plan = decided(governor(), *pods(1), running("web-1-z", going=True), configured_replicas={GROUP: 1})
    assert list_decisions(plan) == [("Wait", "TooFewReplicas"), ("Leave", "PodTerminating")]


def test_each_controller_has_a_budget_of_its_own() -> None:
    plan = decided(governor(), *pods(2), *(pod for pod in pods(2, owner=("ReplicaSet", "web-2"))))
    assert ways(plan) == ["Evict", "Wait", "Evict", "Wait"]


def test_a_controller_that_wants_no_pods_is_left_alone() -> None:
    plan = decided(governor(), *pods(2), configured_replicas={GROUP: 0})
    assert list_decisions(plan) == [("Wait", "ZeroReplicasDesired")] * 2


def test_a_resize_under_way_counts_and_one_that_waits_for_headroom_does_not() -> None:
    busy, waiting = (
        resizing(running("web-1-b", container(cpu="1")), *state, cpu="500m")
        for state in (("PodResizeInProgress",), ("PodResizePending", "Deferred"))
    )
    assert ways(decided(governor("InPlaceOrRecreate"), *pods(1), busy)) == ["Wait", "Wait"]
    assert ways(decided(governor("InPlaceOrRecreate"), *pods(1), waiting)) == ["Resize", "Wait"]


def test_resizes_without_restarts_can_be_exempt_from_the_budget() -> None:
    free = UpdateSettings(skip_disruption_budget=True)
    assert ways(decided(governor("InPlace"), *pods(1), settings=free)) == ["Resize"]
    assert ways(decided(governor("InPlace"), *pods(4), settings=free)) == ["Resize"] * 4
    restarting = [running(f"web-1-{number}", container(restarts=("cpu",))) for number in range(4)]
    assert ways(decided(governor("InPlace"), *restarting, settings=free)) == ["Resize", "Resize", "Wait", "Wait"]
    assert ways(decided(governor("InPlace"), *pods(4))) == ["Resize", "Resize", "Wait", "Wait"]


def test_what_an_hvpa_decides_is_applied_in_place_whatever_minimum_and_tolerance_say() -> None:
    story = hvpa_pods(*STORY_2)
    assert list_decisions(decided(story, *pods(1), configured_replicas={GROUP: 1})) == [("Resize", "ResizeInPlace")]
    assert ways(decided(story, *pods(4))) == ["Resize"] * 4
    asked_for_three = hvpa_pods(*STORY_2, vpa={"template": {"spec": {"updatePolicy": {"minReplicas": 3}}}})
    assert ways(decided(asked_for_three, *pods(2))) == ["Resize"] * 2


@pytest.mark.parametrize("changed", [("cpu",), ("memory",), ("cpu", "memory")])
def test_a_single_replica_of_an_hvpa_waits_if_the_resource_that_changes_restarts_its_container(
    changed: tuple[str, ...],
) -> None:
    cpu_alone = hvpa_pods(*STORY_2, targets={"app": {"cpu": "1", "memory": "1Gi"}})
    plan = decided(cpu_alone, running("web-1-0", container(restarts=changed)), configured_replicas={GROUP: 1})
    assert list_decisions(plan) == [("Wait", "TooFewReplicas") if "cpu" in changed else ("Resize", "ResizeInPlace")]


def test_evictions_of_an_hvpas_pods_keep_to_minimum_and_tolerance() -> None:
    old_server = UpdateSettings(resizes=False)
    story = hvpa_pods(*STORY_2)
    assert list_decisions(decided(story, *pods(1), settings=old_server)) == [("Wait", "TooFewReplicas")]
    assert ways(decided(story, *pods(4), settings=old_server)) == ["Evict", "Evict", "Wait", "Wait"]


def test_a_resize_of_an_hvpa_under_way_takes_no_replica_out_of_service() -> None:
    infeasible, busy = (
        resizing(running(f"web-1-{name}", container(cpu="1")), state, reason, cpu="500m")
        for name, state, reason in (("a", "PodResizePending", "Infeasible"), ("b", "PodResizeInProgress", ""))
    )
    assert ways(decided(hvpa_pods(*STORY_2), infeasible, busy)) == ["Evict", "Wait"]
    assert ways(decided(governor("InPlaceOrRecreate"), infeasible, busy)) == ["Wait", "Wait"]


def test_the_budget_of_the_hour_holds_for_the_lower_of_cluster_and_namespace() -> None:
    left = HourlyAllowance(cluster=10, namespace=1, resets_at=1_900_000_000.0)
    plan = decided(governor(), *pods(6), hourly_allowance=left)
    assert ways(plan).count("Evict") == 1
    assert ("Wait", "HourlyBudgetExhausted") in list_decisions(plan)
    assert plan.requeue_at == 1_900_000_000.0
    # A resize that restarts nothing is no disruption.
    assert (
        ways(decided(governor("InPlace"), *pods(6), hourly_allowance=HourlyAllowance(cluster=0))).count("Resize") == 3
    )


def test_how_many_pods_a_controller_should_have() -> None:
    assert read_configured_replicas(ReplicaSet(spec=ReplicatedSpec(replicas=3))) == 3
    assert read_configured_replicas(StatefulSet(spec=StatefulSetSpec())) == 1
    assert read_configured_replicas(DaemonSet(status=DaemonSetStatus(desired_number_scheduled=7, number_ready=5))) == 7
    assert read_configured_replicas(Job()) is None
