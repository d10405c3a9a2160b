"""What users notice of an installation: how pods are created, and how old recommendations are, at every moment.

Pods are created as dry runs, which the API server sends through the webhook as it does all others.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Final

import msgspec

from support.cluster.admission import UPDATES, dry_run, owned
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from trellis.diagnosis.collection.metrics_pages import parse_samples

# Between two creations, and between two readings of metrics.
_CREATION_SECONDS: Final = 0.1
_READING_SECONDS: Final = 0.5

_LAST_PASS: Final = "trellis_component_last_pass_timestamp_seconds"  # noqa: S105 - a metric
_RECOMMENDER: Final = "recommender"


class Creation(msgspec.Struct, frozen=True):
    """A pod that was created: in which phase, in how many seconds, whether with a recommended size, or why not."""

    phase: str
    seconds: float
    is_sized: bool = False
    refusal: str = ""


class Age(msgspec.Struct, frozen=True):
    """How many seconds ago the last pass of any recommender was completed, at one moment of a phase."""

    phase: str
    seconds: float


class Replica(msgspec.Struct, frozen=True):
    """A pod and its port for metrics."""

    address: str
    port: int


class ServiceLevels:
    """Measures from its start until its end, in threads of its own."""

    def __init__(self, cluster: Cluster, namespace: str, pod: Json) -> None:
        self.creations: list[Creation] = []
        self.ages: list[Age] = []
        self.last_pass = 0.0
        self.phase = ""
        self._cluster = cluster
        self._namespace = namespace
        self._pod = pod
        self._ended = threading.Event()

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure within the block."""
        work = ((self._create, _CREATION_SECONDS), (self._read, _READING_SECONDS))
        with ThreadPoolExecutor(len(work)) as pool:
            results = [pool.submit(self._repeat, *arguments) for arguments in work]
            try:
                yield
            finally:
                self._ended.set()
            for result in results:
                result.result()

    def has_pass_since(self, moment: float) -> bool:
        """Whether a recommender has completed a pass since a moment in Unix time."""
        return self.last_pass > moment

    def is_sized(self) -> bool:
        """Whether a pod that is created now gets a recommended size."""
        return has_size(dry_run(self._cluster, self._namespace, self._pod))

    def describe(self) -> dict[str, dict[str, float]]:
        """The figures of each phase."""
        return {
            phase: {
                "creations": len(created := [it for it in self.creations if it.phase == phase]),
                "unsized": sum(not it.is_sized for it in created),
                "slowestSeconds": round(max((it.seconds for it in created), default=0.0), 2),
                "oldestSeconds": round(max((it.seconds for it in self.ages if it.phase == phase), default=0.0), 1),
            }
            for phase in dict.fromkeys(it.phase for it in self.creations)
        }

    def _repeat(self, step: Callable[[], None], pause: float) -> None:
        while not self._ended.is_set():
            step()
            self._ended.wait(pause)

    def _create(self) -> None:
        phase, began = self.phase, time.monotonic()
        try:
            created = dry_run(self._cluster, self._namespace, self._pod)
        except Refused as refusal:
            self.creations.append(Creation(phase, time.monotonic() - began, refusal=str(refusal)))
            return
        seconds = time.monotonic() - began
        self.creations.append(Creation(phase, seconds, has_size(created)))

    def _read(self) -> None:
        phase = self.phase
        for replica in self._list_recommenders():
            self.last_pass = max(self.last_pass, read_last_pass(replica))
        self.ages.append(Age(phase, time.time() - self.last_pass))

    def _list_recommenders(self) -> list[Replica]:
        pods = self._cluster.api.list_items("/api/v1/pods", labelSelector="app.kubernetes.io/name=trellis")
        return [
            Replica(pod["status"]["podIP"], port["containerPort"])
            for pod in pods
            if pod["metadata"]["labels"]["app.kubernetes.io/component"] in (_RECOMMENDER, "controllers")
            and pod["status"].get("podIP")
            for port in pod["spec"]["containers"][0]["ports"]
            if port["name"] == "prometheus"
        ]


def has_size(pod: Json) -> bool:
    """Whether a webhook gave the pod a recommended size: upstream's and ours note it alike."""
    return UPDATES in pod["metadata"].get("annotations", {})


def read_last_pass(replica: Replica) -> float:
    """When a replica completed its last pass of the recommender, in Unix time; 0 if it does not answer or led none."""
    try:
        with closing(http.client.HTTPConnection(replica.address, replica.port, timeout=1.0)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return 0.0
    found = [value for name, labels, value in parse_samples(text)
             if name == _LAST_PASS and labels.get("component") == _RECOMMENDER]  # fmt: skip
    return max(found, default=0.0)


def build_pod(deployment: Json) -> Json:
    """A pod as the controller of a Deployment creates it."""
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "measured-"}, "spec": spec}
    return owned(pod, deployment)
