"""What an Hvpa makes of an HPA's noisy metrics: rounding and noise within the HPA's tolerance do not move the count."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from support.worlds.hvpas import NOW, amounts, decided, meaning, shape, view
from trellis.api.kube.scaling import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    Metric,
    MetricSource,
    MetricTarget,
    MetricValue,
)
from trellis.core.hvpa import HpaView, HvpaMemory, HvpaPlan, HvpaView, SetScale, WriteBack, read_hpa
from trellis.core.hvpa.steps import STABILIZATION_WINDOW

CPU = frozenset({"cpu"})
WINDOW = 300.0


def by_cpu(ratio: Fraction, **more: Any) -> HpaView:
    """An HPA on the utilization of CPU."""
    return HpaView(ratio, CPU, ratios={"cpu": ratio}, **more)


def workload(
    replicas: int, millicores: int, spec_replicas: int, memory: HvpaMemory, hpa: HpaView, **more: Any
) -> HvpaView:
    return view(replicas, amounts(cpu=f"{millicores}m"), spec_replicas=spec_replicas, memory=memory, hpa=hpa, **more)


class Loop:
    """Story 1 whose plans are carried out at once. Its HPA measures a demand, in millicores of requests, and wishes."""

    def __init__(self, replicas: int, millicores: int, **spec: Any) -> None:
        self.means, self.replicas, self.size = meaning(**spec), replicas, millicores
        self.memory, self.now = HvpaMemory(), NOW
        self.sees(replicas * millicores, None, 0)

    def sees(self, demand: int, spec_replicas: int | None = None, seconds: float = 15, **more: Any) -> HvpaPlan:
        """The plan when the HPA has measured this, and written that; its count and size are there afterwards.

        `vpa` is the VPA's total.
        """
        total = {"cpu": more.pop("vpa")} if "vpa" in more else None
        self.now += seconds
        has = self.replicas * self.size
        hpa = by_cpu(Fraction(demand, has), **more)
        requested = self.replicas if spec_replicas is None else spec_replicas
        view = workload(
            self.replicas, self.size, requested, self.memory, hpa, meaning=self.means, total=total, target=total
        )
        made = decided(view, self.now)
        self.memory = made.memory
        for action in made.actions:
            self.replicas = action.replicas if isinstance(action, SetScale) else self.replicas
        self.size = made.containers.get("app", {}).get("cpu", self.size)
        return made

    def lasts(self, demand: int, seconds: float, **more: Any) -> HvpaPlan:
        """The same demand for so long, while the HPA is silent."""
        for _ in range(int(seconds / 15)):
            made = self.sees(demand, **more)
        return made

    @property
    def state(self) -> tuple[int, int]:
        return self.replicas, self.size


def test_a_pod_more_that_is_only_rounding_is_taken_as_the_fraction_it_stands_for() -> None:
    loop = Loop(3, 8000)
    made = loop.sees(26_640, spec_replicas=4)
    assert (made.hpa, loop.state) == (amounts(cpu="26640m"), (3, 8880)), "and not 4 x 8, which is 32 cores"


def test_a_wish_that_leads_to_the_same_count_anyway_is_what_a_pod_requests_times_it() -> None:
    loop = Loop(7, 20_572)
    assert loop.sees(187_500, spec_replicas=10).hpa == amounts(cpu="205720m")
    assert loop.state == (8, 24_000)


def test_a_wish_that_metrics_do_not_explain_counts_whole() -> None:
    """They may be older than the wish, or too small because the HPA counts pods that are not there."""
    loop = Loop(3, 8000)
    assert loop.sees(24_000, spec_replicas=4).hpa == amounts(cpu="32")
    assert loop.state == (4, 8000)


def test_metrics_that_are_no_share_of_requests_say_nothing_of_fractions() -> None:
    first = decided(workload(3, 8000, 3, HvpaMemory(), HpaView(Fraction(1), CPU))).memory
    made = decided(workload(3, 8000, 4, first, HpaView(Fraction(111, 100), CPU)), NOW + 15)
    assert (made.hpa, shape(made)) == (amounts(cpu="32"), (4, 8000, None))


def test_a_spike_just_above_the_edge_gets_all_that_the_count_holds_and_is_reported_as_waiting() -> None:
    loop = Loop(3, 8000)
    loop.lasts(24_000, WINDOW)
    made = loop.sees(29_000, spec_replicas=4)
    assert (made.hpa, loop.state) == (amounts(cpu="27"), (3, 9000)), "29 / 27 is within the tolerance of the HPA"
    assert [step.reason for step in made.summary.blocked] == [STABILIZATION_WINDOW]
    assert made.actions == (WriteBack(3),)


def test_a_spike_beyond_the_tolerance_of_the_hpa_is_followed_at_once() -> None:
    loop = Loop(3, 8000)
    loop.lasts(24_000, WINDOW)
    assert loop.sees(29_701, spec_replicas=4).actions == (SetScale(4),)
    assert loop.replicas == 4


@pytest.mark.parametrize(("measured", "count"), [(15, 4), (45, 3)])
def test_a_spike_is_followed_at_once_only_before_any_level_was_measured(measured: int, count: int) -> None:
    loop = Loop(3, 8000)
    loop.lasts(24_000, measured)
    loop.sees(29_000, spec_replicas=4)
    assert loop.replicas == count


def test_demand_above_the_edge_raises_the_count_when_it_lasts_though_the_hpa_is_silent() -> None:
    loop = Loop(3, 9000)
    loop.lasts(26_000, WINDOW)
    assert loop.lasts(28_350, WINDOW / 3).shape.count == 3
    loop.lasts(28_350, 2 * WINDOW)
    assert loop.replicas == 4
    assert 27_000 < 4 * loop.size <= 28_352


def test_a_silent_hpa_at_its_maximum_is_not_given_more_than_it_may_ask_for() -> None:
    loop = Loop(3, 9000)
    for _ in range(60):
        loop.sees(28_350, max_replicas=3)
    assert loop.state == (3, 9000)


def test_a_count_that_only_noise_asked_for_goes_after_a_window_though_the_hpa_is_silent() -> None:
    """At 4 x 6.45 the ratio is 0.93, at which an HPA says nothing, and 25.8 is more than 90 % of 27."""
    loop = Loop(4, 6450)
    loop.lasts(24_000, WINDOW - 30)
    assert loop.state == (4, 6450)
    loop.lasts(24_000, 60)
    assert loop.replicas == 3
    assert 24_000 <= 3 * loop.size < 24_100, "the first of the window was what ran"


def test_a_count_that_rose_stays_for_half_an_hour_while_the_hpa_is_silent() -> None:
    loop = Loop(3, 9000)
    while loop.replicas == 3:
        loop.sees(27_300)
    rose = loop.now
    while loop.replicas == 4:
        loop.sees(24_600)
        loop.sees(23_900)
    assert 6 * WINDOW <= loop.now - rose <= 6 * WINDOW + 60


def test_a_level_that_is_gone_neither_raises_nor_lowers_the_count_by_its_part_of_the_mean() -> None:
    loop = Loop(4, 9000)
    loop.lasts(36_000, 6 * WINDOW)
    loop.lasts(24_000, 2 * WINDOW)
    assert loop.replicas == 3
    scaled = loop.memory.scaled_at
    loop.lasts(24_000, 6 * WINDOW)
    assert (loop.replicas, loop.memory.scaled_at) == (3, scaled)


@pytest.mark.req("HV-44")
def test_the_mean_lowers_no_count_within_the_overlap() -> None:
    at_four, left = Loop(4, 6450), Loop(4, 6450)
    at_four.lasts(24_301, 3 * WINDOW)
    left.lasts(24_299, 8 * WINDOW)
    assert (at_four.state, left.state) == ((4, 6450), (3, 8100))


@pytest.mark.req("HV-43")
def test_a_dip_is_no_noise_and_lowers_no_count_by_its_mean() -> None:
    loop = Loop(4, 6450)
    loop.lasts(25_800, 2 * WINDOW)
    loop.lasts(12_000, WINDOW - 60)
    loop.lasts(25_800, 2 * WINDOW)
    assert loop.memory.decided is not None
    assert loop.state == (4, 6450)
    assert loop.memory.scaled_at is None, "at no time"


def test_the_time_in_which_nothing_can_be_measured_does_not_count() -> None:
    loop = Loop(4, 6450)
    loop.lasts(24_000, WINDOW - 60)
    before = loop.memory.means["cpu"]
    view = workload(4, 6450, 4, loop.memory, by_cpu(Fraction(24, 25)), meaning=loop.means)
    loop.memory = decided(msgspec.structs.replace(view, ready=3), loop.now + 15).memory
    loop.memory = decided(msgspec.structs.replace(view, ready=3, memory=loop.memory), loop.now + 200).memory
    after = loop.memory.means["cpu"]
    assert after.weight < before.weight + 0.05
    loop.now += 200
    assert loop.sees(24_000).shape.count == 4, "no whole window was measured yet"


def test_while_the_mean_moves_towards_another_count_it_is_reconciled_without_any_change() -> None:
    loop = Loop(4, 6450)
    made = loop.sees(24_000)
    assert made.requeue_at is not None
    assert made.requeue_at - loop.now <= WINDOW / 10
    assert Loop(3, 8000).sees(24_000).requeue_at is None


def test_without_a_window_the_present_demand_is_the_mean() -> None:
    loop = Loop(4, 6450, scaleDown={"stabilizationWindow": "0s"})
    loop.sees(24_000)
    loop.sees(24_000)
    assert loop.state == (3, 8000)


def test_a_new_wish_waits_for_the_status_that_explains_it_and_no_longer_than_the_patience() -> None:
    """The HPA controller writes the scale first, and its status after it."""
    loop = Loop(3, 8000)
    early = loop.sees(24_000, spec_replicas=4, desired_replicas=3)
    assert (early.actions, early.requeue_at) == ((), loop.now + 5), "neither read nor written back"
    explained = decided(
        workload(3, 8000, 4, early.memory, by_cpu(Fraction(111, 100), desired_replicas=4), meaning=loop.means),
        loop.now + 1,
    )
    assert (explained.hpa, explained.actions) == (amounts(cpu="26640m"), (WriteBack(3),))
    late = workload(3, 8000, 4, early.memory, by_cpu(Fraction(1), desired_replicas=3), meaning=loop.means)
    assert decided(late, loop.now + 4).actions == ()
    assert decided(late, loop.now + 5).actions == (SetScale(4),), "somebody else wishes, say"


def test_a_vpa_of_few_samples_a_little_above_the_edge_gets_all_that_the_count_holds() -> None:
    loop = Loop(3, 8000)
    loop.lasts(24_000, 120)
    made = loop.lasts(24_000, 900, vpa=27_200)
    assert loop.state == (3, 9000)
    assert made.vpa == {"cpu": 27_200}
    assert made.requeue_at is not None
    loop.lasts(24_000, 3600, vpa=24_650)
    assert loop.replicas == 3


def test_a_vpa_that_stays_above_the_edge_raises_the_count_after_an_hour() -> None:
    loop = Loop(3, 8000)
    loop.lasts(24_000, 120)
    loop.lasts(24_000, 3600, vpa=27_200)
    assert loop.replicas == 3
    loop.lasts(24_000, 300, vpa=27_200)
    assert loop.state == (4, 6800)


@pytest.mark.parametrize(("size", "demand", "vpa"), [(8000, 24_000, 30_000), (9000, 27_100, 27_200)])
def test_a_vpa_far_above_the_edge_or_one_that_metrics_confirm_is_followed_at_once(
    size: int, demand: int, vpa: int
) -> None:
    loop = Loop(3, size)
    loop.lasts(demand, 120)
    loop.sees(demand, vpa=vpa)
    assert loop.replicas == 4


def test_own_ratios_are_those_of_utilizations_alone() -> None:
    requests = {"app": {"cpu": 1000, "memory": 1000}}

    def read(*pairs: tuple[str, MetricTarget, MetricValue]) -> HpaView:
        metrics = [Metric("Resource", resource=MetricSource(name=name, target=aim)) for name, aim, _ in pairs]
        measured = [Metric("Resource", resource=MetricSource(name=name, current=now)) for name, _, now in pairs]
        spec = HorizontalPodAutoscalerSpec(metrics=tuple(metrics), max_replicas=8)
        status = HorizontalPodAutoscalerStatus(current_metrics=tuple(measured), desired_replicas=3)
        return read_hpa(HorizontalPodAutoscaler(spec=spec, status=status), requests, owned=True)

    half = ("cpu", MetricTarget("Utilization", average_utilization=50), MetricValue(average_value="400m"))
    full = ("memory", MetricTarget("Utilization", average_utilization=100), MetricValue(average_value="900"))
    raw = ("memory", MetricTarget("AverageValue", average_value="100"), MetricValue(average_value="900"))
    assert read(half, full).ratios == {"cpu": Fraction(4, 5), "memory": Fraction(9, 10)}
    assert read(half, raw).ratios == {}
    assert (read(half).desired_replicas, read(half).ratio) == (3, Fraction(4, 5))
