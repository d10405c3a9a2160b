"""What does a pass of the recommender consist of, where no cluster has to answer? The calls of its shell, timed apart.

Objects come as bytes, are decoded and kept as informers do it. What a pass would write comes back as it would from the
watch: as a VPA with another status and version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.measurement import CannotMeasure
from bench.vpa_lists import REPLACEMENTS, USAGE, Asked, Lists, pages
from bench.vpa_usage import MINUTE, START, Size, namespace_of
from trellis.api.gates import Gates
from trellis.api.kube.decode import decode_list
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.base.collector import paused, set_aside
from trellis.controllers.recommender.counting import Counting
from trellis.controllers.recommender.figures import default_settings, pipeline_settings, usage_settings
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.model.keys import BY_NAMESPACE, Key, in_namespace, key_of
from trellis.core.model.store import Store
from trellis.core.recommend.default import DefaultRecommender
from trellis.core.recommend.knowledge import Knowledge
from trellis.core.recommend.scope import Scope, Waiting
from trellis.core.recommend.seen import News, Seen
from trellis.core.recommend.served import StatusWrite
from trellis.core.usage.checkpoints import SavedRow, read_checkpoint
from trellis.core.usage.model import Sizes
from trellis.kube.actions import PatchStatus, Target, build_request
from trellis.kube.resources import CHECKPOINTS, OBSERVED_PODS, OBSERVED_WORKLOADS, VPAS, Resource
from trellis.runtime.metrics import Metrics
from trellis.sources.metrics_api import read_pod_metrics

# What the bar is about, in order.
STAGES = ("read", "take in", "recommend", "patch")


class Spent(msgspec.Struct):
    """Seconds on the clock and of the processor, by what they were spent on."""

    wall: dict[str, float] = {}
    cpu: dict[str, float] = {}
    writes: int = 0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[what] = self.wall.get(what, 0.0) + time.perf_counter() - wall
        self.cpu[what] = self.cpu.get(what, 0.0) + time.process_time() - cpu

    @property
    def seconds(self) -> float:
        return sum(self.wall[stage] for stage in STAGES)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu[stage] for stage in STAGES)


class RecommenderInMemory:
    """Everything of a recommender but its connections."""

    def __init__(self, size: Size, ask: Lists) -> None:
        settings = RecommenderSettings()
        self._size = size
        self._ask = ask
        self._vpas: Store[VerticalPodAutoscaler] = self._filled(VPAS)
        self._pods: Store[ObservedPod] = self._filled(OBSERVED_PODS)
        self._workloads = {resource.kind: self._filled(resource) for resource in OBSERVED_WORKLOADS}
        self._changed: set[Key] = set()
        self._touched: set[str] = set()
        self._has_worked = False
        self._counting = Counting(Metrics(RECOMMENDER_METRICS, about_process=False))
        self._versions = 10_000_000
        self.knowledge = Knowledge(
            usage_settings(settings),
            pipeline_settings(settings),
            {"default": DefaultRecommender(default_settings(settings))},
            Gates(),
        )

    def start(self) -> Spent:
        """See everything for the first time, and restore what checkpoints have."""
        set_aside()  # as the process does it once all objects are seen, and after its first pass
        spent = Spent()
        with spent.on("VPAs"):
            self.knowledge.load_vpas(self._seen(), Scope(frozenset({"default"})), all_of_them=True)
        spent.wall |= self.load_pods(0, everywhere=True).wall
        found: list[SavedRow] = []
        for page in pages(self._ask, CHECKPOINTS.kind):
            with spent.on("checkpoints"):
                found += map(read_checkpoint, decode_list(page, CHECKPOINTS.struct).items)
        with spent.on("checkpoints"):
            refused = self.knowledge.restore(found, _at(0), stored=True)
        if refused:
            raise CannotMeasure(f"{len(refused)} checkpoints were refused")
        return spent

    def run_pass(self, minute: int) -> Spent:
        """From usage to patches, and what the shell does after that."""
        body, now, spent = self._ask(Asked(USAGE, minute)), _at(minute), Spent()
        with spent.on("read"):
            batch = read_pod_metrics(body)
        del body
        with spent.on("take in"):
            ingested, kills = self.knowledge.take_in(batch.samples, (), now)
        with spent.on("recommend"), paused():
            result = self.knowledge.recommend(now)
        with spent.on("patch"):
            for write in result.writes:
                build_request(PatchStatus(_target(write), write.status))
        if ingested.accepted != self._size.all_containers:
            raise CannotMeasure(f"{ingested.accepted} samples were taken in; dropped: {ingested.dropped}")
        spent.writes = len(result.writes)
        with spent.on("count"):
            self._counting.count_samples(ingested, kills)
            self._counting.count_quality(result.columns)
        with spent.on("publish"):
            self.knowledge.published(result, [(write, self._stored(write)) for write in result.writes], now)
        with spent.on("count"):
            self._counting.count_advice(result, result.writes, now)
        with spent.on("collect"):
            self.knowledge.collect(now)
        with spent.on("VPAs"):
            self.knowledge.load_vpas(self._seen(), Scope(frozenset({"default"})), all_of_them=False)
        self._changed.clear()
        if not self._has_worked:
            self._has_worked = True
            set_aside()
        return spent

    def replace_pods(self, minute: int) -> Spent:
        """Other pods in the place of those whose turn it is."""
        for pod in self._size.replaced(minute):
            self._pods.remove((namespace_of(pod // self._size.pods), self._size.pod_name(pod, minute - 1)))
        for new in decode_list(self._ask(Asked(REPLACEMENTS, minute)), ObservedPod).items:
            self._pods.put(key_of(new), new)
            self._touched.add(new.metadata.namespace)
        return self.load_pods(minute)

    def load_pods(self, minute: int, *, everywhere: bool = False) -> Spent:
        """Look at the namespaces in which pods have changed, or as if they had changed in all."""
        spent = Spent()
        if everywhere:
            self._touched.update(self._pods.snapshot().groups(BY_NAMESPACE))
        with spent.on("pods"):
            self.knowledge.load_pods(self._seen(), {}, Waiting(), _at(minute))
        self._touched.clear()
        return spent

    def sizes(self) -> Sizes:
        """How much the model has."""
        return self.knowledge.model.sizes()

    def _seen(self) -> Seen:
        return Seen(
            vpas=self._vpas.snapshot(),
            pods=self._pods.snapshot(),
            hvpas=Store[Any]({BY_NAMESPACE: in_namespace}).snapshot(),
            workloads={kind: store.snapshot() for kind, store in self._workloads.items()},
            news=News(frozenset(self._changed), frozenset(self._touched)),
        )

    def _filled(self, resource: Resource[Any]) -> Store[Any]:
        store = Store[Any]({BY_NAMESPACE: in_namespace})
        for page in pages(self._ask, resource.kind):
            for found in decode_list(page, resource.struct).items:
                store.put(key_of(found), found)
        return store

    def _stored(self, write: StatusWrite) -> str:
        """Store a status as the API server would; the version that makes."""
        self._versions += 1
        key, version = (write.namespace, write.name), str(self._versions)
        before = self._vpas.get(key)
        if before is None:
            raise CannotMeasure(f"a status for {key}, which nobody has seen")
        metadata = msgspec.structs.replace(before.metadata, resource_version=version)
        status = msgspec.convert(write.status, VerticalPodAutoscalerStatus)
        self._vpas.put(key, msgspec.structs.replace(before, metadata=metadata, status=status))
        self._changed.add(key)
        return version


def resident_megabytes(*, peak: bool = False) -> float:
    """Of this process, now or at most so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    field = "VmHWM:" if peak else "VmRSS:"
    return int(status.split(field)[1].split()[0]) * 1024 / 1e6


def on_one_core() -> None:
    """Stay on one processor from now on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _at(minute: int) -> float:
    return float(START + minute * MINUTE)


def _target(write: StatusWrite) -> Target:
    return Target(VPAS, write.name, write.namespace, write.uid, write.resource_version)
