"""A controller that looks at objects one by one: whose turn it is, and when it is nobody's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from support import virtual_time
from support.api_server.server import pod_path
from support.controllers.world import ControlledWorld, discovery
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.kube.resources import PODS
from trellis.runtime.component import ControllerContext
from trellis.runtime.reconciler import Reconciler
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec
from trellis.testing.scripted_transport import refusal

FAILURES = CounterSpec("trellis_test_failures_total", "Looks that failed.")


class Meadow(ControlledWorld):
    """Where the pods are."""

    def __init__(self) -> None:
        super().__init__((*CLUSTER_METRICS, FAILURES), discovery({"v1": [("pods", "Pod")]}))
        self.server.put(pod_path("dolly"), {})

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        raise AssertionError(f"nobody is told of {about.name}: {reason.code} {message}")


class Shepherd(Reconciler):
    """Looks at pods, and notes when. `again` is what a look answers."""

    def __init__(self, given: ControllerContext, scope: NamespaceSettings) -> None:
        self.again: float | None = None
        self.errors: list[Exception] = []
        self.looks: list[tuple[float, str]] = []
        log = Logger("trellis.test")
        super().__init__(given, scope, what="sheep", interval=60.0, workers=2, failures=FAILURES, log=log)
        self.pods = self.informers.follow(PODS)

    def subscribe(self) -> None:
        self.pods.subscribe(lambda change: self.add(change.key))

    async def look(self, key: ObjectKey) -> float | None:
        self.looks.append((asyncio.get_running_loop().time(), key[1]))
        if self.errors:
            raise self.errors.pop()
        return self.again

    async def look_at_all(self) -> None:
        for each in self.pods.snapshot():
            self.add(key_of(each))
        await self.drained()


def run(
    play: Callable[[Shepherd, Meadow], Awaitable[None]],
    scope: NamespaceSettings = NamespaceSettings(),  # noqa: B008 -- frozen
) -> None:
    async def main() -> None:
        meadow = Meadow()
        shepherd = Shepherd(await meadow.equipment(), scope)
        async with virtual_time.working(shepherd.run()):
            await asyncio.sleep(1.0)
            await play(shepherd, meadow)

    virtual_time.run(main())


async def wait(meadow: Meadow, seconds: float) -> None:
    for _ in range(round(seconds)):
        await asyncio.sleep(1.0)
        meadow.server.bookmark()


def test_one_is_looked_at_when_it_changes_when_it_is_due_and_every_interval() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        assert {name for _, name in shepherd.looks} == {"dolly"}
        shepherd.looks.clear()
        meadow.server.put(pod_path("molly"), {})
        await wait(meadow, 2.0)
        assert [name for _, name in shepherd.looks] == ["molly"]
        await wait(meadow, 60.0)
        assert sorted(name for _, name in shepherd.looks[1:]) == ["dolly", "molly"]
        shepherd.looks.clear()
        shepherd.again = 5.0
        shepherd.add(("shop", "dolly"))
        await wait(meadow, 12.0)
        assert [name for _, name in shepherd.looks] == ["dolly"] * 3

    run(play)


def test_who_does_not_lead_looks_at_nobody_until_it_does() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        meadow.leads = False
        shepherd.looks.clear()
        shepherd.add(("shop", "dolly"))
        await wait(meadow, 30.0)
        assert not shepherd.looks
        meadow.leads = True
        shepherd.begin_anew()
        await wait(meadow, 1.0)
        assert [name for _, name in shepherd.looks] == ["dolly"]

    run(play)


def test_nobody_is_looked_at_while_sight_is_lost_and_all_who_waited_once_it_is_back() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        meadow.fault = lambda _request: refusal(503, "ServiceUnavailable")
        meadow.server.break_watches()
        await asyncio.sleep(10.0)
        shepherd.looks.clear()
        shepherd.add(("shop", "dolly"))
        await asyncio.sleep(20.0)
        assert not shepherd.looks
        meadow.fault = lambda _request: None
        await asyncio.sleep(35.0)
        assert "dolly" in [name for _, name in shepherd.looks]

    run(play)


def test_a_look_that_fails_is_counted_and_tried_again() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        shepherd.looks.clear()
        shepherd.errors.append(RuntimeError("a wolf"))
        shepherd.add(("shop", "dolly"))
        await wait(meadow, 3.0)
        assert (len(shepherd.looks), meadow.counted(FAILURES.name)) == (2, 1)

    run(play)


def test_those_of_a_namespace_that_is_none_of_ours_are_left_alone() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        await wait(meadow, 70.0)
        assert not shepherd.looks

    run(play, NamespaceSettings(ignored_vpa_object_namespaces=("shop",)))
