"""The screen: what it lets through, what it leaves out, and that nobody is left out for whom a plan would act."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resize_world import (
    GROUP,
    NOW,
    Document,
    advice,
    container,
    governor,
    in_force,
    killed,
    pair,
    resizing,
    running,
    seen,
)
from sized_pods import limit_ranges
from trellis.core.resize.attempts import Attempt, Attempts
from trellis.core.resize.freezing import Freeze, Reach
from trellis.core.resize.plan import plan
from trellis.core.resize.screen import Screen, Screened
from trellis.core.resize.screened import WorkloadKey
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.views import WorkloadView
from trellis.core.sizing.governors import Governor

HOUR = 3600.0
RIGHT = container(cpu="1", memory="1Gi")
# Within its bounds, and more than 10 % off.
OFF = container(cpu="850m", memory="1Gi")
OUTSIDE = container(cpu="500m", memory="1Gi")


def named(governor_: Governor, name: str) -> Governor:
    return msgspec.structs.replace(governor_, claim=msgspec.structs.replace(governor_.claim, name=name))


def filled(governor_: Governor, *pods: Document, **more: Any) -> tuple[Screen, WorkloadKey]:
    screen = Screen(more.pop("settings", UpdateSettings()))
    key = screen.put(governor_, **more)
    for pod in pods:
        screen.put_pod(key, seen(pod))
    return screen, key


def lets_through(governor_: Governor, *pods: Document, **more: Any) -> bool:
    screen, key = filled(governor_, *pods, **more)
    found = screen.screen(NOW).workloads
    assert found in ((), (key,))
    return bool(found)


def two(each: Document) -> tuple[Document, Document]:
    return pair(running("web-1-a", each))


def test_an_empty_cluster_needs_nothing() -> None:
    assert Screen(UpdateSettings()).screen(NOW) == Screened()


def test_pods_with_what_is_recommended_need_no_plan_whatever_the_mode() -> None:
    for mode in ("Recreate", "InPlaceOrRecreate", "InPlace", "Initial"):
        screen, _ = filled(governor(mode), *two(RIGHT))
        assert screen.screen(NOW) == Screened()


@pytest.mark.parametrize("pod", [OUTSIDE, OFF, container(cpu=None, memory="1Gi")])
def test_pods_that_lack_something_need_a_plan(pod: Document) -> None:
    assert lets_through(governor(), *two(pod))
    assert not lets_through(governor("Initial"), *two(pod))


def test_a_pod_within_its_bounds_needs_a_plan_when_it_is_old_and_the_screen_says_when() -> None:
    screen, key = filled(governor(), *pair(running("web-1-a", OFF, age=11 * HOUR)))
    assert screen.screen(NOW) == Screened((), NOW + HOUR)
    assert screen.screen(NOW + HOUR - 1) == Screened((), NOW + HOUR)
    assert screen.screen(NOW + HOUR) == Screened((key,))


def test_a_pod_that_soon_ran_out_of_memory_needs_a_plan_and_one_that_ran_for_long_does_not() -> None:
    young = running("web-1-a", OFF, age=HOUR)
    assert lets_through(governor(), *pair(killed(young, ran=30.0)))
    assert not lets_through(governor(), *pair(killed(young, ran=3000.0)))
    assert lets_through(governor(policy={"evictAfterOOMSeconds": 3600}), *pair(killed(young, ran=3000.0)))
    # It has what it should have, so that another pod would be no better off.
    assert not lets_through(governor(), *pair(killed(running("web-1-a", RIGHT), ran=30.0)))


def test_a_kill_that_comes_later_is_seen_in_a_pod_like_the_others() -> None:
    young, other = pair(running("web-1-a", OFF, age=HOUR))
    screen, key = filled(governor(), young, other)
    screen.put_pod(key, seen(killed(other, ran=30.0)))
    assert screen.screen(NOW).workloads == (key,)


def test_boosts_and_resizes_under_way_need_a_plan() -> None:
    boosted = running("web-1-a", RIGHT, annotations={"vpaCpuStartupBoost/app": "{}"})
    assert lets_through(governor(), boosted)
    assert lets_through(governor("InPlace"), resizing(running("web-1-a", RIGHT), "PodResizePending", "Deferred"))


def test_pods_that_go_or_that_nobody_would_replace_need_none() -> None:
    assert not lets_through(governor(), *pair(running("web-1-a", OUTSIDE, going=True)))
    assert not lets_through(governor(), *pair(running("web-1-a", OUTSIDE, owner=None)))


def test_a_workload_with_too_few_pods_needs_none_unless_resizes_are_free() -> None:
    alone = running("web-1-a", OUTSIDE)
    assert not lets_through(governor("InPlaceOrRecreate"), alone)
    assert lets_through(governor("InPlaceOrRecreate", policy={"minReplicas": 1}), alone)
    free = UpdateSettings(skip_disruption_budget=True)
    assert lets_through(governor("InPlaceOrRecreate"), alone, settings=free)


def test_what_requirements_never_permit_needs_no_plan() -> None:
    asked = [{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]
    for mode in ("Recreate", "InPlaceOrRecreate"):
        assert not lets_through(governor(mode, policy={"actuationRequirements": asked}), *two(OUTSIDE))


def test_limit_ranges_and_horizontal_autoscalers_are_heeded() -> None:
    small = limit_ranges({"type": "Container", "max": {"cpu": "500m"}})
    limited = container(cpu="500m", memory="1Gi", limits={"cpu": "500m"})
    assert lets_through(governor(), *two(limited))
    assert not lets_through(governor(), *two(limited), limits=small)
    hold = UpdateSettings(hpa_conflict=HpaConflict.HOLD)
    assert not lets_through(governor(), *two(OUTSIDE), hpa=frozenset({"cpu"}), settings=hold)


def test_other_advice_is_asked_about_anew() -> None:
    screen, key = filled(governor(), *two(OUTSIDE))
    screen.put(governor(targets={"app": {"cpu": "500m", "memory": "1Gi"}}))
    assert screen.screen(NOW) == Screened()
    screen.put(governor())
    assert screen.screen(NOW).workloads == (key,)


def test_what_a_plan_waits_for_is_remembered_until_the_next_plan() -> None:
    screen, key = filled(governor(), *two(RIGHT))
    screen.look(key, NOW + 60)
    assert screen.screen(NOW) == Screened((), NOW + 60)
    assert screen.screen(NOW + 60).workloads == (key,)
    screen.look(key, None)
    assert screen.screen(NOW + 60) == Screened()


def test_pods_may_come_before_their_object_and_outlive_it() -> None:
    screen = Screen(UpdateSettings())
    key = WorkloadKey.of(governor())
    for pod in two(OUTSIDE):
        screen.put_pod(key, seen(pod))
    assert screen.screen(NOW) == Screened()
    screen.put(governor())
    assert screen.screen(NOW).workloads == (key,)
    screen.drop(key)
    screen.look(key, NOW)
    assert screen.screen(NOW) == Screened()
    for pod in two(OUTSIDE):
        screen.drop_pod(seen(pod).ref.uid)
    assert len(screen) == 0
    screen.put(governor())
    assert screen.screen(NOW) == Screened()


def test_a_pod_may_pass_to_another_object() -> None:
    screen, old = filled(named(governor(), "old"), *two(OUTSIDE))
    new = screen.put(named(governor(targets={}), "new"))
    for pod in two(OUTSIDE):
        screen.put_pod(new, seen(pod))
    assert screen.screen(NOW) == Screened()
    for pod in two(OUTSIDE):
        screen.put_pod(old, seen(pod))
    assert screen.screen(NOW).workloads == (old,)


def test_strangers_are_nobodys_business() -> None:
    screen = Screen(UpdateSettings())
    screen.drop(WorkloadKey("VerticalPodAutoscaler", "shop", "gone"))
    screen.drop_pod("gone")
    screen.look(WorkloadKey("VerticalPodAutoscaler", "shop", "gone"), NOW)
    assert screen.screen(NOW) == Screened()


# All pods have what is recommended, until some of these make a difference.
_OF_PODS: list[Document] = [
    {"cpu": "850m"},
    {"cpu": "1050m"},
    {"cpu": "100m"},
    {"cpu": None},
    {"memory": "900Mi"},
    {"limits": {"cpu": "2"}},
    {"limits": {"cpu": "1", "memory": "1Gi"}},
    {"restarts": ("cpu",)},
    {"side": True},
    {"cpu": "850m", "age": 60.0},
    {"cpu": "850m", "age": 11 * HOUR},
    {"cpu": "850m", "started": False},
    {"cpu": "850m", "age": 60.0, "killed": 5.0},
    {"cpu": "850m", "age": 60.0, "killed": 700.0},
    {"age": 60.0},
    {"killed": 5.0},
    {"observed": "side"},
    {"boost": "{}"},
    {"boost": '{"requests":{"cpu":"300m"}}'},
    {"ready": False},
    {"ready_for": 10.0},
    {"resize": ("PodResizePending", "Deferred", 10.0)},
    {"resize": ("PodResizePending", "Deferred", 400.0)},
    {"resize": ("PodResizePending", "Infeasible", 10.0)},
    {"resize": ("PodResizeInProgress", "", 10.0)},
    {"resize": ("PodResizeInProgress", "Error", 10.0)},
    {"in_force": {"cpu": "700m"}},
    {"phase": "Pending"},
    {"phase": "Succeeded"},
    {"going": True},
    {"owner": ("Job", "once")},
    {"owner": None},
    {"os": {"name": "windows"}},
]
_POLICIES: list[Document] = [{"mode": "Off"}, {"maxAllowed": {"cpu": "900m"}}, {"controlledValues": "RequestsOnly"}]
_HIGHER = [{"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}]
_LOWER = [{"resources": ["cpu"], "changeRequirement": "TargetLowerThanOrEqualToRequests"}]
_OF_OBJECTS: list[Document] = [
    {"cpu": "500m"},
    {"memory": "1200Mi"},
    {"spread": 0.0},
    {"spread": 0.9},
    {"policy": {"actuationRequirements": _HIGHER}},
    {"policy": {"evictionRequirements": _HIGHER}},
    {"policy": {"actuationRequirements": _LOWER}},
    {"policy": {"minReplicas": 1}},
    {"policy": {"minReplicas": 3}},
    {"policy": {"evictAfterOOMSeconds": 1000}},
    *({"resourcePolicy": {"containerPolicies": [{"containerName": "app", **each}]}} for each in _POLICIES),
    {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 60}}},
]
_AROUND: list[Document] = [
    {"limits": limit_ranges({"type": "Container", "max": {"cpu": "950m"}, "min": {"memory": "600Mi"}})},
    {"limits": limit_ranges({"type": "Container", "min": {"cpu": "1300m"}})},
    {"limits": limit_ranges({"type": "Pod", "max": {"cpu": "800m", "memory": "2Gi"}})},
    {"limits": limit_ranges({"type": "Container", "default": {"cpu": "3"}, "maxLimitRequestRatio": {"cpu": "2"}})},
    {"hpa": frozenset({"cpu"})},
    {"configured": {GROUP: 0}},
    {"configured": {GROUP: 5}},
    {"frozen": Freeze("alice", Reach.OBJECT)},
    {"failed": True},
]


def some_of(choices: list[Document], most: int = 2) -> st.SearchStrategy[Document]:
    return st.lists(st.sampled_from(choices), max_size=most).map(
        lambda some: {k: v for each in some for k, v in each.items()}
    )


def pod_with(name: str, given_: Document) -> Document:
    twists = dict(given_)
    limits, restarts = twists.pop("limits", {}), twists.pop("restarts", ())
    listed = [container("app", twists.pop("cpu", "1"), twists.pop("memory", "1Gi"), limits=limits, restarts=restarts)]
    if twists.pop("side", False):
        listed.append(container("side", "1", "1Gi"))
    marks = {"vpaObservedContainers": twists.pop("observed", None), "vpaCpuStartupBoost/app": twists.pop("boost", None)}
    ran, resize, has = twists.pop("killed", None), twists.pop("resize", None), twists.pop("in_force", {})
    started = twists.pop("started", True)
    pod = running(name, *listed, annotations={k: v for k, v in marks.items() if v is not None}, **twists)
    pod = in_force(pod, **has) if resize is None else resizing(pod, *resize, **has)
    if not started:
        del pod["status"]["startTime"]
    return pod if ran is None else killed(pod, ran)


def governor_with(name: str, mode: str, given_: Document) -> Governor:
    twists = dict(given_)
    amounts = {"cpu": twists.pop("cpu", "1"), "memory": twists.pop("memory", "1Gi")}
    spread = twists.pop("spread", 0.2)
    found = governor(mode, {}, **twists)
    given_advice = advice({"app": amounts, "side": amounts}, spread)
    return named(msgspec.structs.replace(found, advice=given_advice), name)


@st.composite
def workloads(draw: st.DrawFn, name: str) -> WorkloadView:
    alike = draw(some_of(_OF_PODS)) | draw(some_of(_OF_PODS))
    others = draw(st.lists(some_of(_OF_PODS), max_size=2))
    twists = [alike] * draw(st.sampled_from([2, 3, 1])) + others
    mode = draw(st.sampled_from(["Recreate", "InPlaceOrRecreate", "InPlace"] * 3 + ["Initial"]))
    around = dict(draw(some_of(_AROUND, 1)))
    failed = {f"uid-{name}-0": Attempt(1, NOW + 30, NOW - 10)} if around.pop("failed", False) else {}
    return WorkloadView(
        governor_with(name, mode, draw(some_of(_OF_OBJECTS))),
        tuple(seen(pod_with(f"{name}-{at}", each)) for at, each in enumerate(twists)),
        attempts=Attempts(failed),
        **around,
    )


_SETTINGS = st.builds(
    UpdateSettings,
    min_replicas=st.sampled_from([1, 2]),
    skip_disruption_budget=st.booleans(),
    resizes=st.sampled_from([True, True, False]),
    lowers_memory_limits=st.booleans(),
    startup_boost=st.sampled_from([True, True, False]),
    hpa_conflict=st.sampled_from(HpaConflict),
)


@settings(max_examples=200, deadline=None)
@given(view=workloads("a"), figures=_SETTINGS)
def test_the_plan_of_a_workload_that_is_left_out_does_nothing_and_waits_for_nothing_earlier(
    view: WorkloadView, figures: UpdateSettings
) -> None:
    screen = Screen(figures)
    key = screen.put(view.governor, view.limits, view.hpa)
    for pod in view.pods:
        screen.put_pod(key, pod)
    for at in (NOW, NOW + 60, NOW + 1.1 * HOUR):
        if view.attempts.pods:  # whoever made an attempt has made a plan, and made another after it
            screen.look(key, plan(view, at - 1, figures).next_look)
        found = screen.screen(at)
        wanted = plan(view, at, figures)
        if key not in found.workloads:
            assert wanted.actions == ()
            if wanted.next_look is not None:
                assert found.next_look is not None
                assert found.next_look <= wanted.next_look


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_in_whatever_order_things_come_the_screen_says_what_it_would_of_what_there_is_now(data: st.DataObject) -> None:
    screen = Screen(UpdateSettings())
    now: dict[WorkloadKey, WorkloadView] = {}
    owners: dict[str, WorkloadKey] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        view = data.draw(workloads(data.draw(st.sampled_from("ab"))))
        key = WorkloadKey.of(view.governor)
        if data.draw(st.integers(0, 4)) == 0:
            screen.drop(key)
            now.pop(key, None)
            continue
        screen.put(view.governor, view.limits, view.hpa)
        for pod in view.pods:
            screen.put_pod(key, pod)
            owners[pod.ref.uid] = key
        for uid in [uid for uid, owner in owners.items() if owner == key]:
            if uid not in {pod.ref.uid for pod in view.pods}:
                screen.drop_pod(uid)
                del owners[uid]
        now[key] = view
    fresh = Screen(UpdateSettings())
    for view in now.values():
        key = fresh.put(view.governor, view.limits, view.hpa)
        for pod in view.pods:
            fresh.put_pod(key, pod)
    one, other = screen.screen(NOW), fresh.screen(NOW)
    assert (set(one.workloads), one.next_look) == (set(other.workloads), other.next_look)
