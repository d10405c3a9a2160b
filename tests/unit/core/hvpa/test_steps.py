"""When a step is taken, held back, or taken in part; and in which order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from support.worlds.hvpas import GIGA, NOW, amounts, decided, meaning, shape, view
from trellis.core.hvpa import (
    ContainerView,
    HpaView,
    HvpaMemory,
    HvpaPlan,
    HvpaView,
    SetScale,
    WriteBack,
    find_conflict_reason,
)
from trellis.core.hvpa.demand.stabilization import OOM_OVERRIDES
from trellis.core.hvpa.drift import DRIFT_TOLERATED, REPLICAS_DRIFTED, REQUESTS_DRIFTED
from trellis.core.hvpa.next_step import RESIZE_BEFORE_SCALE_IN, WAIT_FOR_READY_REPLICAS
from trellis.core.hvpa.plan import AS_DECIDED, SCALED_TO_ZERO, SCALES_DOWN, SCALES_UP
from trellis.core.hvpa.steps import NO_RECOMMENDATION, WorkloadShape, describe_step
from trellis.core.recommend.amounts import ResourceAmounts

HOUR = 3600.0
AT_ONCE = {"stabilizationWindow": "0s"}


def changed(view: HvpaView, **fields: Any) -> HvpaView:
    return msgspec.structs.replace(view, **fields)


def observed(
    replicas: int, size: ResourceAmounts, total: ResourceAmounts, memory: HvpaMemory | None = None, **spec: Any
) -> HvpaView:
    """A workload of which a VPA says so much, with targets of nothing."""
    known = {"meaning": meaning(**spec), "memory": memory or HvpaMemory(), "spec_replicas": replicas}
    return view(replicas, size, dict.fromkeys(total, 0), total, **known)


def blocked(made: HvpaPlan) -> list[tuple[str, str]]:
    return [(step.direction.value, step.reason.code) for step in made.summary.blocked]


@pytest.mark.parametrize(
    ("binary", "memory", "expected"),
    [
        (True, 3 * 2**30, "2 x (CPU 4, memory 3Gi)"),
        (False, 3 * 2**30, "2 x (CPU 4, memory 3.2212G)"),
        (True, 3 * 2**30 + 1, "2 x (CPU 4, memory 3Gi)"),
        (False, 2_500_000, "2 x (CPU 4, memory 2.5M)"),
    ],
)
def test_a_shape_reads_as_its_buckets_are_written(binary: bool, memory: int, expected: str) -> None:
    assert WorkloadShape(2, {"cpu": 4000, "memory": memory}).describe(binary=binary) == expected


def test_a_step_that_is_too_small_to_see_is_reported_exactly() -> None:
    some, more = (WorkloadShape(2, {"cpu": 4000, "memory": memory}) for memory in (3 * 2**30, 3 * 2**30 + 1))
    assert describe_step(some, more, binary=True) == "2 x (4000m, 3221225472) to 2 x (4000m, 3221225473)"
    assert describe_step(WorkloadShape(2, {}), WorkloadShape(3, {}), binary=True) == "2 to 3"


def test_less_waits_for_the_scale_down_window_and_is_reconciled_when_it_ends() -> None:
    high, low = amounts(cpu="24"), amounts(cpu="6")
    first = decided(observed(3, amounts(cpu="8"), high))
    waits = decided(observed(3, amounts(cpu="8"), low, first.memory), NOW + 60)
    assert shape(waits) == (3, 8000, None)
    assert blocked(waits) == [("Down", "StabilizationWindow")]
    assert waits.requeue_at == NOW + 360
    gone = decided(observed(3, amounts(cpu="8"), low, waits.memory), NOW + 360)
    assert (shape(gone), gone.summary.reason) == ((2, 3000, None), SCALES_DOWN)


@pytest.mark.parametrize("total", [{}, amounts(cpu="24")], ids=["held", "told"])
def test_a_deleted_vpa_counts_for_a_window_and_is_reconciled_when_it_ends(total: ResourceAmounts) -> None:
    first = decided(view(3, amounts(cpu="8"), amounts(cpu="8"), total, spec_replicas=3))
    assert (shape(first), first.requeue_at, first.vpa) == ((3, 8000, None), None, amounts(cpu="24"))
    gone = view(3, amounts(cpu="8"), spec_replicas=3)
    waits = decided(changed(gone, memory=first.memory), NOW + 60)
    assert (shape(waits), waits.summary.reason, waits.requeue_at) == ((3, 8000, None), AS_DECIDED, NOW + 300)
    ended = decided(changed(gone, memory=waits.memory), NOW + 300)
    assert (shape(ended), ended.summary.reason, ended.requeue_at) == ((3, 8000, None), NO_RECOMMENDATION, None)


def test_what_runs_at_the_first_pass_counts_for_a_full_window() -> None:
    first = decided(observed(3, amounts(cpu="8"), amounts(cpu="6")))
    assert (shape(first), blocked(first)) == ((3, 8000, None), [("Down", "StabilizationWindow")])
    assert first.requeue_at == NOW + 300
    assert shape(decided(observed(3, amounts(cpu="8"), amounts(cpu="6"), first.memory), NOW + 300)) == (2, 3000, None)


def test_a_total_counts_for_as_long_as_it_was_the_present_one_however_rare_passes_are() -> None:
    first = decided(observed(3, amounts(cpu="8"), amounts(cpu="24")))
    later = decided(observed(3, amounts(cpu="8"), amounts(cpu="6"), first.memory), NOW + HOUR)
    assert shape(later) == (3, 8000, None)


def test_more_waits_for_the_scale_up_window_of_which_the_lowest_counts() -> None:
    window: dict[str, Any] = {"scaleUp": {"stabilizationWindow": "10m"}}
    first = decided(observed(2, amounts(cpu="6"), amounts(cpu="12"), **window))
    spike = decided(observed(2, amounts(cpu="6"), amounts(cpu="40"), first.memory, **window), NOW + 60)
    assert shape(spike) == (2, 6000, None)
    assert blocked(spike) == [("Up", "StabilizationWindow")]
    less = decided(observed(2, amounts(cpu="6"), amounts(cpu="24"), spike.memory, **window), NOW + 300)
    stays = decided(observed(2, amounts(cpu="6"), amounts(cpu="24"), less.memory, **window), NOW + 660)
    assert (shape(stays), stays.summary.reason) == ((3, 8000, None), SCALES_UP)


def test_a_kill_for_memory_ends_the_waiting_of_memory_alone() -> None:
    window: dict[str, Any] = {"scaleUp": {"stabilizationWindow": "10m"}, "replicaSize": {"memory": "Share"}}
    before, after = amounts("10", "10G"), amounts("12", "13G")
    first = decided(observed(2, amounts("5", "5G"), before, **window))
    view = observed(2, amounts("5", "5G"), after, first.memory, **window)
    assert shape(decided(view, NOW + 60)) == (2, 5000, 5 * GIGA)
    killed = decided(changed(view, last_oom_kill=NOW + 50), NOW + 60)
    assert shape(killed) == (2, 5000, 6_500_000_000)
    assert OOM_OVERRIDES in killed.summary.notes


@pytest.mark.parametrize(("way", "total"), [("scaleUp", "24"), ("scaleDown", "3")])
def test_a_direction_that_is_off_is_not_gone(way: str, total: str) -> None:
    spec: dict[str, Any] = {"scaleDown": AT_ONCE, way: {**AT_ONCE, "updateMode": "Off"}}
    made = decided(observed(2, amounts(cpu="6"), amounts(cpu=total), **spec))
    assert shape(made) == (2, 6000, None)
    assert blocked(made) == [("Up" if way == "scaleUp" else "Down", "UpdatePolicy")]
    assert made.actions == ()


def test_of_a_step_both_ways_the_open_one_is_gone() -> None:
    share: dict[str, Any] = {"replicaSize": {"memory": "Share"}}
    spec: dict[str, Any] = {"scaleDown": {**AT_ONCE, "updateMode": "Off"}, **share}
    made = decided(observed(2, amounts("6", "6G"), amounts("24", "6G"), **spec))
    assert shape(made) == (3, 8000, 4 * GIGA), "12G in total, as before"
    assert blocked(made) == [("Down", "UpdatePolicy")]
    held: dict[str, Any] = {"scaleDown": AT_ONCE, "scaleUp": {"updateMode": "Off"}, **share}
    made = decided(observed(2, amounts("6", "6G"), amounts("24", "6G"), **held))
    assert shape(made) == (2, 6000, 3 * GIGA)


def test_replicas_of_a_count_in_no_bucket_still_grow_while_the_way_down_is_shut() -> None:
    spec: dict[str, Any] = {"scaleDown": {**AT_ONCE, "updateMode": "Off"}}
    made = decided(observed(10, amounts(cpu="1"), amounts(cpu="27"), **spec))
    assert (shape(made), blocked(made)) == ((10, 2700, None), [("Down", "UpdatePolicy")])


def test_a_step_waits_for_the_maintenance_window() -> None:
    spec: dict[str, Any] = {
        "scaleDown": {**AT_ONCE, "updateMode": "MaintenanceWindow"},
        "maintenanceWindow": {"begin": "220000-0000", "end": "230000-0000"},
    }
    view = observed(3, amounts(cpu="8"), amounts(cpu="6"), **spec)
    made = decided(view)
    assert (shape(made), blocked(made)) == ((3, 8000, None), [("Down", "MaintenanceWindow")])
    assert made.requeue_at == NOW + 14 * HOUR, "it is eight in the morning"
    inside = decided(changed(view, memory=made.memory), NOW + 14 * HOUR)
    assert shape(inside) == (2, 3000, None)


def test_a_window_that_is_not_given_never_opens() -> None:
    made = decided(
        observed(3, amounts(cpu="8"), amounts(cpu="6"), scaleDown={**AT_ONCE, "updateMode": "MaintenanceWindow"})
    )
    assert blocked(made) == [("Down", "MaintenanceWindow")]
    assert made.requeue_at is None


@pytest.mark.parametrize(("total", "size"), [("21601m", 8000), ("21600m", 7200)])
def test_a_small_fall_at_the_same_count_is_left_alone(total: str, size: int) -> None:
    made = decided(observed(3, amounts(cpu="8"), amounts(cpu=total), scaleDown={**AT_ONCE, "overlapPercent": 100}))
    assert shape(made) == (3, size, None)
    assert blocked(made) == ([("Down", "MinChange")] if size == 8000 else [])


def test_the_way_up_is_never_too_small() -> None:
    assert shape(decided(observed(3, amounts(cpu="8"), amounts(cpu="24003m")))) == (3, 8001, None)


def test_what_is_above_its_bucket_comes_down_to_it_however_little_that_is() -> None:
    made = decided(observed(8, amounts(cpu="24500m"), amounts(cpu="192"), scaleDown=AT_ONCE))
    assert shape(made) == (8, 24_000, None)


@pytest.mark.req("HV-31")
def test_without_any_source_nothing_changes_and_nothing_is_published() -> None:
    size = amounts("6", "1G")
    made = decided(view(2, {}, containers=(ContainerView("app", requests=size, min_requests=size),)))
    assert (shape(made), made.containers) == ((2, 6000, GIGA), {})
    assert blocked(made) == [("Up", "NoRecommendation")]
    assert made.actions == (WriteBack(2),), "so that the scale can be read"


def test_a_resource_without_a_total_keeps_its_size_and_has_no_say() -> None:
    size = amounts("6", "100G")
    containers = (ContainerView("app", True, {"cpu": 1}, amounts(cpu="24"), size, size),)
    made = decided(view(2, {}, containers=containers))
    assert shape(made) == (3, 8000, 100 * GIGA)
    assert made.containers == {"app": {"cpu": 8000}}


def test_without_targets_containers_keep_their_proportion() -> None:
    one, other = amounts(cpu="4"), amounts(cpu="2")
    pods = (ContainerView("app", True, {}, {}, one, one), ContainerView("log", True, {}, {}, other, other))
    hpa = HpaView(Fraction(1), frozenset({"cpu"}))
    begun = decided(view(2, {}, containers=pods, hpa=hpa, spec_replicas=2)).memory
    made = decided(view(2, {}, containers=pods, hpa=hpa, spec_replicas=4, memory=begun), NOW + 15)
    assert made.containers == {"app": {"cpu": 5333}, "log": {"cpu": 2667}}


def test_zero_replicas_are_left_alone() -> None:
    begun = decided(observed(2, amounts(cpu="6"), amounts(cpu="12"))).memory
    made = decided(changed(observed(2, amounts(cpu="6"), amounts(cpu="24"), begun), replicas=0, pods=0, ready=0))
    assert (made.actions, made.summary.reason, made.memory) == ((), SCALED_TO_ZERO, HvpaMemory())
    assert made.containers == {"app": {"cpu": 6000}}


def test_an_hvpa_yields_to_those_that_come_first() -> None:
    reason = find_conflict_reason(acting_vpa=True, hpa_on_target=True, elder_hvpa=False)
    assert reason is not None
    made = decided(changed(observed(2, amounts(cpu="6"), amounts(cpu="24")), conflict=reason))
    assert (made.actions, made.summary.reason.code) == ((), "ConflictingVPA")
    assert find_conflict_reason(acting_vpa=False, hpa_on_target=False, elder_hvpa=False) is None


@pytest.mark.req("HV-45")
def test_old_pods_keep_their_size_until_the_new_ones_are_ready_or_a_minute_is_over() -> None:
    made = decided(observed(2, amounts(cpu="6"), amounts(cpu="12001m")))
    assert made.actions == (SetScale(3), WriteBack(3))
    assert made.containers == {"app": {"cpu": 6000}}
    assert WAIT_FOR_READY_REPLICAS in made.summary.notes
    comes = changed(observed(3, amounts(cpu="6"), amounts(cpu="12001m"), made.memory), ready=2)
    waits = decided(comes, NOW + 59)
    assert (waits.containers, waits.requeue_at) == ({"app": {"cpu": 6000}}, NOW + 60)
    assert decided(changed(comes, ready=3), NOW + 10).containers == {"app": {"cpu": 4001}}
    assert decided(comes, NOW + 60).containers == {"app": {"cpu": 4001}}


@pytest.mark.req("HV-45")
def test_pods_grow_before_there_are_fewer_of_them() -> None:
    low = amounts(cpu="10800m")
    made = decided(observed(3, amounts(cpu="4"), low, scaleDown=AT_ONCE))
    assert made.actions == ()
    assert made.containers == {"app": {"cpu": 5400}}
    assert RESIZE_BEFORE_SCALE_IN in made.summary.notes
    again = decided(observed(3, amounts(cpu="4"), low, made.memory, scaleDown=AT_ONCE), NOW + HOUR)
    assert (again.actions, again.shape) == ((), made.shape), "they have not grown yet"
    grown = decided(observed(3, amounts(cpu="5400m"), low, again.memory, scaleDown=AT_ONCE), NOW + HOUR + 5)
    assert grown.actions == (SetScale(2), WriteBack(2))


@pytest.mark.req("HV-45")
def test_pods_that_could_not_get_what_was_published_are_asked_for_no_more_than_was_decided() -> None:
    low = amounts(cpu="10800m")
    stuck = ContainerView("app", True, {"cpu": 0}, low, amounts(cpu="4"), amounts(cpu="4"), amounts(cpu="24"))
    made = decided(changed(observed(8, amounts(cpu="24"), low, scaleDown=AT_ONCE), containers=(stuck,)))
    assert (made.shape.count, made.actions, made.containers) == (2, (), {"app": {"cpu": 5400}})
    assert RESIZE_BEFORE_SCALE_IN in made.summary.notes
    grown = decided(observed(8, amounts(cpu="5400m"), low, made.memory, scaleDown=AT_ONCE), NOW + 5)
    assert grown.actions == (SetScale(2), WriteBack(2))


def test_an_external_count_is_reset_once_in_a_window() -> None:
    total = amounts(cpu="24")
    first = decided(observed(3, amounts(cpu="8"), total))
    view = observed(4, amounts(cpu="8"), total)
    back = decided(changed(view, memory=first.memory, spec_replicas=3), NOW + 10)
    assert (back.shape.count, back.actions) == (3, (SetScale(3),))
    assert REPLICAS_DRIFTED in back.summary.notes
    again = decided(changed(observed(5, amounts(cpu="8"), total), memory=back.memory, spec_replicas=3), NOW + 20)
    assert DRIFT_TOLERATED in again.summary.notes
    assert not [action for action in again.actions if isinstance(action, SetScale)]
    assert again.requeue_at == NOW + 310
    at_last = decided(changed(observed(5, amounts(cpu="8"), total), memory=again.memory), NOW + 310)
    assert SetScale(3) in at_last.actions


def test_a_count_rewritten_before_the_next_reconcile_is_also_left_for_the_window() -> None:
    total = amounts(cpu="24")
    first = decided(observed(3, amounts(cpu="8"), total))
    back = decided(changed(observed(4, amounts(cpu="8"), total, first.memory), spec_replicas=3), NOW + 10)
    assert SetScale(3) in back.actions
    again = decided(changed(observed(4, amounts(cpu="8"), total, back.memory), spec_replicas=3), NOW + 11)
    assert DRIFT_TOLERATED in again.summary.notes
    assert not [action for action in again.actions if isinstance(action, SetScale)]


def test_externally_changed_requests_are_reported_for_the_length_of_the_window() -> None:
    view = observed(3, amounts(cpu="8"), amounts(cpu="24"))
    first = decided(view)
    edited = decided(changed(view, memory=first.memory, requests_edited=True), NOW + 10)
    assert REQUESTS_DRIFTED in edited.summary.notes
    assert not edited.actions
    repaired = decided(changed(view, memory=edited.memory), NOW + 20)
    assert REQUESTS_DRIFTED in repaired.summary.notes, "an edit that comes again in the window is no news"
    assert repaired.requeue_at == NOW + 310
    later = decided(changed(view, memory=repaired.memory), NOW + 310)
    assert REQUESTS_DRIFTED not in later.summary.notes
