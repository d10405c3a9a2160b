"""A controller with a work queue: which objects it reconciles when, and when it reconciles none."""

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
from trellis.runtime.queue_controller import ObjectQueue, QueueController
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec
from trellis.testing.scripted_transport import error_response

FAILURES = CounterSpec("trellis_test_failures_total", "Looks that failed.")


class Meadow(ControlledWorld):
    """Where the pods are."""

    def __init__(self) -> None:
        super().__init__((*CLUSTER_METRICS, FAILURES), discovery({"v1": [("pods", "Pod")]}))
        self.server.put(pod_path("dolly"), {})

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        raise AssertionError(f"no Event is expected of {about.name}: {reason.code} {message}")


class Shepherd(QueueController):
    """Reconciles pods, and notes when. `again` is what a reconcile returns."""

    def __init__(self, context: ControllerContext, scope: NamespaceSettings) -> None:
        self.again: float | None = None
        self.errors: list[Exception] = []
        self.reconciled: list[tuple[float, str]] = []
        log = Logger("trellis.test")
        objects = ObjectQueue(scope, context.draw)
        super().__init__(context, objects, noun="sheep", interval=60.0, workers=2, failures=FAILURES, log=log)
        self.pods = context.informers.follow(PODS)

    def subscribe(self) -> None:
        self.pods.subscribe(lambda change: self.enqueue(change.key))

    async def reconcile(self, key: ObjectKey) -> float | None:
        self.reconciled.append((asyncio.get_running_loop().time(), key[1]))
        if self.errors:
            raise self.errors.pop()
        return self.again

    async def reconcile_all(self) -> None:
        for pod in self.pods.snapshot():
            self.enqueue(key_of(pod))
        await self.wait_until_drained()


def run(
    play: Callable[[Shepherd, Meadow], Awaitable[None]],
    scope: NamespaceSettings = NamespaceSettings(),  # noqa: B008 -- frozen
) -> None:
    async def main() -> None:
        meadow = Meadow()
        context = await meadow.context()
        shepherd = Shepherd(context, scope)
        async with virtual_time.in_background(meadow.running(context, shepherd)):
            await asyncio.sleep(1.0)
            await play(shepherd, meadow)

    virtual_time.run(main())


async def wait(meadow: Meadow, seconds: float) -> None:
    for _ in range(round(seconds)):
        await asyncio.sleep(1.0)
        meadow.server.bookmark()


def test_an_object_is_reconciled_when_it_changes_when_it_is_due_and_every_interval() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        assert {name for _, name in shepherd.reconciled} == {"dolly"}
        shepherd.reconciled.clear()
        meadow.server.put(pod_path("molly"), {})
        await wait(meadow, 2.0)
        assert [name for _, name in shepherd.reconciled] == ["molly"]
        await wait(meadow, 60.0)
        assert sorted(name for _, name in shepherd.reconciled[1:]) == ["dolly", "molly"]
        shepherd.reconciled.clear()
        shepherd.again = 5.0
        shepherd.enqueue(("shop", "dolly"))
        await wait(meadow, 12.0)
        assert [name for _, name in shepherd.reconciled] == ["dolly"] * 3

    run(play)


def test_a_process_that_does_not_lead_reconciles_nothing_until_it_does() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        meadow.leads = False
        shepherd.reconciled.clear()
        shepherd.enqueue(("shop", "dolly"))
        await wait(meadow, 30.0)
        assert not shepherd.reconciled
        meadow.leads = True
        shepherd.on_started_leading()
        await wait(meadow, 1.0)
        assert [name for _, name in shepherd.reconciled] == ["dolly"]

    run(play)


def test_a_pass_is_completed_only_by_a_leader_with_current_caches() -> None:
    def completed_at(meadow: Meadow) -> float:
        return meadow.metric_value("trellis_component_last_pass_timestamp_seconds")

    async def play(_: Shepherd, meadow: Meadow) -> None:
        await wait(meadow, 61.0)
        first = completed_at(meadow)
        assert 60 <= first < 61
        meadow.leads = False
        await wait(meadow, 60.0)
        assert completed_at(meadow) == first
        meadow.leads = True
        meadow.fault = lambda _request: error_response(503, "ServiceUnavailable")
        meadow.server.break_watches()
        await asyncio.sleep(60.0)
        assert completed_at(meadow) == first

    run(play)


def test_no_object_is_reconciled_while_an_informer_is_stale_and_all_are_afterwards() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        meadow.fault = lambda _request: error_response(503, "ServiceUnavailable")
        meadow.server.break_watches()
        await asyncio.sleep(10.0)
        shepherd.reconciled.clear()
        shepherd.enqueue(("shop", "dolly"))
        await asyncio.sleep(20.0)
        assert not shepherd.reconciled
        meadow.fault = lambda _request: None
        await asyncio.sleep(35.0)
        assert "dolly" in [name for _, name in shepherd.reconciled]

    run(play)


def test_a_failed_reconcile_is_counted_and_retried() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        shepherd.reconciled.clear()
        shepherd.errors.append(RuntimeError("a wolf"))
        shepherd.enqueue(("shop", "dolly"))
        await wait(meadow, 3.0)
        assert (len(shepherd.reconciled), meadow.metric_value(FAILURES.name)) == (2, 1)

    run(play)


def test_objects_of_uncovered_namespaces_are_not_reconciled() -> None:
    async def play(shepherd: Shepherd, meadow: Meadow) -> None:
        await wait(meadow, 70.0)
        assert not shepherd.reconciled

    run(play, NamespaceSettings(ignored_vpa_object_namespaces=("shop",)))
