"""What a change costs the Hvpa controller depends on what it is about, not on how much there is beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api_server.server import pod_path
from support.controllers.hvpa import World, path
from trellis.base.selectors import MatchExpression, Selector, selector_from_object
from trellis.controllers.hvpa.process import HvpaController
from trellis.core.cluster.target_selectors import TargetSelectorIndex

FEW, MANY = 4, 24

KEYS, VALUES = ("app", "chart", "tier"), ("a", "b", "c")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


class Counted:
    """How often selectors are held against pods."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.times = 0
        matches = Selector.matches

        def counted(selector: Selector, labels: Mapping[str, str]) -> bool:
            self.times += 1
            return matches(selector, labels)

        patch.setattr(Selector, "matches", counted)

    def take(self) -> int:
        times, self.times = self.times, 0
        return times


def world_of(apps: int) -> World:
    """So many workloads with an Hvpa each, all in one namespace."""
    world = World()
    for number in range(apps):
        world.add_workload(f"app-{number}")
        world.add_hvpa(f"app-{number}", vpa={"deploy": True})
    return world


def scales_asked(world: World) -> list[str]:
    """Whose scale was asked for since this was last asked."""
    plurals = [request.path.split("/")[-2] for request in world.server.requests if request.path.endswith("/scale")]
    world.server.requests.clear()
    return plurals


@pytest.mark.parametrize("apps", [FEW, MANY])
def test_a_pod_that_changes_is_held_against_its_own_hvpa_alone(apps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world, counted = world_of(apps), Counted(monkeypatch)
    pod = pod_path("app-1-3")

    async def play(_: HvpaController) -> None:
        assert world.server.objects[pod]["metadata"]["labels"] == {"app": "app-1"}
        scales_asked(world)
        counted.take()
        world.server.put(pod, {**world.server.objects[pod], "status": {"phase": "Running", "conditions": []}})
        await world.wait(1.0)
        assert scales_asked(world) == ["app-1"]
        # The pod as it was and as it is against one selector, and then that against the two pods of the target.
        assert counted.take() == 4

    world.run(play)


@pytest.mark.parametrize("apps", [FEW, MANY])
@pytest.mark.parametrize("plural", ["hvpas", "horizontalpodautoscalers", "verticalpodautoscalers"])
def test_a_changed_autoscaler_enqueues_the_objects_it_concerns(
    plural: str, apps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, counted = world_of(apps), Counted(monkeypatch)

    async def play(_: HvpaController) -> None:
        scales_asked(world)
        counted.take()
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-1"}
        spec: dict[str, Any] = {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
        if plural == "hvpas":
            spec = world.spec("hvpas", "app-1")
        if plural == "horizontalpodautoscalers":
            spec = {"scaleTargetRef": target, "maxReplicas": 9}
        metadata = {"creationTimestamp": "2030-01-01T00:00:00Z"}
        world.server.put(path(plural, "other"), {"metadata": metadata, "spec": spec})
        await world.wait(0.2)
        assert set(scales_asked(world)) == {"app-1"}
        # Each of at most a few looks holds a selector against the two pods of that target.
        assert counted.take() <= 12

    world.run(play)


def test_a_pod_that_is_given_another_label_leaves_one_hvpa_and_joins_another() -> None:
    world = world_of(FEW)
    pod = pod_path("app-1-3")

    async def play(_: HvpaController) -> None:
        scales_asked(world)
        world.server.put(pod, {**world.server.objects[pod], "metadata": {"labels": {"app": "app-2"}}})
        await world.wait(1.0)
        assert set(scales_asked(world)) == {"app-1", "app-2"}

    world.run(play)


def test_an_hvpa_that_turns_to_another_target_is_noticed_by_the_younger_one_of_its_old_target() -> None:
    world = World()
    world.add_workload("app-1")
    # Without a VPA of its own, whose target would change with it.
    world.add_hvpa("app-1")
    world.add_hvpa("younger", target="app-1", created="2027-01-01T00:00:00Z")

    async def play(_: HvpaController) -> None:
        assert world.conditions("younger")["Active"] == "OlderHvpa"
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-9"}
        world.edit("hvpas", "app-1", targetRef=target)
        await world.wait(1.0)
        assert world.conditions("younger")["Active"] != "OlderHvpa"

    world.run(play)


def test_what_an_hvpa_owns_is_found_whatever_it_is_about() -> None:
    world = world_of(1)
    world.edit("hvpas", "app-0", vpa={"deploy": True})

    async def play(_: HvpaController) -> None:
        own = world.find("verticalpodautoscalers", "app-0")
        assert own is not None
        astray = {**own["spec"], "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "elsewhere"}}
        world.server.put(path("verticalpodautoscalers", "app-0"), {**own, "spec": astray})
        await world.wait(60.0)
        assert world.spec("verticalpodautoscalers", "app-0") == own["spec"]

    world.run(play)


def test_selectors_are_indexed_under_the_label_that_distinguishes_them() -> None:
    selecting = TargetSelectorIndex()
    for number in range(50):
        labels = {"app": f"app-{number}", "chart": "web"}
        selecting.put(("shop", f"app-{number}"), selector_from_object(labels))
    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch)
        assert selecting.find_matching("shop", {"app": "app-7", "chart": "web"}) == [("shop", "app-7")]
        # The first of them stands under the chart: nobody was there yet who shares it.
        assert counted.take() <= 2


SELECTORS = st.builds(
    selector_from_object,
    LABELS,
    st.lists(
        st.builds(
            MatchExpression,
            st.sampled_from(KEYS),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(VALUES), min_size=1).map(tuple),
        )
        | st.builds(MatchExpression, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
        max_size=2,
    ),
) | st.just(Selector.nothing())


@given(st.lists(st.tuples(st.integers(0, 5), SELECTORS | st.none()), max_size=20), LABELS)
def test_the_hvpas_that_are_found_are_those_whose_selectors_match(
    steps: list[tuple[int, Selector | None]], labels: dict[str, str]
) -> None:
    selecting, plain = TargetSelectorIndex(), dict[tuple[str, str], Selector]()
    for number, selector in steps:
        key = ("shop" if number % 2 else "office", f"app-{number}")
        if selector is None:
            selecting.forget(key)
            plain.pop(key, None)
        else:
            selecting.put(key, selector)
            plain[key] = selector
    expected = {key for key, selector in plain.items() if key[0] == "shop" and selector.matches(labels)}
    matching = selecting.find_matching("shop", labels)
    assert len(matching) == len(set(matching))
    assert set(matching) == expected
