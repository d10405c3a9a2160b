"""A recommender with a small API server in memory around it, on a virtual clock: an hour of passes takes a moment.

Everything between the flags and the requests is the real thing; pods, their usage and faults are the test's to set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from typing import Any

from support import virtual_time
from support.api_server.server import Document, ModelServer
from trellis.base.errors import KubeError
from trellis.base.times import format_time
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.plugins.hosted_recommenders import host_recommenders
from trellis.controllers.recommender.process import ASSUMED, RecommenderController, build_recommender
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.usage_source import open_usage_source
from trellis.kube.transport.requests import Request
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.component import ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.leadership import Leadership
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.runtime.tasks import run_all
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse

START = 1_760_000_000.0
MINUTE = 60.0
NAMESPACE = "shop"

VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers"
CHECKPOINTS = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
METRICS = "/apis/metrics.k8s.io/v1beta1/pods"

Fault = Callable[[Request], ScriptedResponse | None]


class World:
    """The cluster as the recommender sees it, and the recommender."""

    def __init__(self, *flags: str, recorder: Recorder = NO_RECORDER) -> None:
        self.server = ModelServer()
        self.fault: Fault = lambda _request: None
        self.usage: dict[str, dict[str, Any]] = {}
        self.usage_time: Callable[[], float] = self.now
        self.outcomes: list[WriteOutcome] = []
        self.metrics = Metrics(RECOMMENDER_METRICS, about_process=False)
        values = {name.removeprefix("--").replace("-", "_"): value for name, value in (f.split("=", 1) for f in flags)}
        self.settings = load_settings(RecommenderSettings, from_flags(RecommenderSettings, values)).settings
        self.server.before = self._before
        self._began = False
        self._recorder = recorder

    def now(self) -> float:
        """The wall clock, which goes with the loop's."""
        return asyncio.get_running_loop().time()

    def add_vpa(self, name: str, target: str = "", **spec: Any) -> Document:
        """A VPA on the Deployment of that name."""
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
        metadata = {"generation": 1, "creationTimestamp": _text(START)}
        return self.server.put(f"{VPAS}/{name}", {"metadata": metadata, "spec": {"targetRef": reference, **spec}})

    def add_deployment(self, name: str) -> None:
        """A Deployment and its ReplicaSet."""
        selector = {"matchLabels": {"app": name}}
        where = f"/apis/apps/v1/namespaces/{NAMESPACE}"
        self.server.put(f"{where}/deployments/{name}", {"spec": {"selector": selector}})
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "d", "controller": True}
        self.server.put(
            f"{where}/replicasets/{name}-x", {"metadata": {"ownerReferences": [owner]}, "spec": {"selector": selector}}
        )

    def add_pod(self, app: str, name: str, *containers: str, memory: str = "100Mi") -> Document:
        """A running pod of that Deployment."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-x", "uid": "r", "controller": True}
        requests = {"resources": {"requests": {"memory": memory}}}
        document = {
            "metadata": {"labels": {"app": app}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": container, **requests} for container in containers or ("app",)]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        return self.server.put(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", document)

    def add_workload(self, name: str, pods: int = 2, *, cpu: str = "500m", memory: str = "300Mi") -> None:
        """A VPA, its Deployment, its pods and what they use."""
        self.add_deployment(name)
        for number in range(pods):
            self.add_pod(name, f"{name}-{number}")
            self.usage[f"{name}-{number}"] = {"app": {"cpu": cpu, "memory": memory}}
        self.add_vpa(name)

    async def passes(self, count: int) -> None:
        """Let so many passes go by; the first time, that at the start is one of them."""
        await asyncio.sleep(MINUTE * count - (0.0 if self._began else MINUTE / 2))
        self._began = True
        self.server.bookmark()

    def vpa(self, name: str) -> Document:
        """The object as it is stored."""
        return self.server.objects[f"{VPAS}/{name}"]

    def target(self, name: str, container: str = "app") -> dict[str, str]:
        """What is recommended for a container; nothing if nothing is."""
        recommendation = self.vpa(name).get("status", {}).get("recommendation", {})
        for container_recommendation in recommendation.get("containerRecommendations", ()):
            if container_recommendation["containerName"] == container:
                target: dict[str, str] = container_recommendation["target"]
                return target
        return {}

    def condition(self, name: str, kind: str) -> Document | None:
        """One of a VPA's conditions."""
        conditions = self.vpa(name).get("status", {}).get("conditions", ())
        return next((condition for condition in conditions if condition["type"] == kind), None)

    def checkpoint(self, name: str) -> Document:
        """One checkpoint as it is stored."""
        return self.server.objects[f"{CHECKPOINTS}/{name}"]

    def metric_value(self, series: str) -> float:
        """The value of a series, as it is served."""
        lines = self.metrics.format_text().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)

    def writes(self, part: str) -> int:
        """How many requests changed something whose path has this part."""
        return sum(request.method != "GET" and part in request.path for request in self.server.requests)

    def _before(self, request: Request) -> ScriptedResponse | None:
        self._publish_usage()
        return self.fault(request)

    def _publish_usage(self) -> None:
        time = _text(self.usage_time())
        for path in [path for path in self.server.objects if "/metrics.k8s.io/" in path]:
            del self.server.objects[path]
        for name, containers in self.usage.items():
            path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods/{name}"
            self.server.objects[path] = {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "timestamp": time,
                "containers": [{"name": container, "usage": usage} for container, usage in containers.items()],
            }

    @asynccontextmanager
    async def recommending(self) -> AsyncIterator[RecommenderController]:
        """The recommender while it works."""
        client, unreadable = self.server.client, UnreadableKinds(self.metrics, Logger("trellis.recommender"))
        try:
            served = await client.discover()
        except KubeError:
            served = ASSUMED
        informers = Informers(client, unreadable, draw=lambda: 0.5, namespaces=self.settings.scope.vpa_object_namespace)
        context = ControllerContext(
            component="recommender",
            client=client,
            informers=informers,
            leadership=Leadership(self.settings.loop.recommender_name),
            writer=Writer(client, record=self.outcomes.append),
            served=served,
            metrics=self.metrics,
            activity=Activity(300.0, asyncio.get_running_loop().time),
            record_event=lambda *_event: None,
            recorder=self._recorder,
            now=self.now,
            draw=lambda: 0.5,
        )
        with closing(host_recommenders(self.settings, self.metrics)) as hosted:
            async with open_usage_source(client, self.settings, self.metrics) as source:
                recommender = build_recommender(context, self.settings, hosted=hosted, source=source)
                async with virtual_time.in_background(run_all(informers.run(), recommender.run())):
                    yield recommender

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        """Let a play go on while the recommender works."""

        async def main() -> None:
            async with self.recommending():
                await play()

        virtual_time.run(main(), start=START)


def _text(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
