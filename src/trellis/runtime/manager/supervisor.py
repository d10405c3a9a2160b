"""Supervisor of one component of a process: runs it, and restarts it alone, with back-off, when it fails.

A lost lease, an error and an end without one are restarted, and so is a component whose lease was handed over: it is
then a candidate again. The component is built anew each time, as a new process would build it; the client, the caches
that other components read and the HTTP server go on.

Invalid settings are not restarted: a component that finds them before it was ever ready ends the process with them.

A component can get other settings while the process runs: it ends as on a shutdown, and starts with them at once. If it
refuses them before it is ready, it gets the former ones again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.python_gc import collect_frozen_objects
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.runtime.component import Component, ComponentSettings, ComponentSpec
from trellis.runtime.replicas.leader_spread import LeaderSpread
from trellis.runtime.shared_informers import FollowedKind, SharedInformers
from trellis.runtime.shutdown import Shutdown, run_until_stopped
from trellis.runtime.tasks import run_all, run_task
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import Page, PageRequest
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, Spec

# The first restart comes at once, as a person expects; a component that fails at every start costs little after that.
RESTART_BACKOFF: Final = RetryBackoff(initial=1.0, maximum=60.0)
# A component that ran for this long has recovered: its next failure counts as the first.
RECOVERED_SECONDS: Final = 300.0
# Whether a component is ready decides what becomes of settings that it refuses.
_READINESS_SECONDS: Final = 1.0

_log: Final = Logger("trellis.run")


class ManagedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """A component as a process of several runs it.

    `open` makes its spec, and what it needs from its start to its end. `followed` are the kinds that it follows, and
    `paths` lead to its pages.
    """

    name: str
    settings: ComponentSettings
    metrics: Sequence[Spec]
    followed: Sequence[FollowedKind]
    open: Callable[[Metrics], AbstractContextManager[ComponentSpec[Any]]]
    paths: Sequence[str] = ()


# Called with the error of a component that refuses its settings, and the component with the settings that it has again.
OnRefused: TypeAlias = Callable[[InvalidInput, ManagedComponent], None]


class DownReason(StrEnum):
    """Why a component does not run, as metrics name it."""

    STARTING = "starting"
    LEASE_LOST = "lease-lost"
    HANDED_OVER = "handed-over"
    FAILED = "failed"
    RECONFIGURED = "reconfigured"


class NotReady(msgspec.Struct, frozen=True):
    """Why a component is not ready: a word for metrics, and a sentence."""

    reason: str
    message: str


def _ignore(_error: InvalidInput, _managed: ManagedComponent) -> None:
    """Reports nothing."""


class Supervisor:
    """Runs one component until the process stops. `on_restart` is called with the reason of each restart."""

    def __init__(
        self,
        managed: ManagedComponent,
        client: Client,
        shared: SharedInformers,
        *,
        on_restart: Callable[[str, DownReason], None] = lambda _name, _reason: None,
        spread: LeaderSpread | None = None,
        draw: Draw = random.random,
    ) -> None:
        self.name = managed.name
        self.paths = managed.paths
        self._managed = managed
        self._client = client
        self._shared = shared
        self._on_restart = on_restart
        self._spread = spread
        self._draw = draw
        self._component: Component[Any] | None = None
        self._down = NotReady(DownReason.STARTING, "starting")
        self._failures = 0
        self._was_ready = False
        self._was_handed_over = False
        # The settings to start with next, and those to go back to if they are refused.
        self._next: ManagedComponent | None = None
        self._proven: ManagedComponent | None = None
        self._on_refused: OnRefused = _ignore
        self._woken = asyncio.Event()
        self._end_run: Callable[[str], None] = lambda _why: None

    @property
    def followed(self) -> Sequence[FollowedKind]:
        """The kinds that the component follows."""
        return (self._next or self._managed).followed

    @property
    def metrics(self) -> Metrics | None:
        """The metrics of the component, if it runs; those of one that was restarted begin anew."""
        return self._component.metrics if self._component is not None else None

    def find_problem(self) -> NotReady | None:
        """Why the component is not ready, if so."""
        if self._component is None:
            return self._down
        for check, find in self._component.ready.items():
            if message := find():
                return NotReady(check, f"{check}: {message}")
        self._was_ready = True
        self._proven = None
        return None

    def find_readiness_problem(self) -> str | None:
        """The same as a sentence."""
        problem = self.find_problem()
        return problem.message if problem is not None else None

    def find_liveness_problem(self) -> str | None:
        """Why only a restart of the process would help, if so: a pass that hangs in a thread cannot be ended."""
        checks = self._component.alive if self._component is not None else {}
        return next((problem for find in checks.values() if (problem := find())), None)

    def remarks(self) -> list[str]:
        """What the component goes on without."""
        return [f"{self.name}: {remark}" for remark in self._component.informers.remarks()] if self._component else []

    async def show_page(self, path: str, request: PageRequest) -> ProbeResponse:
        """A page of the component."""
        pages: Mapping[str, Page] = self._component.pages if self._component is not None else {}
        if path not in pages:
            return ProbeResponse(503, f"{self.name}: {self._down.message}\n")
        return await pages[path](request)

    def reconfigure(self, managed: ManagedComponent, on_refused: OnRefused = _ignore) -> None:
        """Restart the component with other settings. If it refuses them, it gets those that it was ready with."""
        self._next, self._on_refused = managed, on_refused
        self._woken.set()
        self._end_run("its settings changed")

    async def run(self, stop: Shutdown) -> None:
        """Run the component, and run it again, until the process stops."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            result = await run_task(self._run_once(stop), name=self.name)
            if stop.reason is not None:
                return
            if self._take_next():
                continue
            if isinstance(result.error, InvalidInput) and not self._was_ready:
                self._go_back(result.error)
                continue
            if not self._was_handed_over:
                self._failures = 1 if clock() - began > RECOVERED_SECONDS else self._failures + 1
            await self._wait_for_restart(stop, result.value, result.error)

    async def _run_once(self, stop: Shutdown) -> str | None:
        """Run the component until it ends; returns why it asked for its end."""
        own = Shutdown()
        self._end_run = own.request
        relay = asyncio.create_task(_relay(stop, own), name=f"{self.name} stop")
        noting = asyncio.create_task(self._note_readiness(), name=f"{self.name} readiness")
        if self._next is not None:
            own.request("its settings changed")
        metrics = Metrics(self._managed.metrics, about_process=False)
        opened = ExitStack()
        try:
            spec = opened.enter_context(self._managed.open(metrics))
            recorder = opened.enter_context(closing(spec.recording()))
            component = self._component = Component(
                spec,
                self._managed.settings,
                self._client.write_as(spec.field_manager),
                own,
                recorder=recorder,
                metrics=metrics,
                spread=self._spread,
                shared=self._shared,
            )
            spec.log.info("started", **spec.started_with)
            await run_until_stopped(own, component.run(), self.name)
            return own.reason
        finally:
            self._was_handed_over = self._component is not None and self._component.was_handed_over
            self._component = None
            relay.cancel()
            noting.cancel()
            # Worker processes are waited for.
            await asyncio.get_running_loop().run_in_executor(None, opened.close)

    async def _wait_for_restart(self, stop: Shutdown, request: str | None, error: BaseException | None) -> None:
        reason = DownReason.LEASE_LOST if request is not None else DownReason.FAILED
        reason = DownReason.HANDED_OVER if self._was_handed_over else reason
        why = request or (str(error) or type(error).__name__ if error is not None else "it ended")
        wait = RESTART_BACKOFF.wait(max(self._failures, 1), self._draw)
        self._down = NotReady(reason, f"restarts after {why}")
        fields = {"component": self.name, "why": why, "again_in": f"{wait:.1f}s"}
        if self._was_handed_over:
            _log.info("restarting a component", **fields)
        else:
            _log.error("restarting a component", error=error, **fields)
        self._on_restart(self.name, reason)
        collect_frozen_objects()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await run_all(stop.wait(), self._wait_for_settings())
        self._take_next()

    async def _wait_for_settings(self) -> None:
        await self._woken.wait()

    def _take_next(self) -> bool:
        """Take over the settings that the component is to have, if there are some; returns whether there were."""
        if self._next is None:
            return False
        if self._was_ready:
            self._proven = self._managed
        self._managed, self._next = self._next, None
        self._woken.clear()
        self._was_ready = False
        self._failures = 0
        self._down = NotReady(DownReason.RECONFIGURED, "restarts with other settings")
        _log.info("restarting a component with other settings", component=self.name)
        self._on_restart(self.name, DownReason.RECONFIGURED)
        collect_frozen_objects()
        return True

    def _go_back(self, error: InvalidInput) -> None:
        """Go back to the settings that the component was ready with; raises the error if there are none."""
        if self._proven is None:
            raise error
        self._managed, self._proven = self._proven, None
        self._was_ready = True
        self._on_refused(error, self._managed)

    async def _note_readiness(self) -> None:
        """Probes may not ask before the component fails."""
        while self.find_problem() is not None:  # noqa: ASYNC110 - checks do not tell when they change
            await asyncio.sleep(_READINESS_SECONDS)


async def _relay(stop: Shutdown, own: Shutdown) -> None:
    await stop.wait()
    own.request(stop.reason or "stopped")
