"""Budgets of the hour, and what HPAs scale by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.resizes import GROUP, NOW
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.core.resize.actions import Action, EvictPod, PodRef, ResizePod, UnmarkPod
from trellis.core.resize.disruption_budget import HourlyAllowance, RecentDisruptions, is_disruptive
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.indexes import find_utilization_resources


def eviction(namespace: str = "shop") -> Action:
    return EvictPod(PodRef(namespace, "web-1-a", "u"), GROUP, {})


def after(times: list[tuple[float, str]], settings: UpdateSettings) -> RecentDisruptions:
    disruptions = RecentDisruptions()
    for at, namespace in times:
        disruptions = disruptions.with_action(eviction(namespace), NOW + at, settings)
    return disruptions


def test_the_hour_slides() -> None:
    rules = UpdateSettings(hourly=3, namespace_hourly=2)
    done = after([(0, "shop"), (10, "bank"), (20, "shop")], rules)
    assert done.compute_allowance("shop", NOW + 30, rules) == HourlyAllowance(0, 0, NOW + 3600)
    assert done.compute_allowance("bank", NOW + 30, rules) == HourlyAllowance(0, 1, NOW + 3600)
    assert done.compute_allowance("shop", NOW + 3600, rules) == HourlyAllowance(1, 1, None)
    assert done.compute_allowance("shop", NOW + 3620, rules) == HourlyAllowance(3, 2, None)


def test_without_an_hourly_budget_no_disruption_is_recorded_or_refused() -> None:
    assert after([(0, "shop")] * 5, UpdateSettings()) == RecentDisruptions()
    assert RecentDisruptions().compute_allowance("shop", NOW, UpdateSettings()) == HourlyAllowance()
    assert HourlyAllowance().count is None


def test_a_budget_of_zero_never_has_headroom() -> None:
    rules = UpdateSettings(hourly=0)
    assert RecentDisruptions().compute_allowance("shop", NOW, rules) == HourlyAllowance(0, None, None)


@given(st.integers(1, 4), st.lists(st.integers(0, 9000), max_size=12))
def test_headroom_is_back_at_the_reported_time_and_not_before(most: int, gaps: list[int]) -> None:
    rules = UpdateSettings(hourly=most)
    times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    done = after([(at, "shop") for at in times], rules)
    now = NOW + (times[-1] if times else 0)
    left = done.compute_allowance("shop", now, rules)
    assert (left.resets_at is None) is (left.count != 0)
    if left.resets_at is not None:
        assert done.compute_allowance("shop", left.resets_at, rules).count != 0
        assert done.compute_allowance("shop", left.resets_at - 1, rules).count == 0


def test_what_disturbs() -> None:
    ref = PodRef("shop", "web-1-a", "u")
    assert [
        is_disruptive(action)
        for action in (eviction(), ResizePod(ref, (), {}, restarts=True), ResizePod(ref, (), {}), UnmarkPod(ref, ()))
    ] == [True, True, False, False]


def hpa(*metrics: dict[str, Any]) -> HorizontalPodAutoscaler:
    return msgspec.convert({"spec": {"metrics": list(metrics)}}, HorizontalPodAutoscaler)


def resource(name: str, type_: str = "Utilization", **more: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": {"type": type_}, **more}}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([resource("cpu")], {"cpu"}),
        ([resource("cpu"), resource("memory")], {"cpu", "memory"}),
        ([resource("cpu", "AverageValue")], set()),
        ([resource("nvidia.com/gpu")], set()),
        ([{"type": "Pods", "pods": {"metric": {"name": "cpu"}, "target": {"type": "AverageValue"}}}], set()),
        (
            [
                {
                    "type": "ContainerResource",
                    "containerResource": {"name": "memory", "container": "app", "target": {"type": "Utilization"}},
                }
            ],
            {"memory"},
        ),
        ([], set()),
    ],
)
def test_only_utilization_looks_at_requests(metrics: list[dict[str, Any]], expected: set[str]) -> None:
    assert find_utilization_resources([hpa(*metrics)]) == expected
