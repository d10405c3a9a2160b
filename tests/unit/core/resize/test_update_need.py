"""Whether a pod should change: bounds, age, size of the change, kills, and what nobody could give it anyway."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders.pods import limit_ranges
from support.worlds.resizes import (
    DAY,
    NOW,
    Document,
    build_pod_view,
    container,
    decided,
    governor,
    in_force,
    killed,
    list_decisions,
    pair,
    running,
)
from trellis.core.recommend.capping import CappedResources
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.update_need import assess_update_need, measure_gap
from trellis.core.sizing.sizes import ContainerSize, PodSize

HOUR = 3600.0


def pod(**more: Any) -> Document:
    amounts = {name: more.pop(name, usual) for name, usual in (("cpu", "500m"), ("memory", "1Gi"))}
    return running("web-1-a", container(**amounts), **more)


def targets(cpu: str, memory: str = "1Gi") -> dict[str, dict[str, str]]:
    return {"app": {"cpu": cpu, "memory": memory}}


def why(target: str, *pods: Document, spread: float = 0.2, **more: Any) -> tuple[str, float | None]:
    """The need of the first pod, or the reason against it, and when to look again."""
    plan = decided(governor(targets=targets(target), spread=spread), *pods, **more)
    first = plan.decisions[0]
    return (first.need.reason.code if first.need else first.reason.code), first.requeue_at


def test_a_pod_outside_its_bounds_changes_however_young_it_is() -> None:
    young = pair(pod(age=60.0))
    assert why("1", *young)[0] == "OutsideBounds"
    assert why("250m", *young)[0] == "OutsideBounds"


def test_within_its_bounds_a_pod_is_left_alone_for_twelve_hours() -> None:
    assert why("580m", *pair(pod(age=11 * HOUR))) == ("PodTooYoung", NOW + HOUR)
    assert why("580m", *pair(pod(age=12 * HOUR)))[0] == "SignificantChange"


def test_a_change_of_less_than_a_tenth_is_not_worth_it() -> None:
    assert why("545m", *pair(pod())) == ("ChangeTooSmall", None)
    assert why("550m", *pair(pod()))[0] == "SignificantChange"
    assert why("500m", *pair(pod())) == ("SizeAsRecommended", None)


def test_a_pod_without_a_recommendation_needs_no_change() -> None:
    plan = decided(governor(targets={"other": {"cpu": "1"}}), *pair(pod()))
    assert list_decisions(plan) == [("Leave", "NothingRecommended")] * 2


def test_a_missing_request_is_filled_in_at_once() -> None:
    bare = running("web-1-a", container(cpu=None), age=60.0)
    assert why("1", *pair(bare))[0] == "RequestMissing"


@pytest.mark.parametrize(("ran", "reason"), [(599.0, "QuickOom"), (600.0, "PodTooYoung")])
def test_a_kill_soon_after_the_start_needs_no_bounds(ran: float, reason: str) -> None:
    assert why("580m", *pair(killed(pod(age=HOUR), ran)))[0] == reason


@pytest.mark.parametrize(("ago", "reason"), [(599.0, "QuickOom"), (600.0, "PodTooYoung"), (5 * DAY, "PodTooYoung")])
def test_a_kill_of_long_ago_is_forgotten_though_the_pod_still_reports_it(ago: float, reason: str) -> None:
    assert why("580m", *pair(killed(pod(age=HOUR), 10, ago=ago)))[0] == reason


@pytest.mark.parametrize(("ago", "reason"), [(590.0, "QuickOom"), (1190.0, "PodTooYoung")])
def test_an_object_that_wants_kills_to_be_very_soon_has_as_long_to_act_on_them(ago: float, reason: str) -> None:
    own = governor(targets=targets("580m"), policy={"evictAfterOOMSeconds": 5})
    verdict = decided(own, *pair(killed(pod(age=HOUR), 4, ago=ago))).decisions[0]
    assert (verdict.need.reason if verdict.need else verdict.reason).code == reason


def test_how_soon_a_kill_must_be_is_for_the_object_to_say() -> None:
    own = governor(targets=targets("580m"), policy={"evictAfterOOMSeconds": 30})
    plan = decided(own, *pair(killed(pod(age=HOUR), 60)))
    assert plan.decisions[0].reason.code == "PodTooYoung"


def test_with_the_gate_off_the_flag_says_it_for_all_objects() -> None:
    own = governor(targets=targets("580m"), policy={"evictAfterOOMSeconds": 30})
    plan = decided(own, *pair(killed(pod(age=HOUR), 60)), settings=UpdateSettings(per_vpa_config=False))
    assert plan.decisions[0].reason.code != "PodTooYoung"
    assert plan.actions


def test_an_oom_kill_is_no_need_if_a_new_pod_had_the_same_size() -> None:
    assert why("500m", *pair(killed(pod(age=HOUR), 10)))[0] == "SizeAsRecommended"


@pytest.mark.parametrize("amounts", [{"cpu": "501m"}, {"memory": "1025Mi"}, {"cpu": "499m", "memory": "1023Mi"}])
def test_an_oom_kill_is_no_need_if_a_new_pod_differed_by_a_nudge_alone(amounts: dict[str, str]) -> None:
    """A repeated resize nudges a pod that ran out of memory: a resize back may fail, and the pod be evicted for it."""
    assert why("500m", *pair(killed(pod(age=HOUR, **amounts), 10)))[0] != "QuickOom"


def test_an_oom_kill_is_a_need_if_a_new_pod_differed_by_more_than_a_nudge() -> None:
    assert why("500m", *pair(killed(pod(age=HOUR, memory="1022Mi"), 10)))[0] == "QuickOom"


def test_an_oom_kill_of_an_unsized_container_is_ignored() -> None:
    policy = {"containerPolicies": [{"containerName": "mesh", "mode": "Off"}]}
    two = running("web-1-a", container(), container("mesh"), age=HOUR)
    plan = decided(governor(targets=targets("580m"), resourcePolicy=policy), *pair(killed(two, 10, "mesh")))
    assert plan.decisions[0].reason.code == "PodTooYoung"


def test_containers_that_admission_did_not_see_are_left_alone() -> None:
    both = {"app": {"cpu": "500m", "memory": "1Gi"}, "mesh": {"cpu": "2"}}
    sized = running("web-1-a", container(), container("mesh"), annotations={"vpaObservedContainers": "app"})
    assert list_decisions(decided(governor(targets=both), *pair(sized)))[0] == ("Leave", "SizeAsRecommended")
    unread = running("web-1-a", container(), container("mesh"), annotations={"vpaObservedContainers": "app,, "})
    assert list_decisions(decided(governor(targets=both), *pair(unread)))[0][0] == "Evict"


def test_the_resources_in_force_are_compared() -> None:
    asked = running("web-1-a", container(cpu="1"))
    plan = decided(governor("InPlace", targets("1")), *pair(in_force(asked, cpu="500m")))
    assert list_decisions(plan)[0] == ("Wait", "ResizeUnderWay")


def test_a_pod_that_has_all_it_can_get_needs_nothing() -> None:
    # Upstream evicts such pods for ever: the recommendation stays out of reach of a LimitRange for pods.
    limited = running("web-1-a", container(cpu="500m", limits={"cpu": "500m"}))
    most = limit_ranges({"type": "Pod", "max": {"cpu": "500m"}})
    plan = decided(governor(targets=targets("2")), *pair(limited), limits=most)
    assert list_decisions(plan) == [("Leave", "SizeAsRecommended")] * 2


def test_a_resource_that_cannot_change_adds_no_urgency() -> None:
    shape = build_pod_view(pod()).in_force
    size = PodSize((ContainerSize(shape.containers[0], {"cpu": 500, "memory": 2**30 + 1}, {}),))
    bounds = {"app": CappedResources("app", {"cpu": 2000, "memory": 2**30 + 1}, {"cpu": 1000}, {})}
    need = assess_update_need(
        measure_gap(shape, size, bounds), started=0.0, quick_oom=False, now=NOW, settings=UpdateSettings()
    )
    assert need.reason.code == "ChangeTooSmall"


def test_pods_that_need_more_go_first_and_then_those_further_off() -> None:
    pods = [
        running("web-1-less", container(cpu="8")),
        running("web-1-more", container(cpu="900m", memory="1Gi")),
        running("web-1-most", container(cpu="100m", memory="1Gi")),
    ]
    more = UpdateSettings(eviction_tolerance=1.0)
    plan = decided(governor(targets=targets("2")), *pods, settings=more)
    assert [action.pod.name for action in plan.actions] == ["web-1-most", "web-1-more", "web-1-less"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"owner": None}, "NoController"),
        ({"nodeName": ""}, "PodWithoutNode"),
        ({"going": True}, "PodTerminating"),
        ({"phase": "Succeeded"}, "PodTerminating"),
    ],
)
def test_pods_that_must_not_be_disrupted_are_left_alone(changed: dict[str, Any], reason: str) -> None:
    assert list_decisions(decided(governor(targets=targets("2")), running("web-1-a", **changed))) == [("Leave", reason)]


def test_a_pod_without_a_start_is_too_young_unless_it_is_outside() -> None:
    fresh = pod(age=DAY)
    del fresh["status"]["startTime"]
    assert why("580m", *pair(fresh)) == ("PodTooYoung", None)
    assert why("2", *pair(fresh))[0] == "OutsideBounds"
