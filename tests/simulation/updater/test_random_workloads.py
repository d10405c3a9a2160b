"""Random workloads driven through many passes: no rule is ever broken, and in the end there is nothing left to do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.worlds.resizes import Document, World, build_pod_view, container, governor
from trellis.api.kube.pods import Pod
from trellis.api.resolve import UpdateMode
from trellis.core.boost.annotation import is_boosted
from trellis.core.cluster.write_results import WriteResult
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.resize.actions import Action, EvictPod, ResizePod
from trellis.core.resize.plan import UpdatePlan, plan_updates
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.update_need import satisfies_change
from trellis.core.resize.view import ResizeState

HIGHER, AT_LEAST, LOWER = (
    "TargetHigherThanRequests",
    "TargetHigherThanOrEqualToRequests",
    "TargetLowerThanRequests",
)
CPU, MEMORY = st.sampled_from(["100m", "500m", "1", "4"]), st.sampled_from(["256Mi", "1Gi", "3Gi"])
REQUIREMENTS: list[list[Document]] = [
    [],
    [],
    [{"resources": ["cpu", "memory"], "changeRequirement": HIGHER}],
    [
        {"resources": ["cpu"], "changeRequirement": AT_LEAST},
        {"resources": ["memory"], "changeRequirement": AT_LEAST},
    ],
    [{"resources": ["memory"], "changeRequirement": LOWER}],
]
SETTINGS = st.builds(
    UpdateSettings,
    eviction_tolerance=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    skip_disruption_budget=st.booleans(),
    lowers_memory_limits=st.booleans(),
)


@st.composite
def worlds(draw: st.DrawFn, *, calm: bool = False) -> World:
    cpu, memory = draw(CPU), draw(MEMORY)
    limits = draw(st.sampled_from([{}, {"cpu": "8"}, {"cpu": cpu, "memory": memory}]))
    restarts = draw(st.sampled_from([(), ("memory",)]))
    names = ["app", "mesh"][: draw(st.integers(1, 2))]
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "duration": "30s"}}} if draw(st.booleans()) else {}
    policy: Document = {"minReplicas": draw(st.integers(1, 3))}
    asked = draw(st.sampled_from(REQUIREMENTS))
    if asked:
        policy["actuationRequirements"] = asked
    ruling = governor(
        draw(st.sampled_from(["Recreate", "InPlaceOrRecreate", "InPlace"])),
        {name: {"cpu": draw(CPU), "memory": draw(MEMORY)} for name in names},
        draw(st.sampled_from([0.0, 0.5])),
        policy=policy,
        **boost,
    )
    template = {"containers": [container(name, cpu, memory, limits=limits, restarts=restarts) for name in names]}
    replicas = draw(st.integers(1, 5))
    takes = "act" if calm else draw(st.sampled_from(["act", "defer", "never", "refuse"]))
    return World(ruling, template, replicas, resize_response=takes, budget=draw(st.integers(0, replicas - 1)))


def mid_resize(pod: Document) -> bool:
    return build_pod_view(pod).resize.state in {ResizeState.PROPOSED, ResizeState.IN_PROGRESS}


def holds(world: World, plan: UpdatePlan, rules: UpdateSettings) -> None:
    """Every rule, written down once more, about a plan that has not been carried out yet."""
    assert [decision.pod.name for decision in plan.decisions] == list(world.pods)
    others = [action for action in plan.actions if not isinstance(action, ResizePod) or not action.unboosts]
    evicted: list[Action] = [other for other in others if isinstance(other, EvictPod)]
    resized: list[ResizePod] = [other for other in others if isinstance(other, ResizePod)]
    acting: list[Action] = [*evicted, *resized]
    assert len({action.pod.uid for action in acting}) == len(acting)
    assert not (evicted and world.governor.vpa.mode is UpdateMode.IN_PLACE)
    assert not (resized and world.governor.vpa.mode is UpdateMode.RECREATE)
    for change in acting:
        assert not is_boosted(world.pods[change.pod.name]["metadata"]["annotations"])
    disturbing: list[Action] = [
        *evicted,
        *(action for action in resized if action.restarts or not rules.skip_disruption_budget),
    ]
    living = [pod for pod in world.pods.values() if "deletionTimestamp" not in pod["metadata"]]
    assert not disturbing or len(living) >= (world.governor.vpa.min_replicas or 0)
    free = rules.skip_disruption_budget and not any(
        "resizePolicy" in container for container in world.template["containers"]
    )
    serving = {pod["metadata"]["uid"] for pod in world.serving() if free or not mid_resize(pod)}
    left = serving - {action.pod.uid for action in disturbing}
    needed = world.replicas - max(int(world.replicas * rules.eviction_tolerance), 1)
    assert len(left) >= min(len(serving), needed)


def requirements_hold(world: World, evicted: list[Document], resized: list[tuple[Document, Document]]) -> None:
    requirements = world.governor.vpa.requirements
    targets = {recommendation.container: recommendation.target for recommendation in world.governor.advice}
    for pod in evicted:
        having = {
            status["name"]: parse_amounts(status["resources"]["requests"])
            for status in pod["status"]["containerStatuses"]
        }
        assert any(
            all(
                any(
                    satisfies_change(requirement.change, targets[name][resource], having[name].get(resource, 0))
                    for resource in requirement.resources
                )
                for requirement in requirements
            )
            for name in targets
        )
    for before, after in resized:
        if is_boosted(before["metadata"]["annotations"]):
            continue
        for old, new in zip(before["status"]["containerStatuses"], after["spec"]["containers"], strict=True):
            was, now = (parse_amounts(container["resources"]["requests"]) for container in (old, new))
            for requirement in requirements:
                for resource in requirement.resources:
                    same = now[resource] == was[resource]
                    assert same or satisfies_change(requirement.change, now[resource], was[resource])


def run(world: World, rules: UpdateSettings, pauses: list[float]) -> int:
    """Drives passes and gives the number of actions in the last one."""
    count = 0
    for pause in pauses:
        view = world.view()
        updates = plan_updates(view, world.now, rules)
        holds(world, updates, rules)
        evicted, resized = len(world.evicted), len(world.resized)
        running = len(world.serving())
        outcomes = world.execute(updates.actions, rules)
        assert all(outcome.result is not WriteResult.INVALID for outcome in outcomes)
        assert len(world.serving()) >= min(running, world.budget)
        requirements_hold(world, world.evicted[evicted:], world.resized[resized:])
        count = len(updates.actions)
        # Whoever looks again before the cluster shows what was done does none of it a second time.
        done = {outcome.action.pod.uid for outcome in outcomes if outcome.result is WriteResult.APPLIED}
        stale = plan_updates(msgspec.structs.replace(view, attempts=world.attempts), world.now + 1, rules)
        assert done.isdisjoint(action.pod.uid for action in stale.actions)
        world.advance(pause)
    return count


PAUSES = st.lists(st.sampled_from([5.0, 31.0, 60.0, 400.0, 3700.0]), min_size=6, max_size=12)
QUIET = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.req("AR-07", "AR-14", "AR-23", "SB-27", "SB-28", "SB-40")
@QUIET
@given(worlds(), SETTINGS, PAUSES, st.data())
def test_no_rule_is_broken_in_any_state(world: World, rules: UpdateSettings, pauses: list[float], data: Any) -> None:
    run(world, rules, pauses)
    names = {recommendation.container for recommendation in world.governor.advice}
    targets = {name: {"cpu": data.draw(CPU), "memory": data.draw(MEMORY)} for name in names}
    moved = governor("Recreate", targets).advice
    world.governor = msgspec.structs.replace(world.governor, advice=moved)
    world.resize_response = data.draw(st.sampled_from(["act", "defer", "never", "refuse"]))
    run(world, rules, pauses)


@QUIET
@given(worlds(calm=True), SETTINGS)
def test_with_a_fixed_recommendation_everything_comes_to_rest(world: World, rules: UpdateSettings) -> None:
    run(world, rules, [60.0] * 16 + [13 * 3600.0] * 4 + [60.0] * 16)
    assert run(world, rules, [60.0, 3700.0, 60.0, 13 * 3600.0, 60.0]) == 0
    after = plan_updates(world.view(), world.now, rules)
    assert after.actions == ()
    assert not any(is_boosted(pod["metadata"]["annotations"]) for pod in world.pods.values())


def lowers_a_memory_limit_that_must_stay(world: World, rules: UpdateSettings) -> bool:
    """Whether something cannot succeed in place: before Kubernetes 1.34 no memory limit goes down without a restart."""
    targets = {recommendation.container: recommendation.target for recommendation in world.governor.advice}
    return not rules.lowers_memory_limits and any(
        "memory" in container["resources"].get("limits", {})
        and "resizePolicy" not in container
        and targets[container["name"]]["memory"] < parse_amounts(container["resources"]["requests"])["memory"]
        for container in world.template["containers"]
    )


@pytest.mark.req("AR-22")
@QUIET
@given(worlds(calm=True), SETTINGS)
def test_a_successful_resize_evicts_no_pod(world: World, rules: UpdateSettings) -> None:
    mode = UpdateMode.IN_PLACE_OR_RECREATE
    world.governor = msgspec.structs.replace(world.governor, vpa=msgspec.structs.replace(world.governor.vpa, mode=mode))
    run(world, rules, [60.0] * 10)
    assert world.evicted == [] or lowers_a_memory_limit_that_must_stay(world, rules)


@pytest.mark.req("SB-41")
@pytest.mark.parametrize("takes", ["defer", "never", "refuse"])
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_kubelet_that_takes_no_boost_back_sees_no_eviction_in_a_day(takes: str, mode: str) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}}
    ruling = governor(mode, {"app": {"cpu": "500m", "memory": "1Gi"}}, startupBoost=boost)
    world = World(ruling, {"containers": [container()]}, 3, resize_response=takes)
    for name in list(world.pods):
        del world.pods[name]
        world.create()
    run(world, UpdateSettings(), [900.0] * 48)
    moved = governor(mode, {"app": {"cpu": "4", "memory": "3Gi"}}).advice
    world.governor = msgspec.structs.replace(world.governor, advice=moved)
    run(world, UpdateSettings(), [900.0] * 48)
    assert world.evicted == []
    assert all(is_boosted(pod["metadata"]["annotations"]) for pod in world.pods.values())


def test_without_a_webhook_evictions_stop_after_the_first_pass() -> None:
    world = World(governor("Recreate"), {"containers": [container()]}, 4, webhook=False)
    run(world, UpdateSettings(), [60.0] * 50)
    assert len(world.evicted) <= 4
    assert {decision.reason.code for decision in plan_updates(world.view(), world.now, UpdateSettings()).decisions} == {
        "EvictionLoop"
    }
    run(world, UpdateSettings(), [600.0] * 6 * 24)
    assert len(world.evicted) <= 10


def test_a_pod_of_the_world_is_a_pod() -> None:
    world = World(governor(), {"containers": [container()]}, 1)
    (pod,) = world.pods.values()
    assert msgspec.convert(pod, Pod).spec.containers[0].name == "app"
