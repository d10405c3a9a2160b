"""Lists of many VPAs as the API server sends them, drawn from numbers alone.

Every VPA has a Deployment with one ReplicaSet, a third of them a policy, and all of them a week of history. A process
of its own makes the lists, so that the process whose memory is measured has what a recommender has, and no more.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import msgspec

from bench.recommender.usage import START, Size, Usage, build_labels, get_namespace
from bench.recommender.week_of_history import checkpoint
from trellis.kube.transport.requests import PAGE_SIZE

Json: TypeAlias = dict[str, Any]


class PageRequest(msgspec.Struct, frozen=True):
    """A page of a list, by the name of its kind, as it is in that minute."""

    kind: str
    minute: int = 0
    page: int = 0


Lists: TypeAlias = Callable[[PageRequest], bytes]

USAGE = "PodMetrics"
REPLACEMENTS = "replacements"  # the pods that came in that minute; usage is theirs from then on


@contextmanager
def start_list_server(size: Size) -> Iterator[Lists]:
    """Start a process that builds lists on request; beyond the last page they are empty."""
    spawning = multiprocessing.get_context("spawn")
    parent_end, child_end = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(child_end, size), daemon=True)
    process.start()
    child_end.close()  # so that we learn of its end

    def fetch(request: PageRequest) -> bytes:
        parent_end.send(request)
        return parent_end.recv_bytes()

    try:
        yield fetch
    finally:
        process.kill()
        process.join()


def pages(fetch: Lists, kind: str) -> Iterator[bytes]:
    """All pages of a kind."""
    number = 0
    while page := fetch(PageRequest(kind, page=number)):
        yield page
        number += 1


def _serve(connection: Connection, size: Size) -> None:
    usage, documents = Usage(size), _Documents(size)
    while True:
        request: PageRequest = connection.recv()
        if request.kind == USAGE:
            connection.send_bytes(usage.list_at(request.minute))
        elif request.kind == REPLACEMENTS:
            usage.replace(request.minute)
            connection.send_bytes(documents.new_pods(request.minute))
        else:
            connection.send_bytes(documents.page(request))


class _Documents:
    def __init__(self, size: Size) -> None:
        self._size = size
        self._usual = size.usual()
        self._kinds: dict[str, tuple[int, Callable[[int], Json]]] = {
            "VerticalPodAutoscaler": (size.vpas, _vpa),
            "Deployment": (size.vpas, _deployment),
            "ReplicaSet": (size.vpas, _replica_set),
            "Pod": (size.all_pods, self._pod),
            "VerticalPodAutoscalerCheckpoint": (size.vpas * size.containers, self._checkpoint),
        }

    def page(self, request: PageRequest) -> bytes:
        count, make = self._kinds.get(request.kind, (0, _vpa))
        begin = request.page * PAGE_SIZE
        return _list([make(number) for number in range(begin, min(begin + PAGE_SIZE, count))])

    def new_pods(self, minute: int) -> bytes:
        return _list([self._pod(pod, minute) for pod in self._size.replaced(minute)])

    def _pod(self, pod: int, minute: int = 0) -> Json:
        vpa, name = pod // self._size.pods, self._size.pod_name(pod, minute)
        resources = {"requests": {"cpu": "100m", "memory": f"{64 * (1 + vpa % 16)}Mi"}, "limits": {"memory": "2Gi"}}
        containers = [{"name": name, "resources": resources} for name in self._size.names]
        return {
            "metadata": _metadata(vpa, name, _owner("ReplicaSet", f"web-{vpa}-5d")) | {"labels": build_labels(vpa)},
            "spec": {"containers": containers},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
                "containerStatuses": containers,
            },
        }

    def _checkpoint(self, number: int) -> Json:
        vpa, container = divmod(number, self._size.containers)
        cores, memory = self._usual[:, vpa, container].tolist()
        name = self._size.names[container]
        document: Json = checkpoint(f"web-{vpa}", name, cores, memory, datetime.fromtimestamp(START, UTC))
        document["metadata"]["namespace"] = get_namespace(vpa)
        return document


def _vpa(vpa: int) -> Json:
    spec: Json = {"targetRef": _owner("Deployment", f"web-{vpa}"), "updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
    if vpa % 3 == 0:
        policy = {
            "containerName": "*",
            "minAllowed": {"cpu": "50m", "memory": "64Mi"},
            "maxAllowed": {"cpu": "1", "memory": "1Gi"},
        }
        spec["resourcePolicy"] = {"containerPolicies": [policy]}
    return {"metadata": _metadata(vpa, f"web-{vpa}"), "spec": spec}


def _deployment(vpa: int) -> Json:
    return {"metadata": _metadata(vpa, f"web-{vpa}"), "spec": {"selector": {"matchLabels": build_labels(vpa)}}}


def _replica_set(vpa: int) -> Json:
    metadata = _metadata(vpa, f"web-{vpa}-5d", _owner("Deployment", f"web-{vpa}"))
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": build_labels(vpa)}}}


def _metadata(vpa: int, name: str, *owners: Json) -> Json:
    return {
        "name": name,
        "namespace": get_namespace(vpa),
        "uid": f"5e0c7f0a-2b5d-4d1c-{name}",
        "resourceVersion": str(1_000_000 + vpa),
        "generation": 1,
        "creationTimestamp": "2026-09-01T08:00:00Z",
        "ownerReferences": [owner | {"uid": f"5e0c7f0a-2b5d-4d1c-{vpa}", "controller": True} for owner in owners],
    }


def _owner(kind: str, name: str) -> Json:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name}


def _list(items: Sequence[Json]) -> bytes:
    return msgspec.json.encode({"metadata": {}, "items": items}) if items else b""
