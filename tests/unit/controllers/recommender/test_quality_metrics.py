"""Quality metrics count the samples that upstream counts."""

from __future__ import annotations

from typing import Any

import pytest

from support.controllers.recommender import World
from trellis.testing.scripted_transport import error_response

UNSIZED = {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}
ADVICE = {
    "containerName": "app",
    "target": {"cpu": "300m", "memory": "500Mi"},
    "uncappedTarget": {"cpu": "400m", "memory": "500Mi"},
}
PUBLISHED = {
    "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2025-10-09T08:00:00Z"}],
    "recommendation": {"containerRecommendations": [ADVICE]},
}


def missing(world: World, resource: str) -> float:
    """How many samples came while there was no recommendation."""
    labels = f'is_oom="false",resource="{resource}",update_mode=""'
    return world.metric_value(f"vpa_quality_usage_sample_missing_recommendation_count{{{labels}}}")


def compared(world: World) -> float:
    """How many CPU samples came while there was one."""
    return world.metric_value('vpa_quality_cpu_recommendations_cores_count{update_mode=""}')


def test_first_samples_lack_a_recommendation_and_later_ones_are_compared_with_it() -> None:
    world = World()
    world.add_workload("web", pods=2)

    async def play() -> None:
        await world.passes(1)
        assert (missing(world, "cpu"), missing(world, "memory"), compared(world)) == (2, 2, 0)
        await world.passes(3)
        assert (missing(world, "cpu"), missing(world, "memory"), compared(world)) == (2, 2, 6)
        # A workload that comes later has a first sample, too.
        world.add_workload("late", pods=1)
        await world.passes(2)
        assert missing(world, "cpu") == 3
        labels = 'recommendation_missing="true",update_mode=""'
        assert (
            world.metric_value(f"vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores_sum{{{labels}}}") == 1.5
        )

    world.run(play)


def test_a_recommendation_published_by_another_process_is_in_force() -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.vpa("web")["status"] = PUBLISHED

    async def play() -> None:
        await world.passes(1)
        assert (missing(world, "cpu"), compared(world)) == (0, 1)
        # The uncapped target, and not the target.
        assert world.metric_value('vpa_quality_cpu_recommendations_cores_sum{update_mode=""}') == 0.4

    world.run(play)


@pytest.mark.parametrize(("policy", "counted"), [({}, True), ({"resourcePolicy": UNSIZED}, False)])
def test_only_containers_that_are_to_be_sized_are_counted(policy: dict[str, Any], counted: bool) -> None:
    world = World()
    world.add_workload("web", pods=1)
    world.add_vpa("web", **policy)

    async def play() -> None:
        await world.passes(3)
        assert (missing(world, "cpu") > 0, compared(world) > 0) == (counted, counted)

    world.run(play)


def test_every_pass_observes_the_change_of_a_recommendation_even_if_zero() -> None:
    world = World()
    world.add_workload("web", pods=1)
    name = "vpa_quality_relative_recommendation_changes"
    labels = 'resource="cpu",update_mode="",vpa_size_log2="0"'

    async def play() -> None:
        await world.passes(1)
        assert world.metric_value(f"{name}_count{{{labels}}}") == 0
        await world.passes(4)
        assert world.metric_value(f"{name}_count{{{labels}}}") == 4
        assert world.metric_value(f"{name}_sum{{{labels}}}") == 0

    world.run(play)


def test_a_recommendation_that_could_not_be_written_has_not_moved() -> None:
    world = World()
    world.add_workload("still", pods=1)
    world.add_workload("web", pods=1)
    labels = 'resource="cpu",update_mode="",vpa_size_log2="0"'

    async def play() -> None:
        await world.passes(2)
        world.usage["web-0"] = {"app": {"cpu": "4", "memory": "300Mi"}}
        world.fault = lambda request: (
            error_response(403, "Forbidden")
            if request.method == "PATCH" and "/verticalpodautoscalers/" in request.path
            else None
        )
        await world.passes(3)
        assert moved() == 0
        world.fault = lambda _request: None
        await world.passes(2)
        assert moved() > 0

    def moved() -> float:
        return world.metric_value(f"vpa_quality_relative_recommendation_changes_sum{{{labels}}}")

    world.run(play)
