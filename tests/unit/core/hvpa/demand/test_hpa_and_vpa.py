"""What an HPA and a VPA ask for in total, and what of it is not believed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from support.worlds.hvpas import NOW, amounts, decided, meaning, shape, view
from trellis.api.kinds.hvpa import HpaDemand, HvpaStatus, ResourceTotals
from trellis.api.kube.scaling import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    Metric,
    MetricIdentifier,
    MetricSource,
    MetricTarget,
    MetricValue,
    ScalingBehavior,
    ScalingRules,
)
from trellis.core.hvpa import (
    ContainerView,
    HpaView,
    HvpaMemory,
    HvpaView,
    SetScale,
    WriteBack,
    build_blocked_steps,
    build_hpa_demand,
    build_recommendation,
    forget_written_replicas,
    read_hpa,
    restore_memory,
)
from trellis.core.hvpa.demand.hpa import HPA_BOUNDS, HPA_DEMAND_NOT_READ, HPA_STABILIZATION_WINDOW
from trellis.core.hvpa.steps import STABILIZATION_WINDOW

CPU = frozenset({"cpu"})


def silent(**more: Any) -> HpaView:
    return HpaView(Fraction(1), CPU, **more)


def workload(replicas: int, cpu: str, spec_replicas: int, memory: HvpaMemory | None = None, **more: Any) -> HvpaView:
    return view(
        replicas,
        amounts(cpu=cpu),
        spec_replicas=spec_replicas,
        memory=memory or HvpaMemory(),
        **{"hpa": silent(), **more},
    )


def begun(replicas: int = 2, cpu: str = "6", **more: Any) -> HvpaMemory:
    return decided(workload(replicas, cpu, replicas, **more)).memory


@pytest.mark.req("HV-06")
def test_a_wish_is_what_a_pod_requests_times_it() -> None:
    made = decided(workload(2, "6", 4, begun()), NOW + 15)
    assert made.hpa == amounts(cpu="24")
    assert made.actions == (SetScale(3), WriteBack(3))


def test_a_wish_is_written_back_unread_at_the_first_reconcile() -> None:
    made = decided(workload(2, "6", 4))
    assert (made.hpa, made.actions) == (amounts(cpu="12"), (WriteBack(2),))
    assert HPA_DEMAND_NOT_READ in made.summary.notes


def test_a_wish_is_unread_while_pods_of_the_last_step_are_not_ready_for_a_minute() -> None:
    step = decided(workload(2, "6", 4, begun()), NOW + 15)
    comes = msgspec.structs.replace(workload(3, "8", 5, step.memory), ready=2)
    unread = decided(comes, NOW + 30)
    assert (unread.hpa, unread.actions) == (amounts(cpu="24"), (WriteBack(3),))
    assert unread.requeue_at == NOW + 75
    assert decided(comes, NOW + 75).hpa == amounts(cpu="40")


def test_silence_keeps_the_total_and_a_low_ratio_lowers_it_after_the_window() -> None:
    memory = begun()
    half = {"hpa": HpaView(Fraction(1, 2), CPU)}
    low = decided(workload(2, "6", 2, memory, **half), NOW + 15)
    assert low.hpa == amounts(cpu="12")
    assert [step.reason for step in low.summary.blocked] == [STABILIZATION_WINDOW], "and it is said that less waits"
    later = decided(workload(2, "6", 2, low.memory, **half), NOW + 315)
    assert (later.hpa, shape(later)) == (amounts(cpu="6"), (2, 3000, None))
    assert later.summary.blocked == ()


def test_what_was_held_back_and_is_not_asked_for_again_is_not_needed_any_more() -> None:
    means = meaning(scaleUp={"updateMode": "Off"})
    plan = decided(workload(2, "6", 4, begun(meaning=means), meaning=means), NOW + 15)
    assert plan.hpa == amounts(cpu="24")
    repeats = {"hpa": HpaView(Fraction(2), CPU), "meaning": means}
    again = decided(workload(2, "6", 2, plan.memory, **repeats), NOW + 400)
    assert again.hpa == amounts(cpu="24"), "between two wishes it needs as much as before"
    content = decided(workload(2, "6", 2, again.memory, meaning=means), NOW + 415)
    assert content.hpa == amounts(cpu="24"), "for as long as the window is"
    gone = decided(workload(2, "6", 2, content.memory, meaning=means), NOW + 715)
    assert (gone.hpa, gone.summary.blocked) == (amounts(cpu="12"), ())


def test_a_wish_shorter_than_the_scale_up_window_is_not_followed() -> None:
    means = meaning(scaleUp={"stabilizationWindow": "3m"})
    memory = begun(meaning=means)
    for seconds, spec_replicas, ratio in ((15, 4, 2), (30, 4, 2), (45, 2, 1), (190, 2, 1), (230, 2, 1)):
        hpa = HpaView(Fraction(ratio), CPU)
        made = decided(workload(2, "6", spec_replicas, memory, meaning=means, hpa=hpa), NOW + seconds)
        memory = made.memory
        assert shape(made) == (2, 6000, None)
        assert bool(made.summary.blocked) == (ratio == 2)


def test_the_metrics_of_an_hpa_are_believed_a_minute_after_the_count_moved() -> None:
    """An average over more pods than there are now is too low for these."""
    means = meaning(scaleDown={"stabilizationWindow": "0s"})
    step = decided(workload(2, "6", 4, begun(meaning=means), meaning=means), NOW + 15)
    half = {"hpa": HpaView(Fraction(1, 2), CPU), "meaning": means}
    stale = decided(workload(3, "8", 3, step.memory, **half), NOW + 30)
    assert (stale.hpa, stale.requeue_at) == (amounts(cpu="24"), NOW + 75)
    fewer = decided(workload(3, "9", 2, stale.memory, meaning=means), NOW + 45)
    assert (fewer.hpa, fewer.actions) == (amounts(cpu="24"), (WriteBack(3),))
    assert decided(workload(3, "8", 5, stale.memory, meaning=means), NOW + 45).hpa == amounts(cpu="40")
    assert decided(workload(3, "8", 3, stale.memory, **half), NOW + 75).hpa == amounts(cpu="12")


def test_an_idle_hpa_leaves_something_to_measure_against() -> None:
    means = meaning(scaleDown={"stabilizationWindow": "0s"})
    idle = {"hpa": HpaView(Fraction(0), CPU), "meaning": means}
    made = decided(workload(1, "6", 1, begun(1, meaning=means), **idle), NOW + 15)
    assert shape(made) == (1, 1, None)


def test_an_hpa_that_wishes_none_leaves_something_to_multiply_with() -> None:
    means = meaning(scaleDown={"stabilizationWindow": "0s"})
    blind = {"hpa": HpaView(None, CPU, min_replicas=0), "meaning": means}
    none = decided(workload(2, "6", 0, begun(2, meaning=means), **blind), NOW + 15)
    assert shape(none) == (1, 1, None)
    few = decided(workload(1, "1m", 1, none.memory, **blind), NOW + 300)
    more = decided(workload(1, "1m", 5, few.memory, **blind), NOW + 315)
    assert more.hpa == amounts(cpu="5m")


def test_a_wish_counts_what_is_scaled_of_a_pod() -> None:
    size = amounts(cpu="3")
    pods = (ContainerView("app", True, {}, {}, size, size), ContainerView("mesh", False, {}, {}, size, size))
    first = decided(view(2, {}, containers=pods, spec_replicas=2, hpa=silent())).memory
    made = decided(view(2, {}, containers=pods, spec_replicas=4, hpa=silent(), memory=first), NOW + 15)
    assert made.hpa == amounts(cpu="12")
    assert list(made.containers) == ["app"]


def test_a_low_ratio_says_nothing_while_pods_are_not_ready() -> None:
    memory = begun()
    for seconds in (15, 400, 800):
        unready = msgspec.structs.replace(workload(2, "6", 2, memory, hpa=HpaView(Fraction(1, 2), CPU)), ready=1)
        made = decided(unready, NOW + seconds)
        memory = made.memory
        assert made.hpa == amounts(cpu="12")


def test_a_wish_is_lowered_by_a_low_ratio() -> None:
    means = meaning(scaleDown={"stabilizationWindow": "0s"})
    fifth = {"hpa": HpaView(Fraction(1, 5), CPU), "meaning": means}
    made = decided(workload(3, "8", 1, begun(3, "8", meaning=means), **fifth), NOW + 15)
    assert made.hpa == amounts(cpu="4800m")


@pytest.mark.req("HV-41")
@pytest.mark.parametrize("bounds", [{"min_replicas": 10}, {"max_replicas": 1}])
def test_a_bound_is_left_standing_and_no_wish(bounds: dict[str, int]) -> None:
    hpa, spec_replicas = silent(**bounds), next(iter(bounds.values()))
    made = decided(workload(2, "3125m", spec_replicas, begun(2, "3125m"), hpa=hpa), NOW + 15)
    assert (made.hpa, made.actions, shape(made)) == (amounts(cpu="6250m"), (), (2, 3125, None))
    assert HPA_BOUNDS in made.summary.notes
    more = decided(workload(2, "3125m", 12, made.memory, hpa=silent(min_replicas=10)), NOW + 30)
    assert more.hpa == amounts(cpu="37500m")


def test_what_a_deleted_hpa_asked_for_holds_for_the_window() -> None:
    step = decided(workload(2, "6", 4, begun()), NOW + 15)
    gone = decided(workload(3, "8", 3, step.memory, hpa=None), NOW + 300)
    assert (gone.hpa, shape(gone), gone.requeue_at) == (amounts(cpu="24"), (3, 8000, None), NOW + 315)
    assert decided(workload(3, "8", 3, gone.memory, hpa=None), NOW + 316).hpa == {}


def test_a_write_that_may_have_failed_is_no_wish() -> None:
    step = decided(workload(2, "6", 4, begun()), NOW + 15)
    again = decided(workload(3, "8", 4, forget_written_replicas(step.memory)), NOW + 20)
    assert (again.hpa, again.actions) == (amounts(cpu="24"), (WriteBack(3),))


@pytest.mark.parametrize("spec_replicas", [2, 4])
def test_nothing_is_scaled_twice_if_a_controller_dies_after_scaling(spec_replicas: int) -> None:
    """The target has its three replicas, but neither `spec.replicas` nor the status was written."""
    made = decided(workload(3, "8", spec_replicas), NOW + 20)
    assert (shape(made), made.actions) == ((3, 8000, None), (WriteBack(3),))


def test_an_hpa_that_waits_itself_is_reported() -> None:
    assert HPA_STABILIZATION_WINDOW in decided(workload(2, "6", 2, hpa=silent(stabilizes=True))).summary.notes


@pytest.mark.req("HV-06")
def test_a_users_vpa_counts_as_it_was_first_observed_until_the_total_is_reported() -> None:
    size = amounts(cpu="6")
    pods = (ContainerView("app", True, amounts(cpu="12"), {}, size, size),)
    first = decided(view(2, {}, containers=pods))
    assert first.vpa == amounts(cpu="24")
    more = (ContainerView("app", True, amounts(cpu="11"), {}, amounts(cpu="8"), amounts(cpu="8"), amounts(cpu="8")),)
    later = view(3, {}, containers=more, memory=first.memory)
    assert decided(later, NOW + 60).vpa == amounts(cpu="24")
    assert decided(msgspec.structs.replace(later, memory=HvpaMemory()), NOW + 60).vpa == amounts(cpu="24"), (
        "memory is lost"
    )
    assert decided(msgspec.structs.replace(later, published_totals=amounts(cpu="23")), NOW + 60).vpa == amounts(
        cpu="23"
    )


def metric(kind: str = "Resource", name: str = "cpu", container: str = "", **values: Any) -> Metric:
    source = MetricSource(name=name, container=container, **values)
    return Metric(type=kind, **{"resource" if kind == "Resource" else "container_resource": source})


def hpa(wanted: Metric, current: Metric | None = None, **spec: Any) -> HorizontalPodAutoscaler:
    status = HorizontalPodAutoscalerStatus(current_metrics=(current,) if current is not None else ())
    return HorizontalPodAutoscaler(
        spec=HorizontalPodAutoscalerSpec(metrics=(wanted,), max_replicas=8, **spec), status=status
    )


REQUESTS = {"app": {"cpu": 875}, "mesh": {"cpu": 125}}
AT_80 = MetricTarget(type="Utilization", average_utilization=80)


def test_the_ratio_is_exact_where_usage_and_requests_are_known() -> None:
    whole = hpa(metric(target=AT_80), metric(current=MetricValue(average_value="50m", average_utilization=5)))
    assert read_hpa(whole, REQUESTS, owned=True).ratio == Fraction(1, 16)
    assert read_hpa(whole, {}, owned=True).ratio == Fraction(5, 80)
    one = hpa(
        metric("ContainerResource", container="app", target=AT_80),
        metric("ContainerResource", container="app", current=MetricValue(average_value="50m")),
    )
    assert read_hpa(one, REQUESTS, owned=True).ratio == Fraction(1, 14)


def test_of_several_metrics_the_one_that_is_furthest_above_its_target_counts() -> None:
    cpu, memory = metric(target=AT_80), metric(name="memory", target=AT_80)
    metrics = (
        metric(current=MetricValue(average_utilization=40)),
        metric(name="memory", current=MetricValue(average_utilization=60)),
    )
    both = HorizontalPodAutoscaler(
        spec=HorizontalPodAutoscalerSpec(metrics=(cpu, memory), max_replicas=8),
        status=HorizontalPodAutoscalerStatus(current_metrics=metrics),
    )
    view = read_hpa(both, {}, owned=True)
    assert (view.ratio, view.resources) == (Fraction(3, 4), frozenset({"cpu", "memory"}))


def test_an_hpa_without_metrics_has_no_ratio_and_speaks_of_what_its_metrics_name() -> None:
    view = read_hpa(hpa(metric(target=AT_80)), REQUESTS, owned=False)
    assert (view.ratio, view.resources, view.min_replicas, view.max_replicas) == (None, CPU, 1, 8)
    assert view.stabilizes
    at_once = ScalingBehavior(scale_down=ScalingRules(stabilization_window_seconds=0))
    assert not read_hpa(hpa(metric(target=AT_80), behavior=at_once), REQUESTS, owned=False).stabilizes


def test_average_values_and_metrics_of_others_speak_of_both_resources() -> None:
    named = MetricIdentifier(name="requests")
    wanted = Metric(type="Pods", pods=MetricSource(metric=named, target=MetricTarget(average_value="100")))
    current = Metric(type="Pods", pods=MetricSource(metric=named, current=MetricValue(average_value="250")))
    view = read_hpa(hpa(wanted, current), REQUESTS, owned=True)
    assert (view.ratio, view.resources) == (Fraction(5, 2), frozenset({"cpu", "memory"}))


def test_the_status_says_what_was_decided_and_gives_it_back() -> None:
    step = decided(workload(2, "6", 4, begun()), NOW + 15)
    recommendation, demand = build_recommendation(step), build_hpa_demand(step)
    assert recommendation is not None
    assert [
        (container_recommendation.container_name, container_recommendation.target)
        for container_recommendation in recommendation.container_recommendations or ()
    ] == [("app", {"cpu": "8"})]
    assert demand == HpaDemand(ResourceTotals("24", None), "2027-01-15T08:00:15Z")
    memory = restore_memory(HvpaStatus(hpa=demand), NOW + 20)
    assert decided(workload(3, "9", 3, memory), NOW + 20).hpa == amounts(cpu="24")
    assert restore_memory(None, NOW) == restore_memory(HvpaStatus(), NOW) == HvpaMemory()


def test_a_restarted_process_knows_from_the_status_when_the_count_last_moved() -> None:
    memory = restore_memory(HvpaStatus(last_scale_time="2027-01-15T08:00:00Z"), NOW + 20)
    assert memory == HvpaMemory(scaled_at=NOW)
    assert restore_memory(HvpaStatus(last_scale_time="yesterday"), NOW) == HvpaMemory(), (
        "and nothing from what is no time"
    )
    later = restore_memory(HvpaStatus(last_scale_time="9999-01-15T08:00:00Z"), NOW)
    assert later.scaled_at == NOW, "what another clock says is never waited for"


def test_the_status_says_what_is_held_back() -> None:
    means = meaning(scaleUp={"updateMode": "Off"})
    made = decided(workload(2, "6", 4, begun(meaning=means), meaning=means), NOW + 15)
    (step,) = build_blocked_steps(made)
    assert (step.direction, step.reason) == ("Up", "UpdatePolicy")
    assert step.message.startswith("2 x (CPU 6) to 3 x (CPU 8): ")
    assert made.actions == (WriteBack(2),), "so that the HPA repeats its wish"


def test_what_is_published_leaves_no_room_for_second_thoughts_about_its_size() -> None:
    published = build_recommendation(decided(workload(2, "6", 4, begun()), NOW + 15))
    assert published is not None
    for recommendation in published.container_recommendations or ():
        assert recommendation.lower_bound == recommendation.upper_bound == recommendation.target
