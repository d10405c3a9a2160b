"""Budgets hold at every eviction, whatever happens and however late the updater hears of it, and it comes to rest.

The watch lags behind by seconds, the connection breaks, answers are lost, recommendations change in the middle. Each
eviction is judged by the state of the world at its moment, which the updater cannot know.
"""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.api_server.server import Document
from support.controllers.updater import World
from trellis.base.errors import Unreachable
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, watch_line

APPS = {"one": 1, "two": 2, "five": 5}
MODES = ("Recreate", "InPlaceOrRecreate")


class LateWorld(World):
    """A world whose watches are behind, and which keeps count of those out of service."""

    def __init__(self, rng: Random) -> None:
        super().__init__("--updater-interval=2m")
        self._rng = rng
        self.troubles = True
        self.broken: list[str] = []
        self.lag = rng.choice([0.0, 0.3, 3.0])
        self.server._record_change = self._later  # type: ignore[method-assign]
        self.fault = self._trouble

    def _later(self, kind: str, path: str, document: Document) -> None:
        """What happened is written down at once, and told to those who watch a while later."""
        self.server._history.append((self.server.version, kind, path, copy.deepcopy(document)))
        line = watch_line(kind, document)
        for stream, watched in self.server._watches:
            if watched.has(path):
                asyncio.get_running_loop().call_later(self.lag, stream.push, line)

    def _trouble(self, request: Request) -> ScriptedResponse | None:
        if not self.troubles or request.method == "GET" or self._rng.random() > 0.1:
            return None
        self.fault = lambda _request: None
        if self._rng.random() < 0.5:
            self.server._handle(request)
        self.fault = self._trouble
        return Unreachable("the connection was reset")

    def _evict(self, path: str, request: Request) -> ScriptedResponse:
        name = path.rpartition("/")[2]
        app = name.partition("-")[0]
        serving = [pod for pod in self.pods(app).values() if _serves(pod)]
        configured = APPS[app]
        if any(pod["metadata"]["name"] == name for pod in serving):
            least = configured - max(1, int(configured * 0.5))
            if configured == 1 or len(serving) - 1 < least:
                self.broken.append(f"{name} was evicted with {len(serving)} of {configured} in service")
        return super()._evict(path, request)


def _serves(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_budgets_hold_at_every_eviction_and_a_fixed_recommendation_is_reached(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - hypothesis draws the seed
    world = LateWorld(rng)
    for app, pods in APPS.items():
        world.add_workload(app, pods, mode=rng.choice(MODES), cpu=rng.choice(["100m", "300m"]))

    async def play(_updater: UpdaterController) -> None:
        for _ in range(rng.randint(1, 5)):
            await asyncio.sleep(rng.uniform(0.0, 40.0))
            if rng.random() < 0.3:
                world.server.break_watches()
            else:
                world.recommend(rng.choice(list(APPS)), rng.choice(["200m", "500m", "700m"]))
        world.troubles = False
        await world.passes(70)
        acted = len(world.evictions) + len(world.resizes)
        for app in ("two", "five"):
            assert len(set(world.requests(app))) == 1, world.requests(app)
            vpa = world.server.objects[f"/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/{app}"]
            target = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"]
            assert world.requests(app)[0] == target
        await world.passes(10)
        assert len(world.evictions) + len(world.resizes) == acted

    world.run(play)
    assert world.broken == [], world.broken
