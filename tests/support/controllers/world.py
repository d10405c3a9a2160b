"""The surroundings of every controller in a test: an API server in memory, and the loop's clock as wall clock."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from support.api_server.server import Document, ModelServer
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.kube.transport.requests import Request
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.component import Controller, ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.leadership import Leadership
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.tasks import run_all
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, Spec
from trellis.testing.scripted_transport import ScriptedResponse, json_response

Kinds = Mapping[str, Sequence[tuple[str, str]]]


def discovery(kinds: Kinds) -> dict[str, Document]:
    """What a server says that has these plurals and kinds, by group and version; `v1` is the core."""
    groups = [_version(kind) for kind in kinds if kind != "v1"]
    listed = {
        f"/apis/{group}" if group != "v1" else "/api/v1": {
            "resources": [{"name": plural, "kind": kind, "namespaced": True} for plural, kind in resources]
        }
        for group, resources in kinds.items()
    }
    return {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"versions": [group], "preferredVersion": group} for group in groups]},
        **listed,
    }


def _version(group: str) -> Document:
    return {"groupVersion": group, "version": group.partition("/")[2]}


class ControlledWorld(ABC):
    """`fault` sees each request first; `leads` and `read_only` are whether the controller may write."""

    def __init__(self, metrics: Iterable[Spec], served: Mapping[str, Document]) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.fault: Callable[[Request], ScriptedResponse | None] = lambda _request: None
        self.leads = True
        self.read_only = False
        self.outcomes: list[WriteOutcome] = []
        self.metrics = Metrics(metrics, about_process=False)
        self.informers: Informers
        self._served = served

    def now(self) -> float:
        """The wall clock, which goes with the loop's."""
        return asyncio.get_running_loop().time()

    def metric_value(self, series: str) -> float:
        """The value of a series, as it is served; those with further labels are added up."""
        lines = self.metrics.format_text().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))

    async def context(
        self,
        *,
        namespaces: tuple[str, ...] = (),
        recorder: Recorder = NO_RECORDER,
        shared: SharedInformers | None = None,
        **writing: Any,
    ) -> ControllerContext:
        """The context of the controller; its writer is as the world says, and has these further settings."""
        client = self.server.client
        settings = WriterSettings(read_only=self.read_only, **writing)
        unreadable = UnreadableKinds(self.metrics, Logger("trellis.test"))
        self.informers = Informers(client, unreadable, draw=lambda: 0.5, namespaces=namespaces, shared=shared)
        return ControllerContext(
            component="tested",
            client=client,
            informers=self.informers,
            leadership=WorldLeadership(self),
            writer=Writer(client, record=self.outcomes.append, may_write=lambda: self.leads, settings=settings),
            served=await client.discover(),
            metrics=self.metrics,
            activity=Activity(300.0, asyncio.get_running_loop().time),
            record_event=self._record,
            recorder=recorder,
            now=self.now,
            draw=lambda: 0.5,
        )

    @staticmethod
    async def running(context: ControllerContext, controller: Controller) -> None:
        """Run a controller and its informers, as a component does."""
        await run_all(context.informers.run(), controller.run())

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (fault := self.fault(request)) is not None:
            return fault
        return json_response(self._served[request.path]) if request.path in self._served else None

    @abstractmethod
    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        """An Event."""


class WorldLeadership(Leadership):
    """Leads while the world says so."""

    def __init__(self, world: ControlledWorld) -> None:
        super().__init__()
        self._world = world

    def may_write(self) -> bool:
        return self._world.leads
