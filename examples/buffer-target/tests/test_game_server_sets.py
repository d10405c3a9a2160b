"""GameServerSets pass the conformance suite, and their fields are read as written."""
# ruff: noqa: S101 - tests need nothing better than assert

from __future__ import annotations

from typing import Any

from trellis_game_servers import GameServerSets

from trellis.testing.buffer_targets import conformance_tests

CHESS: dict[str, Any] = {
    "apiVersion": "games.example.com/v1",
    "kind": "GameServerSet",
    "metadata": {"name": "chess", "namespace": "games"},
    "spec": {"game": {"image": "example/chess:3", "perServer": {"cpu": "2", "memory": "1Gi"}}},
    "status": {"running": 12},
}

test_conformance = conformance_tests(GameServerSets, [CHESS])


def test_running_servers_are_counted() -> None:
    assert GameServerSets().read(CHESS).replicas == 12


def test_a_new_set_has_no_replicas() -> None:
    new = {name: part for name, part in CHESS.items() if name != "status"}
    assert GameServerSets().read(new).replicas == 0
