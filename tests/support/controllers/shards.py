"""Several replicas of a component that share namespaces, on one API server in memory and a virtual clock.

Each replica is a whole component with a connection of its own, which can be killed or stopped.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import Document, ModelServer
from trellis.base.times import format_time
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.runtime.component import Component, ComponentSettings, ComponentSpec, ControllerContext
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.tasks import cancel_all
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse

START: Final = 1_760_000_000.0
NAMESPACES: Final = tuple(f"team-{number}" for number in range(24))
_KINDS_OF_OBJECTS: Final = ("verticalpodautoscalers", "verticalpodautoscalercheckpoints", "pods")


class ObjectWrite(NamedTuple):
    """A write to an object in a namespace of a team."""

    time: float
    replica: str
    namespace: str
    path: str


class _NotedConnection(Connection):
    """A connection that notes writes to the objects of teams, at the moment at which the server has them."""

    def __init__(self, server: ModelServer, replica: str, writes: list[ObjectWrite]) -> None:
        super().__init__(server)
        self._replica = replica
        self._writes = writes

    async def send(self, request: Request) -> Response:
        if not self.cut and request.method != "GET":
            _, _, rest = request.path.partition("/namespaces/")
            namespace, _, kind = rest.partition("/")
            if namespace in NAMESPACES and kind.partition("/")[0] in _KINDS_OF_OBJECTS:
                now = asyncio.get_running_loop().time()
                self._writes.append(ObjectWrite(now, self._replica, namespace, request.path))
        return await super().send(request)


class ShardReplica:
    """A replica of a component."""

    def __init__(
        self,
        cluster: ShardedCluster,
        name: str,
        open_spec: Callable[[Metrics], ComponentSpec[Any]],
        settings: ComponentSettings,
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        self.name = name
        self.connection = _NotedConnection(cluster.server, name, cluster.writes)
        self.controller: Any = None
        self._stop = Shutdown()
        spec = open_spec(Metrics((), about_process=False))

        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[Any]:
            async with spec.build(context) as self.controller:
                yield self.controller

        self.component: Component[Any] = Component(
            msgspec.structs.replace(spec, build=build),
            settings,
            Client(self.connection, spec.field_manager),
            self._stop,
            recorder=recorder,
            now=lambda: datetime.fromtimestamp(cluster.now(), UTC),
        )
        self._running = asyncio.create_task(self.component.run(), name=name)

    @property
    def stop_reason(self) -> str | None:
        """Why the component asks for its end, if it does."""
        return self._stop.reason

    def covers(self, namespace: str) -> bool:
        """Whether it decides for a namespace and may write its decisions."""
        leadership = self.component.leadership
        return leadership.may_write() and leadership.covers(namespace)

    def may_write_in(self, namespace: str) -> bool:
        leadership = self.component.leadership
        return leadership.may_write() and leadership.may_write_in(namespace)

    async def kill(self) -> None:
        """As SIGKILL: nothing is released."""
        self.connection.cut = True
        await self.stop()

    async def stop(self) -> None:
        """As SIGTERM: the Leases are released."""
        await cancel_all([self._running])


class ShardedCluster:
    """A workload with a VPA in each namespace, and who wrote what."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.fault: Callable[[Request], ScriptedResponse | None] = lambda _request: None
        self.writes: list[ObjectWrite] = []
        for namespace in NAMESPACES:
            self.add_workload(namespace)

    def now(self) -> float:
        """The wall clock, which goes with the loop's."""
        return asyncio.get_running_loop().time()

    def add_workload(self, namespace: str) -> None:
        """A Deployment `web` with two pods that request 100m, and its VPA."""
        apps, selector = f"/apis/apps/v1/namespaces/{namespace}", {"matchLabels": {"app": "web"}}
        self.server.put(f"{apps}/deployments/web", {"spec": {"replicas": 2, "selector": selector}})
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        self.server.put(
            f"{apps}/replicasets/web-x",
            {"metadata": {"ownerReferences": [owner]}, "spec": {"replicas": 2, "selector": selector}},
        )
        for number in range(2):
            self.server.put(f"/api/v1/namespaces/{namespace}/pods/web-{number}", _build_pod())
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        self.server.put(
            vpa_path(namespace),
            {
                "metadata": {"generation": 1, "creationTimestamp": _format(START - 86_400)},
                "spec": {"targetRef": reference, "updatePolicy": {"updateMode": "InPlaceOrRecreate"}},
            },
        )

    def list_writers(self, since: float = 0.0) -> dict[str, list[str]]:
        """The replicas that wrote in each namespace, in order, each once for all its writes in a row."""
        writers: dict[str, list[str]] = defaultdict(list)
        for write in self.writes:
            if write.time >= since and writers[write.namespace][-1:] != [write.replica]:
                writers[write.namespace].append(write.replica)
        return writers

    async def check_exclusive(self, replicas: Sequence[ShardReplica]) -> None:
        """Fail once two replicas may write in the same namespace."""
        while True:
            for namespace in NAMESPACES:
                writers = [replica.name for replica in replicas if replica.may_write_in(namespace)]
                assert len(writers) <= 1, f"{namespace}: {writers}"
            await asyncio.sleep(0.2)

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        """Let a play go on, with bookmarks every minute as the API server sends them."""

        async def send_bookmarks() -> None:
            while True:
                await asyncio.sleep(60.0)
                self.server.bookmark()

        async def main() -> None:
            async with virtual_time.in_background(send_bookmarks()):
                await play()

        virtual_time.run(main(), start=START)

    def _before(self, request: Request) -> ScriptedResponse | None:
        time = _format(self.now())
        for namespace in NAMESPACES if "/metrics.k8s.io/" in request.path else ():
            for number in range(2):
                self.server.objects[f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/web-{number}"] = {
                    "metadata": {"name": f"web-{number}", "namespace": namespace},
                    "timestamp": time,
                    "containers": [{"name": "app", "usage": {"cpu": "500m", "memory": "300Mi"}}],
                }
        return self.fault(request)


def vpa_path(namespace: str) -> str:
    """The path of the namespace's VPA."""
    return f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/web"


def _build_pod() -> Document:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-x", "uid": "r", "controller": True}
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    began = _format(START - 2 * 86_400)
    return {
        "metadata": {"labels": {"app": "web"}, "creationTimestamp": began, "ownerReferences": [owner]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "app", "resources": resources}]},
        "status": {
            "phase": "Running",
            "startTime": began,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": began}],
            "containerStatuses": [{"name": "app", "resources": resources}],
        },
    }


def _format(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
