"""Many statuses are written in batches, each once."""

from __future__ import annotations

import pytest

from support.controllers.recommender import World
from trellis.controllers.recommender import reconcile


def test_every_status_is_written_once_when_written_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_WRITES_AT_ONCE", 2)
    world = World()
    for number in range(5):
        world.add_workload(f"web-{number}", pods=1)

    async def play() -> None:
        await world.passes(1)
        assert all(world.target(f"web-{number}") for number in range(5))
        assert world.writes("/status") == 5

    world.run(play)
