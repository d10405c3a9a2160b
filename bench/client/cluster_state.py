"""The cluster state of a process: memory and time until all caches have synced, of 20,000 pods and 2,000 workloads.

All six controllers in one process with shared informers, against the same six with informers of their own; each of them
alone is there for comparison. Pages are decoded from bytes in
memory, so that no network is measured. Memory is what `tracemalloc` counts; time is the CPU time of another process.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bench.client import generated_pods
from bench.measurement import Row, in_ms, python
from trellis.controllers.admission import informers as admission_informers
from trellis.controllers.admission.informers import AdmissionInformers
from trellis.controllers.buffers import informers as buffers_informers
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.hvpa import informers as hvpa_informers
from trellis.controllers.hvpa.informers import HvpaInformers
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.nodes import informers as nodes_informers
from trellis.controllers.nodes.informers import NodeInformers
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.sizing import SizingInformers
from trellis.controllers.recommender import informers as recommender_informers
from trellis.controllers.recommender.informers import RecommenderInformers
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.updater import informers as updater_informers
from trellis.controllers.updater.informers import UpdaterInformers
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.kube.client import Client
from trellis.kube.discovery import Served, ServedKind
from trellis.kube.resources import BUFFERS, HPAS, HVPAS, VPAS
from trellis.kube.transport.responses import Response, read_page
from trellis.runtime.cached_kinds import WIDEST_KINDS
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.shared_informers import FollowedKind, SharedInformers
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

PODS = 20_000
WORKLOADS = 2_000
NODES = 500
# Five copies of the pods and of the work on them without sharing.
BAR = 0.6

CONTROLLERS = ("recommender", "updater", "admission", "hvpa", "buffers", "nodes")

_PAGE = 250
_SERVED = Served(
    tuple(
        ServedKind(resource.group, resource.version, resource.plural, resource.kind, True)
        for resource in (BUFFERS, HPAS, HVPAS, VPAS)
    )
)


class Taken(msgspec.Struct, frozen=True):
    megabytes: float
    seconds: float


def measure() -> list[Row]:
    """Take each measurement in processes of its own."""
    together, apart = _take("together"), _take("apart")
    ratios = together.megabytes / apart.megabytes, together.seconds / apart.seconds
    size = f"{PODS:,} pods"
    return [
        Row(
            f"six controllers in one process, {size}: memory",
            f"{together.megabytes:.0f} MB",
            f"{apart.megabytes:.0f} MB",
            f"{ratios[0]:.2f}x",
            f"<= {BAR:g}x",
            ratios[0] <= BAR,
        ),
        Row(
            f"six controllers in one process, {size}: CPU time to sync",
            in_ms(together.seconds),
            in_ms(apart.seconds),
            f"{ratios[1]:.2f}x",
            f"<= {BAR:g}x",
            ratios[1] <= BAR,
        ),
        *(
            Row(f"{name} alone, {size}", f"{taken.megabytes:.0f} MB, {in_ms(taken.seconds)} to sync")
            for name in CONTROLLERS
            for taken in (_take(name),)
        ),
    ]


def _take(name: str) -> Taken:
    memory = float(python("-m", "bench.client.cluster_state", name, "memory"))
    return Taken(memory, float(python("-m", "bench.client.cluster_state", name, "time")))


class _MemoryClient(Client):
    """Lists from bytes in memory, and watches on which nothing happens."""

    def __init__(self, pages: dict[str, list[bytes]]) -> None:
        super().__init__(transport=None)  # type: ignore[arg-type] # nothing is sent
        self._pages = pages

    async def list_pages(self, resource: Any, namespace: str = "", **_options: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        for body in self._pages.get(resource.plural, [_page([])]):
            yield read_page(Response(200, {}, body), resource)

    @asynccontextmanager
    async def watch(self, resource: Any, namespace: str = "", **_options: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        async def events() -> AsyncIterator[Any]:
            await asyncio.Event().wait()
            yield None

        yield events()


def _page(items: Iterable[Any]) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": list(items)})


def _pages(items: list[Any]) -> list[bytes]:
    return [_page(items[begin : begin + _PAGE]) for begin in range(0, len(items), _PAGE)]


def _cluster() -> dict[str, list[bytes]]:
    workloads = [generated_pods._pod(5 * number) for number in range(WORKLOADS)]
    pods, deployments, replica_sets, vpas = [], [], [], []
    for number, like in enumerate(workloads):
        meta, owner = like["metadata"], like["metadata"]["ownerReferences"][0]
        target = f"web-{number}"
        selector = {"matchLabels": {"app.kubernetes.io/name": target}}
        named = {"namespace": meta["namespace"], "resourceVersion": "5", "generation": 1}
        above = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": target,
            "uid": f"d-{number}",
            "controller": True,
        }
        deployments.append(
            {
                "metadata": {**named, "name": target, "uid": f"d-{number}"},
                "spec": {"selector": selector, "replicas": 10},
            }
        )
        replica_sets.append(
            {
                "metadata": {**named, "name": owner["name"], "uid": owner["uid"], "ownerReferences": [above]},
                "spec": {"selector": selector, "replicas": 10},
            }
        )
        part = {"target": {"cpu": "100m", "memory": "200Mi"}, "lowerBound": {"cpu": "50m"}, "upperBound": {"cpu": "1"}}
        vpas.append(
            {
                "metadata": {**named, "name": target, "uid": f"v-{number}"},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}},
                "status": {"recommendation": {"containerRecommendations": [{"containerName": "app", **part}]}},
            }
        )
        pods += [_pod(like, number, at) for at in range(PODS // WORKLOADS)]
    offered = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    nodes = [
        {"metadata": {"name": f"node-{n}", "uid": f"n-{n}"}, "status": {"allocatable": offered, "capacity": offered}}
        for n in range(NODES)
    ]
    lists = {
        "pods": pods,
        "deployments": deployments,
        "replicasets": replica_sets,
        "verticalpodautoscalers": vpas,
        "nodes": nodes,
    }
    return {plural: _pages(items) for plural, items in lists.items()}


def _pod(like: dict[str, Any], number: int, at: int) -> dict[str, Any]:
    metadata = {**like["metadata"], "name": f"web-{number}-{at}", "uid": f"p-{number}-{at}-0000-4000-8000-000000000000"}
    return {**like, "metadata": metadata, "spec": {**like["spec"], "nodeName": f"node-{(number * 10 + at) % NODES}"}}


def _components(name: str, client: Client) -> list[Informers]:
    """The informers of one controller, or of all of them: `together` they share theirs, `apart` they do not."""
    shared = SharedInformers(_list_followed_kinds(), WIDEST_KINDS) if name == "together" else None
    sets = []
    for controller in CONTROLLERS if name in {"together", "apart"} else (name,):
        unreadable = UnreadableKinds(Metrics(CLUSTER_METRICS, about_process=False), Logger("trellis.bench"))
        informers = Informers(client, unreadable, draw=lambda: 0.5, shared=shared)
        _REFERENCES.extend(_follow(controller, informers))
        sets.append(informers)
    return sets


def _follow(controller: str, informers: Informers) -> list[Any]:
    scope, nodes = ScopeSettings(), NodeControllerSettings()
    match controller:
        case "recommender":
            return [RecommenderInformers(informers, hvpas_served=True)]
        case "updater":
            return [UpdaterInformers(informers, UpdaterSettings(), _SERVED)]
        case "admission":
            return [AdmissionInformers(informers, scope, hvpas_served=True, boost_ceilings=None)]
        case "hvpa":
            return [HvpaInformers(informers, _SERVED)]
        case "buffers":
            return [BufferInformers(informers, _SERVED, scope)]
        case _:
            return [NodeInformers(informers, nodes, _SERVED), SizingInformers(informers, nodes, _SERVED)]


def _list_followed_kinds() -> list[FollowedKind]:
    scope = ScopeSettings()
    return [
        *recommender_informers.list_followed_kinds(RecommenderSettings()),
        *updater_informers.list_followed_kinds(UpdaterSettings()),
        *admission_informers.list_followed_kinds(scope),
        *hvpa_informers.list_followed_kinds(HvpaControllerSettings()),
        *buffers_informers.list_followed_kinds(scope),
        *nodes_informers.list_followed_kinds(NodeControllerSettings()),
    ]


_REFERENCES: list[Any] = []


async def _sync(components: list[Informers]) -> None:
    tasks = [asyncio.create_task(component.run()) for component in components]
    for component in components:
        await component.wait_until_synced()
    for task in tasks:
        task.cancel()
    _REFERENCES.extend(informer.snapshot() for component in components for informer in component)


def main(name: str, what: str) -> None:
    """Print the megabytes or the seconds that it takes."""
    components = _components(name, _MemoryClient(_cluster()))
    gc.collect()
    if what == "memory":
        tracemalloc.start()
    start = time.process_time()
    asyncio.run(_sync(components))
    seconds = time.process_time() - start
    if what == "memory":
        gc.collect()
        print(tracemalloc.get_traced_memory()[0] / 1e6)
    else:
        print(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
