"""Kinds of targets from other packages: found by their announcements, read, and no danger to other Buffers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from support.controllers.buffers import World, path
from support.worlds.buffers import app
from trellis.controllers.buffers.process import BufferController
from trellis.controllers.buffers.targets import ENTRY_POINTS, load_target_kinds
from trellis.core.buffers import TargetReading, selector_in

ABOUT = {"targetRef": {"apiVersion": "example.com/v1", "kind": "Game", "name": "chess"}}
GAME = selector_in({"matchLabels": {"game": "chess"}})
HALF = {"replicas": {"percent": {"percent": 50}}}


class Games:
    """A kind without a scale."""

    api_version, kind, plural = "example.com/v1", "Game", "games"

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        labels = {"game": document["metadata"]["name"]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [app(cpu=document["spec"]["cpu"])]}}
        return TargetReading(document["spec"]["players"], selector_in({"matchLabels": labels}), template)


class Answering(Games):
    """One that answers anything."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def read(self, document: Mapping[str, Any]) -> TargetReading:
        del document
        response: TargetReading = self._answer
        return response


class NoKind:
    """Something else."""


def failing() -> Games:
    raise RuntimeError("no")


def entry(name: str, what: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{what}", ENTRY_POINTS)


def world_with_games() -> World:
    world = World()
    world.kinds = {("example.com", "Game"): Games()}
    world.add_buffer("chess", **ABOUT, capacity=HALF)
    return world


def test_a_plugin_kind_is_a_target_whose_template_goes_through_admission() -> None:
    world = world_with_games()
    world.admit = lambda pod: {**pod, "spec": {**pod["spec"], "priority": 9}}
    world.put(path("games", "chess"), {"spec": {"players": 7, "cpu": "3"}})

    async def play(_: BufferController) -> None:
        assert (world.chunks("chess"), world.requests("chess")) == (4, {"cpu": "3"})
        assert world.pod_based_spec("chess")["podSpec"]["priority"] == 9
        world.edit("games", "chess", players=12)
        await world.wait(60.0)
        assert (world.chunks("chess"), world.dry_runs) == (6, 1)
        world.add_pod("chess", {"containers": [app(cpu="4")]}, labels={"game": "chess"})
        await world.wait(1.0)
        assert world.requests("chess") == {"cpu": "4"}

    world.run(play)


def test_an_object_that_a_plugin_cannot_read_affects_no_other_buffer() -> None:
    world = world_with_games()
    world.put(path("games", "chess"), {"spec": {}})
    world.add_workload()
    world.add_buffer()

    async def play(_: BufferController) -> None:
        assert world.condition(name="chess") == ("False", "TargetUnreadable")
        assert "cpu" in world.message(name="chess")
        assert world.chunks() == 2

    world.run(play)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        TargetReading("7", GAME),  # type: ignore[arg-type]
        TargetReading(7, "game=chess"),  # type: ignore[arg-type]
        TargetReading(7, GAME, []),  # type: ignore[arg-type]
    ],
    ids=["none", "count", "selector", "template"],
)
def test_an_invalid_result_of_a_plugin_is_reported_as_unreadable(answer: Any) -> None:
    world = world_with_games()
    world.kinds = {("example.com", "Game"): Answering(answer)}
    world.put(path("games", "chess"), {"spec": {}})

    async def play(_: BufferController) -> None:
        assert world.condition(name="chess") == ("False", "TargetUnreadable")

    world.run(play)


def test_a_missing_object_is_reported_and_found_once_it_exists() -> None:
    world = world_with_games()

    async def play(_: BufferController) -> None:
        assert world.condition(name="chess") == ("False", "TargetNotFound")
        world.put(path("games", "chess"), {"spec": {"players": 2, "cpu": "1"}})
        await world.wait(15.0)
        assert world.chunks("chess") == 1

    world.run(play)


def test_entry_points_are_loaded_and_broken_ones_skipped() -> None:
    announced = [
        entry("a-broken", "failing"),
        entry("b-missing", "Nothing"),
        entry("c-else", "NoKind"),
        entry("d-games", "Games"),
        entry("e-again", "Games"),
    ]
    result = load_target_kinds(announced)
    assert list(result) == [("example.com", "Game")]
    assert isinstance(result["example.com", "Game"], Games)


def test_without_plugins_there_are_no_target_kinds() -> None:
    assert load_target_kinds() == {}
