"""Runs several stories side by side on one control plane: each is a generator, and all see the same moment.

A story creates its workload, scripts its usage and says what it waits for; between two moments it yields. So five
minutes are waited once, however many stories there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from support.cluster.hvpas import GROUP
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.errors import TimedOut
from testbed.kwok import annotations as ask
from testbed.waiting import until
from trellis.base.quantities import Quantity

Story = Iterator[None]

PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}


class Scene:
    """A namespace as it is at one moment; `read` goes on to the next."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.api = cluster.api
        self._pods: dict[str, list[Json]] = {}
        self._workloads: dict[tuple[str, str], Json] = {}
        self._hvpas: dict[str, Json] = {}

    def read(self) -> None:
        """Read everything anew."""
        pods = self.api.list_items(f"/api/v1/namespaces/{self.namespace}/pods")
        self._pods = {}
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                self._pods.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
        self._workloads = {
            (kind, workload["metadata"]["name"]): workload
            for kind, plural in PLURALS.items()
            for workload in self.api.list_items(f"/apis/apps/v1/namespaces/{self.namespace}/{plural}")
        }
        hvpas = self.api.list_items(f"{GROUP}/namespaces/{self.namespace}/hvpas")
        self._hvpas = {hvpa["metadata"]["name"]: hvpa for hvpa in hvpas}

    def spec_replicas(self, name: str) -> int | None:
        """What `spec.replicas` of an Hvpa says."""
        count: int | None = self._hvpas.get(name, {}).get("spec", {}).get("replicas")
        return count

    def conditions(self, name: str) -> set[str]:
        """The types of its conditions."""
        return {condition["type"] for condition in self._hvpas.get(name, {}).get("status", {}).get("conditions", ())}

    def shape(self, kind: str, name: str) -> tuple[int, set[int]]:
        """How many replicas a workload has, and what its pods have in millicores."""
        pods = self._pods.get(name, ())
        workload = self._workloads.get((kind, name))
        # A count that its pods have not followed yet is no shape: none of the sizes is that of the missing ones.
        if workload is None or len(pods) != workload["spec"]["replicas"]:
            return 0, set()
        return len(pods), {requested(pod) for pod in pods}

    def held(self, name: str) -> int:
        """What the Ready pods have together."""
        return sum(requested(pod) for pod in self._pods.get(name, ()) if is_ready(pod))

    def all_ready(self, name: str) -> bool:
        """Whether every pod is Ready."""
        return all(map(is_ready, self._pods.get(name, ())))

    def written(self, kind: str, name: str) -> tuple[int, int]:
        """How often the specs of a workload and of its Hvpa have been written."""
        both = self._workloads[kind, name], self._hvpas[name]
        return both[0]["metadata"]["generation"], both[1]["metadata"]["generation"]

    def share(self, name: str, millicores: int) -> None:
        """All running pods use the same part of this."""
        pods = [pod for pod in self._pods.get(name, ()) if pod["status"].get("phase") == "Running"]
        for pod in pods:
            part = f"{millicores // len(pods)}m"
            if pod["metadata"].get("annotations", {}).get(ask.USAGE_CPU) != part:
                where = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                self.api.annotate(where, {ask.USAGE_CPU: part})


def requested(pod: Json) -> int:
    """What a pod requests and also has: a resize that is asked for is not there yet."""
    spec = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    had = [
        status.get("resources", {}).get("requests", {}).get("cpu")
        for status in pod["status"].get("containerStatuses", ())
    ]
    return min(Quantity.parse(amount).milli for amount in (spec, *had) if amount)


def reaches(what: str, is_so: Callable[[], bool], seconds: float = 300.0) -> Story:
    """Let moments go by until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimedOut(f"waited {seconds:g} s for {what}")
        yield


def holds(is_so: Callable[[], object], seconds: float) -> Story:
    """What it is now, and not False, it must be at each moment of so many seconds."""
    before, end = is_so(), time.monotonic() + seconds
    assert before is not False
    while time.monotonic() < end:
        yield
        assert is_so() == before


def play(scene: Scene, stories: Mapping[str, Story], seconds: float) -> None:
    """All stories to their end, moment by moment."""
    remaining = dict(stories)

    def moment() -> bool:
        scene.read()
        for name in [name for name, story in remaining.items() if next(story, remaining) is remaining]:
            del remaining[name]
        return not remaining

    until(f"the end of {', '.join(stories)}", moment, seconds)
