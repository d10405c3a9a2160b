"""VerticalPodAutoscalers without a cluster: what is written is stored, as the API server would store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from support.builders.manifests import TARGET
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import resolve_vpa
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommendation_pass import PassResult, run_pass
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.condition_types import VpaState
from trellis.core.recommend.state.tables import ServedVpa, VpaStatusWrite
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

NAMESPACE = "shop"
START = 1_700_000_000.0
MINUTE = 60.0
DAY = 86400.0


class Stub:
    """A recommender that says the same of every row: (lower, target, upper) in millicores and in bytes."""

    needs_history = False
    parameters = ()

    def __init__(self, name: str, cpu: tuple[float, ...], memory: tuple[float, ...] = (1e9, 2e9, 3e9)) -> None:
        self.name = name
        self.cpu, self.memory = cpu, memory
        self.estimated_rows = 0
        self.error: Exception | None = None
        self.confidence: float | None = None

    def estimate(self, rows: Rows, _values: Mapping[str, Any], _now: float, /) -> Estimates:
        self.estimated_rows += len(rows)
        if self.error is not None:
            raise self.error
        bounds = np.array([self.cpu, self.memory]).T[:, :, None].repeat(len(rows), axis=2)
        trust = None if self.confidence is None else np.full(len(rows), self.confidence)
        return Estimates(bounds, None, trust)


class World:
    """VPAs of one namespace with their pods' usage, and a recommender process that serves some names."""

    def __init__(self, *recommenders: Recommender, settings: PipelineSettings | None = None) -> None:
        self.now = START
        self.settings = settings or PipelineSettings()
        self.recommenders: dict[str, Recommender] = {
            recommender.name: recommender for recommender in recommenders or (DefaultRecommender(),)
        }
        self.model = UsageModel()
        self.vpa_store = VpaStore()
        self.stored: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, TrackedPod] = {}
        self.states: dict[str, VpaState] = {}
        self.versions = 0

    # What users and controllers do

    def apply(self, name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Make a VPA, or change its spec or annotations."""
        old = self.stored.get(name)
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "generation": 1 if old is None else old["metadata"]["generation"],
            "annotations": annotations or {},
        }
        new: dict[str, Any] = {"metadata": metadata, "spec": {"targetRef": TARGET, **spec}}
        if old is not None:
            metadata["generation"] += old["spec"] != new["spec"]
            new["status"] = old.get("status")
        self.store(name, new)
        self.states.setdefault(name, VpaState(0))
        self.vpa_store.set_state(NAMESPACE, name, self.states[name])

    def store(self, name: str, document: dict[str, Any]) -> None:
        self.versions += 1
        document["metadata"]["resourceVersion"] = str(self.versions)
        self.stored[name] = document
        self.put(name)

    def put(self, name: str) -> None:
        """The event that shows the object as it is stored."""
        vpa = msgspec.convert(self.stored[name], VerticalPodAutoscaler)
        effective = resolve_vpa(vpa)
        if not any(effective.is_served_by(recommender) for recommender in self.recommenders):
            self.vpa_store.drop(NAMESPACE, name)
            return
        metadata = self.stored[name]["metadata"]
        self.vpa_store.put(
            ServedVpa(
                namespace=NAMESPACE,
                name=name,
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
                generation=metadata["generation"],
                created=START - 100,
                effective=effective,
                recommender=effective.recommender,
                annotations=metadata["annotations"],
                status=vpa.status,
            )
        )

    def run_pods(self, vpa: str = "web", *containers: str, count: int = 1) -> None:
        """Let exactly so many pods of a VPA run."""
        self.pods = {name: pod for name, pod in self.pods.items() if pod.vpa != vpa}
        names = [TrackedContainer(name) for name in containers or ("app",)]
        for number in range(count):
            pod = TrackedPod(NAMESPACE, f"{vpa}-{number}", f"uid-{vpa}-{number}", vpa, True, tuple(names))
            self.pods[pod.name] = pod
        self.model.track_pods(NAMESPACE, list(self.pods.values()), self.now)
        self.set_state(vpa, pods=count)

    def set_state(self, vpa: str = "web", **state: Any) -> None:
        """What is known of a VPA's target."""
        self.states[vpa] = msgspec.structs.replace(self.states.get(vpa, VpaState(0)), **state)
        self.vpa_store.set_state(NAMESPACE, vpa, self.states[vpa])

    def ingest_usage(self, cpu: float = 1.0, memory: float = 2**30, *, vpa: str = "web", minutes: int = 1) -> None:
        """So many minutes of steady usage by all containers of a VPA's pods, one sample a minute."""
        containers = [
            (pod.name, container.name) for pod in self.pods.values() if pod.vpa == vpa for container in pod.containers
        ]
        for _ in range(minutes):
            self.now += MINUTE
            size = len(containers)
            self.model.ingest(
                Samples(
                    [NAMESPACE] * size,
                    [pod for pod, _ in containers],
                    [container for _, container in containers],
                    np.full(size, self.now),
                    np.full(size, cpu),
                    np.full(size, memory),
                ),
                self.now,
            )

    # What a process does

    def decide(self) -> PassResult:
        """A pass whose writes come to nothing."""
        return run_pass(self.model.view(), self.vpa_store, self.recommenders, self.settings, self.now)

    def run(self, *, observed: bool = True) -> list[VpaStatusWrite]:
        """A pass whose writes are carried out, and come back as events."""
        writes = self.decide().writes
        for write in writes:
            self.write(write, observed=observed)
        return writes

    def write(self, write: VpaStatusWrite, *, observed: bool = True) -> None:
        document = merged(self.stored[write.name], {"status": write.status})
        self.versions += 1
        document["metadata"]["resourceVersion"] = str(self.versions)
        self.stored[write.name] = document
        self.vpa_store.record_write(write, str(self.versions), self.now)
        if observed:
            self.put(write.name)

    def restart(self) -> None:
        """A new process: nothing is known but what is stored."""
        self.vpa_store = VpaStore()
        for name in self.stored:
            self.put(name)
            self.vpa_store.set_state(NAMESPACE, name, self.states[name])

    # What is there to see

    def status(self, name: str = "web") -> dict[str, Any]:
        status: dict[str, Any] = self.stored[name]["status"]
        return status

    def advice(self, name: str = "web") -> dict[str, dict[str, Any]]:
        entries = self.status(name)["recommendation"].get("containerRecommendations", [])
        return {entry["containerName"]: entry for entry in entries}

    def target(self, name: str = "web", container: str = "app") -> dict[str, str]:
        target: dict[str, str] = self.advice(name)[container]["target"]
        return target

    def conditions(self, name: str = "web") -> dict[str, dict[str, Any]]:
        return {condition["type"]: condition for condition in self.status(name)["conditions"]}

    def true_conditions(self, name: str = "web") -> set[str]:
        return {type_ for type_, condition in self.conditions(name).items() if condition["status"] == "True"}


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
