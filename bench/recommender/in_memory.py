"""Measures the parts of a pass of the recommender where no cluster has to answer: the calls of its shell, timed apart.

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
from bench.recommender.usage import MINUTE, START, Size, get_namespace
from bench.recommender.vpa_lists import REPLACEMENTS, USAGE, Lists, PageRequest, pages
from trellis.api.feature_gates import FeatureGates
from trellis.api.kinds.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.api.kube.decoder import decode_list
from trellis.api.kube.observed_pods import ObservedPod
from trellis.base.python_gc import freeze_live_objects, pause_garbage_collection
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS, RecommenderMetrics
from trellis.controllers.recommender.settings import (
    RecommenderSettings,
    build_default_settings,
    build_pipeline_settings,
    build_usage_settings,
)
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey, ObjectStore, index_by_namespace, key_of
from trellis.core.recommend.engine import PassWrites, RecommenderEngine
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedHistory,
    FetchedUsage,
    RecommenderScope,
    RecommenderSnapshot,
    SnapshotChanges,
)
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.core.usage.checkpoints.format import SavedRow, read_checkpoint
from trellis.core.usage.model import UsageModelSizes
from trellis.kube.resources import CHECKPOINTS, OBSERVED_PODS, OBSERVED_WORKLOADS, VPAS, Resource
from trellis.kube.write.actions import PatchStatus, Target, build_request
from trellis.runtime.telemetry.metrics import Metrics
from trellis.sources.metrics_api import read_pod_metrics

# What the bar is about, in order.
STAGES = ("read", "finish", "patch")


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
        self._vpas: ObjectStore[VerticalPodAutoscaler] = self._filled(VPAS)
        self._pods: ObjectStore[ObservedPod] = self._filled(OBSERVED_PODS)
        self._workloads = {resource.kind: self._filled(resource) for resource in OBSERVED_WORKLOADS}
        self._changed: set[ObjectKey] = set()
        self._touched: set[str] = set()
        self._has_worked = False
        self._metrics = RecommenderMetrics(Metrics(RECOMMENDER_METRICS, about_process=False))
        self._versions = 10_000_000
        self._recommenders = {"default": DefaultRecommender(build_default_settings(settings))}
        self.engine = RecommenderEngine(
            build_usage_settings(settings), build_pipeline_settings(settings), FeatureGates()
        )

    def start(self) -> Spent:
        """Load everything for the first time, and restore what checkpoints have."""
        freeze_live_objects()  # as the process does it once caches have synced, and after its first pass
        spent = Spent()
        with spent.on("begin"):
            self._begin()
        spent.wall |= self.load_pods(0, everywhere=True).wall
        rows: list[SavedRow] = []
        for page in pages(self._ask, CHECKPOINTS.kind):
            with spent.on("checkpoints"):
                rows += map(read_checkpoint, decode_list(page, CHECKPOINTS.struct).items)
        with spent.on("checkpoints"):
            report = self.engine.ingest(FetchedUsage(history=[FetchedHistory(rows, from_checkpoints=True)]), _at(0))
        if report.refused:
            raise CannotMeasure(f"{len(report.refused)} checkpoints were refused")
        return spent

    def run_pass(self, minute: int) -> Spent:
        """From usage to patches, and what the controller does before and after that."""
        with (spent := Spent()).on("begin"):
            self._begin()
        body, now = self._ask(PageRequest(USAGE, minute)), _at(minute)
        with spent.on("read"):
            batch = read_pod_metrics(body)
        del body
        with spent.on("finish"), pause_garbage_collection():
            decision = self.engine.finish(FetchedUsage(batch.samples), now)
        result = decision.recommendations
        with spent.on("patch"):
            for write in result.writes:
                build_request(PatchStatus(_target(write), write.status))
        ingested = decision.ingested.samples
        if ingested.accepted != self._size.all_containers:
            raise CannotMeasure(f"{ingested.accepted} samples were taken in; dropped: {ingested.dropped}")
        spent.writes = len(result.writes)
        with spent.on("observe"):
            self._metrics.observe_decision(decision)
        with spent.on("commit"):
            self.engine.commit(decision, PassWrites([(write, self._stored(write)) for write in result.writes]), now)
        with spent.on("observe"):
            self._metrics.observe_recommendations(result, result.writes, now)
        if not self._has_worked:
            self._has_worked = True
            freeze_live_objects()
        return spent

    def _begin(self) -> None:
        scope = RecommenderScope(frozenset({"default"}))
        self.engine.begin(ClusterObservation(self._take_snapshot(), scope, self._recommenders))
        self._changed.clear()
        self._touched.clear()

    def replace_pods(self, minute: int) -> Spent:
        """Other pods in the place of those whose turn it is."""
        for pod in self._size.replaced(minute):
            self._pods.remove((get_namespace(pod // self._size.pods), self._size.pod_name(pod, minute - 1)))
        for new in decode_list(self._ask(PageRequest(REPLACEMENTS, minute)), ObservedPod).items:
            self._pods.put(key_of(new), new)
            self._touched.add(new.metadata.namespace)
        return self.load_pods(minute)

    def load_pods(self, minute: int, *, everywhere: bool = False) -> Spent:
        """Look at the namespaces in which pods have changed, or as if they had changed in all."""
        spent = Spent()
        if everywhere:
            self._touched.update(self._pods.snapshot().index_values(BY_NAMESPACE))
        with spent.on("pods"):
            self._begin()
            self.engine.ingest(FetchedUsage(), _at(minute))
        return spent

    def sizes(self) -> UsageModelSizes:
        """How much the model has."""
        return self.engine.model.sizes()

    def _take_snapshot(self) -> RecommenderSnapshot:
        return RecommenderSnapshot(
            vpas=self._vpas.snapshot(),
            pods=self._pods.snapshot(),
            hvpas=ObjectStore[Any]({BY_NAMESPACE: index_by_namespace}).snapshot(),
            workloads={kind: store.snapshot() for kind, store in self._workloads.items()},
            changes=SnapshotChanges(frozenset(self._changed), frozenset(self._touched)),
        )

    def _filled(self, resource: Resource[Any]) -> ObjectStore[Any]:
        store = ObjectStore[Any]({BY_NAMESPACE: index_by_namespace})
        for page in pages(self._ask, resource.kind):
            for item in decode_list(page, resource.struct).items:
                store.put(key_of(item), item)
        return store

    def _stored(self, write: VpaStatusWrite) -> str:
        """Store a status as the API server would; the version that makes."""
        self._versions += 1
        key, version = (write.namespace, write.name), str(self._versions)
        before = self._vpas.get(key)
        if before is None:
            raise CannotMeasure(f"a status for {key}, which was never listed")
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


def pin_to_one_core() -> None:
    """Stay on one processor from now on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _at(minute: int) -> float:
    return float(START + minute * MINUTE)


def _target(write: VpaStatusWrite) -> Target:
    return Target(VPAS, write.name, write.namespace, write.uid, write.resource_version)
