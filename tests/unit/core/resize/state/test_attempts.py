"""What is remembered of earlier attempts, for how long, and eviction loops."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support.builders.pods import limit_ranges
from support.worlds.resizes import GROUP, NOW, Document, container, decided, governor, list_decisions, pair, running
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import Action, EvictPod, PodRef, ResizePod, UnmarkPod
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import (
    ActionResult,
    EvictionRecord,
    PodAttempts,
    WorkloadAttempts,
    compute_backoff,
    record_result,
)

SETTINGS = UpdateSettings()
REF = PodRef("shop", "web-1-a", "uid-web-1-a")
WANTED = {"app": {"cpu": 1000}}
HAD = {"app": {"cpu": 500, "memory": 2**30}}
RESIZE = ResizePod(REF, (PatchOp("test", "/metadata/uid", REF.uid),), WANTED, {"cpu": 4000})
EVICT = EvictPod(REF, GROUP, HAD)


def after(action: Action, *results: WriteResult, **more: Any) -> WorkloadAttempts:
    attempts = WorkloadAttempts()
    for result in results:
        attempts = record_result(attempts, ActionResult(action, result, **more), NOW, SETTINGS)
    return attempts


def attempt(action: Action, *results: WriteResult, **more: Any) -> PodAttempts:
    return after(action, *results, **more).pods[REF.uid]


def pod(**more: Any) -> Document:
    return running("web-1-a", container(), **more)


def test_waiting_grows_twofold_up_to_the_longest() -> None:
    assert [compute_backoff(times, 60, 300) for times in (0, 1, 2, 3, 4, 5000)] == [60, 60, 120, 240, 300, 300]


@pytest.mark.parametrize("result", [WriteResult.THROTTLED, WriteResult.FAILED, WriteResult.FORBIDDEN])
def test_a_failure_is_repeated_later_each_time_twice_as_late(result: WriteResult) -> None:
    assert attempt(EVICT, result).not_before == NOW + 60
    assert attempt(EVICT, result, result, result).not_before == NOW + 240
    assert attempt(EVICT, result, retry_after=500.0).not_before == NOW + 500


def test_success_forgets_failures() -> None:
    attempts = attempt(RESIZE, WriteResult.FAILED, WriteResult.APPLIED)
    assert (attempts.failures, attempts.resized_at, attempts.not_before) == (0, NOW, -math.inf)


def test_a_disruption_budget_that_refuses_makes_the_pod_wait() -> None:
    plan = decided(governor(), *pair(pod()), attempts=after(EVICT, WriteResult.REFUSED))
    assert list_decisions(plan) == [("Wait", "BackingOff"), ("Evict", "EvictToRecreate")]
    later = decided(governor(), *pair(pod()), attempts=after(EVICT, WriteResult.REFUSED), now=NOW + 60)
    assert list_decisions(later)[0] == ("Evict", "EvictToRecreate")


def test_an_eviction_refused_by_a_pdb_is_retried_in_every_pass() -> None:
    refusals = [WriteResult.REFUSED] * 9
    assert attempt(EVICT, *refusals).not_before == NOW + SETTINGS.budget_retry
    assert attempt(EVICT, *refusals, retry_after=500.0).not_before == NOW + 500
    assert attempt(EVICT, *refusals, WriteResult.FAILED).not_before == NOW + 60


def test_one_answer_that_a_lost_race_gives_too_is_no_refusal_and_two_are() -> None:
    assert attempt(RESIZE, WriteResult.INVALID).refused == {}
    assert attempt(RESIZE, WriteResult.INVALID, WriteResult.INVALID).refused == WANTED
    assert attempt(RESIZE, WriteResult.INFEASIBLE).refused == WANTED
    assert attempt(RESIZE, WriteResult.INFEASIBLE).is_refused({"app": {"cpu": 1200}}, {"cpu": 4000})
    assert attempt(RESIZE, WriteResult.CONFLICT, WriteResult.CONFLICT).refused == {}


def test_a_refused_resize_becomes_an_eviction_at_once() -> None:
    plan = decided(
        governor("InPlaceOrRecreate"),
        *pair(pod()),
        attempts=after(RESIZE, WriteResult.INFEASIBLE),
        node_allocatable={"n1": {"cpu": 4000}},
    )
    assert list_decisions(plan)[0] == ("Evict", "EvictRefused")


def test_a_skipped_action_and_a_deleted_pod_leave_no_attempt() -> None:
    assert after(EVICT, WriteResult.SKIPPED) == WorkloadAttempts()
    assert after(RESIZE, WriteResult.FAILED, WriteResult.GONE).pods == {}
    assert after(EVICT, WriteResult.APPLIED).retain((), ()) == WorkloadAttempts()
    assert after(EVICT, WriteResult.APPLIED).retain({REF.uid}, {GROUP}).evictions == {
        GROUP: (EvictionRecord(HAD, NOW, NOW),)
    }


def test_taking_a_boost_back_is_repeated_soon_and_never_given_up() -> None:
    for action in (ResizePod(REF, (), WANTED, unboosts=True), UnmarkPod(REF, ())):
        assert attempt(action, WriteResult.INVALID).not_before == NOW + 2
        often = attempt(action, *[WriteResult.INFEASIBLE] * 40)
        assert (often.not_before, often.refused) == (NOW + 300, {})


def successor(age: float = -1.0) -> Document:
    return running("web-1-b", container(), age=age)


def test_a_successor_that_requests_the_same_is_not_evicted_in_its_turn() -> None:
    memory = after(EVICT, WriteResult.APPLIED)
    there_before = running("web-1-o", container())
    plan = decided(governor(), successor(), there_before, attempts=memory, now=NOW + 5)
    assert list_decisions(plan)[0] == ("Leave", "EvictionLoop")
    assert plan.decisions[0].reason.severity == "warning"
    assert plan.requeue_at == NOW + 3600
    # One that was there before is no successor.
    assert list_decisions(plan)[1][0] == "Evict"


def test_a_loop_is_known_also_while_pods_of_other_sizes_are_evicted() -> None:
    larger = EvictPod(PodRef("shop", "web-1-l", "larger"), GROUP, {"app": {"cpu": 5000}})
    memory = record_result(
        after(EVICT, WriteResult.APPLIED), ActionResult(larger, WriteResult.APPLIED), NOW + 1, SETTINGS
    )
    plan = decided(governor(), *pair(successor()), attempts=memory, now=NOW + 5)
    assert list_decisions(plan)[0] == ("Leave", "EvictionLoop")


def test_an_alternating_size_is_no_eviction_loop_and_a_constant_one_is() -> None:
    larger = PodRef("shop", "web-1-l", "larger")
    # By day it is evicted for more, by night what came then for less: so the first eviction was of use.
    night = EvictPod(larger, GROUP, {"app": {"cpu": 5000}}, created=NOW + 2)
    memory = record_result(
        after(EVICT, WriteResult.APPLIED), ActionResult(night, WriteResult.APPLIED), NOW + 600, SETTINGS
    )
    morning = running("web-1-m", container(), age=-601.0)
    again = decided(governor(), *pair(morning), attempts=memory, now=NOW + 1200)
    assert list_decisions(again)[0] == ("Evict", "EvictToRecreate")
    (evict,) = (action for action in again.actions if action.pod.name == "web-1-m")
    assert isinstance(evict, EvictPod)
    assert not evict.repeats_useless
    memory = record_result(memory, ActionResult(evict, WriteResult.APPLIED), NOW + 1200, SETTINGS)
    same = running("web-1-n", container(), age=-1201.0)
    assert list_decisions(decided(governor(), *pair(same), attempts=memory, now=NOW + 1300))[0] == (
        "Leave",
        "EvictionLoop",
    )


def test_no_more_than_a_few_sizes_are_remembered() -> None:
    memory = after(EVICT, WriteResult.APPLIED)
    for number in range(20):
        other = EvictPod(PodRef("shop", f"web-1-{number}", str(number)), GROUP, {"app": {"cpu": number}})
        memory = record_result(memory, ActionResult(other, WriteResult.APPLIED), NOW + number, SETTINGS)
    assert len(memory.evictions[GROUP]) == 4


def test_a_pod_of_the_same_second_that_was_there_before_is_no_successor() -> None:
    # Times of creation are whole seconds, and pods may be evicted in their first.
    twins = [running(name, container(), age=0.0) for name in ("web-1-a", "web-1-o")]
    (evict,) = decided(governor(), *twins).actions
    memory = record_result(WorkloadAttempts(), ActionResult(evict, WriteResult.APPLIED), NOW + 0.5, SETTINGS)
    (left,) = [twin for twin in twins if twin["metadata"]["uid"] != evict.pod.uid]
    other = running("web-1-b", container(cpu="1"), age=0.0)
    assert list_decisions(decided(governor(), left, other, attempts=memory, now=NOW + 20))[0][0] == "Evict"
    plan = decided(governor(), left, successor(0.0), attempts=memory, now=NOW + 20)
    assert list_decisions(plan) == [("Evict", "EvictToRecreate"), ("Leave", "EvictionLoop")]


def test_after_an_hour_it_is_tried_once_more_and_then_half_as_often() -> None:
    memory = after(EVICT, WriteResult.APPLIED)
    again = decided(governor(), *pair(successor()), attempts=memory, now=NOW + 3600)
    (evict,) = again.actions
    assert isinstance(evict, EvictPod)
    assert evict.repeats_useless
    memory = record_result(memory, ActionResult(evict, WriteResult.APPLIED), NOW + 3600, SETTINGS)
    third = running("web-1-c", container(), age=-3700.0)
    held = decided(governor(), *pair(third), attempts=memory, now=NOW + 3800)
    assert held.requeue_at == NOW + 3600 + 7200


def test_a_successor_with_other_requests_is_judged_as_any_pod() -> None:
    other = running("web-1-b", container(cpu="600m"), age=-1.0)
    plan = decided(governor(), *pair(other), attempts=after(EVICT, WriteResult.APPLIED), now=NOW + 5)
    assert list_decisions(plan)[0] == ("Evict", "EvictToRecreate")


def test_a_backoff_quotes_the_servers_message() -> None:
    memory = record_result(
        WorkloadAttempts(), ActionResult(EVICT, WriteResult.REFUSED, message="Cannot evict pod"), NOW, SETTINGS
    )
    plan = decided(governor(), *pair(running("web-1-a", container())), attempts=memory, now=NOW + 5)
    (held,) = [verdict for verdict in plan.decisions if verdict.reason.code == "BackingOff"]
    assert held.details == "Cannot evict pod"


def test_a_namesake_starts_afresh() -> None:
    named_alike = running("web-1-a", container(), uid="another")
    plan = decided(governor(), *pair(named_alike), attempts=after(EVICT, WriteResult.REFUSED))
    assert list_decisions(plan)[0][0] == "Evict"


@pytest.mark.parametrize("mode", ["Recreate", "InPlace"])
def test_what_was_done_is_not_done_twice_while_the_view_lags_behind(mode: str) -> None:
    pods = pair(pod())
    (action,) = decided(governor(mode), *pods).actions
    memory = record_result(WorkloadAttempts(), ActionResult(action, WriteResult.APPLIED), NOW, SETTINGS)
    stale = decided(governor(mode), *pods, attempts=memory, now=NOW + 29)
    # Nor is the other disturbed meanwhile.
    assert stale.actions == ()
    assert stale.requeue_at == NOW + 30
    assert len(decided(governor(mode), *pods, attempts=memory, now=NOW + 30).actions) == 1


def test_a_patch_that_makes_empty_maps_is_remembered_like_any_other() -> None:
    defaults = limit_ranges({"type": "Container", "default": {"cpu": "2", "memory": "4Gi"}})
    pods = pair(pod())
    (action,) = decided(governor("InPlace"), *pods, limits=defaults).actions
    assert isinstance(action, ResizePod)
    assert any(op.value == {} for op in action.patch)
    memory = record_result(WorkloadAttempts(), ActionResult(action, WriteResult.APPLIED), NOW, SETTINGS)
    assert decided(governor("InPlace"), *pods, limits=defaults, attempts=memory).actions == ()


def test_a_resize_that_failed_keeps_its_pause_though_the_mark_of_another_container_went() -> None:
    attempts = record_result(
        WorkloadAttempts(), ActionResult(ResizePod(REF, (), WANTED, unboosts=True), WriteResult.FAILED), NOW, SETTINGS
    )
    attempts = record_result(
        attempts, ActionResult(UnmarkPod(REF, (PatchOp("remove", "/x"),)), WriteResult.APPLIED), NOW, SETTINGS
    )
    assert attempts.pods[REF.uid].not_before == NOW + 2


def test_an_unobserved_resize_keeps_the_pod_and_its_neighbour_from_eviction() -> None:
    resized = WorkloadAttempts(
        {REF.uid: PodAttempts(resized_at=NOW - 1, written_at=NOW - 1, last_patch=RESIZE.patch, requested=WANTED)}
    )
    plan = decided(governor(targets={"app": {"cpu": "2"}}), *pair(pod()), attempts=resized)
    assert list_decisions(plan) == [("Wait", "EvictionToleranceExhausted")] * 2
