"""Measures a pass of the updater over 100,000 pods in 20,000 VPAs, two containers each, with nothing to do.

Every workload has a size of its own and is governed in one of three modes, some with requirements or policies. A third
are in a namespace with LimitRanges, and all pods are old, so that only their size keeps them as they are. Objects are
put as the watch brings them; a pass is what `trellis updater` does each minute, but for asking the API server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.client.pod_list import peak_megabytes
from bench.measurement import CannotMeasure, Row, in_ms, within
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.workloads import Deployment, ReplicaSet
from trellis.base.python_gc import freeze_live_objects, pause_garbage_collection
from trellis.controllers.updater.metrics import UPDATER_METRICS, UpdaterMetrics
from trellis.core.resize import (
    NodeHeadroom,
    PlanningBatch,
    PlanResult,
    UpdateMemory,
    UpdatePlanner,
    UpdateSettings,
    WorkloadCache,
)
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.sizing.governors import Governor, compile_vpa_governor
from trellis.runtime.cached_kinds import RESIZABLE_PODS
from trellis.runtime.telemetry.metrics import Metrics

WORKLOADS = 20_000
PODS = 5
ROUNDS = 5
# Planned for at once, as the updater does it.
AT_ONCE = 1024
# The bar of the whole.
SECONDS = 1.0

NOW = 1_800_000_000.0
_MODES = ("Recreate", "InPlaceOrRecreate", "InPlace")
_MIB = 1 << 20
_RANGE = {"type": "Container", "max": {"cpu": "64", "memory": "256Gi"}, "min": {"cpu": "1m", "memory": "1Mi"}}
_LIMITS = msgspec.convert({"spec": {"limits": [_RANGE]}}, LimitRange)

Json = dict[str, Any]


def measure() -> list[Row]:
    world = _World()
    spent = world.fill()
    freeze_live_objects()  # as the process does it once all objects are seen, and after its first pass
    first = _time(world.run_pass)
    freeze_live_objects()
    idle = min(_time(world.run_pass) for _ in range(ROUNDS))
    size = f"{WORKLOADS * PODS:,} pods in {WORKLOADS:,} VPAs"
    rows = [
        within(f"{size}, nothing to do: a pass (peer: the first, with a plan for each)", idle, SECONDS, first),
        Row(f"{size}, all put", in_ms(spent)),
    ]
    rows += [Row(f"updater: {what}", f"{seconds * 1e6:.0f} us") for what, seconds in world.changes()]
    rows.append(Row(f"{size}: memory of the process, at most", f"{peak_megabytes():,.0f} MB"))
    return rows


def _make_transform() -> Callable[[Pod], Pod]:
    if RESIZABLE_PODS.transform is None:
        raise CannotMeasure("pods are cached as decoded")
    return RESIZABLE_PODS.transform()


cut_pod = _make_transform()


class _World:
    """The updater without its connections."""

    def __init__(self) -> None:
        settings = UpdateSettings()
        self._cache = WorkloadCache(on_change=self._changed)
        self._memory = UpdateMemory(self._cache, settings)
        self._planner = UpdatePlanner(settings, NodeHeadroom(counts_all=False))
        self._metrics = UpdaterMetrics(Metrics(UPDATER_METRICS, about_process=False))
        self._pods: dict[tuple[str, str], Pod] = {}

    def _changed(self, workload: WorkloadKey) -> None:
        self._memory.mark_changed(workload)

    def fill(self) -> float:
        """Put everything, which takes so many seconds; making it does not count."""
        for number in range(0, 400, 3):
            self._cache.put_limits(f"team-{number}", [_LIMITS])
        return sum(map(self._fill_workload, range(WORKLOADS)))

    def _fill_workload(self, at: int) -> float:
        namespace, governor = f"team-{at % 400}", build_governor(at)
        deployment, replica_set = _controllers(at)
        pods = [cut_pod(build_pod(at, number)) for number in range(PODS)]
        start = time.perf_counter()
        cache = self._cache
        cache.put_governor("VerticalPodAutoscaler", (namespace, f"web-{at}"), governor)
        cache.put_workload("Deployment", (namespace, f"web-{at}"), None, deployment)
        cache.put_workload("ReplicaSet", (namespace, replica_set.metadata.name), None, replica_set)
        for pod in pods:
            key = (namespace, pod.metadata.name)
            self._pods[key] = pod
            cache.put_pod(key, None, pod)
        return time.perf_counter() - start

    def run_pass(self) -> None:
        """Look at everything that is not at rest."""
        self._metrics.begin_pass()
        workloads = self._memory.select_changed(self._cache.governors.list_workloads())
        self._planner.retain_views(self._pods.values())
        for begin in range(0, len(workloads), AT_ONCE):
            batch = self._memory.build_batch(workloads[begin : begin + AT_ONCE], NOW)
            for planned in self._plan(batch):
                if planned.error is not None or planned.plan.actions or not planned.snapshot.pods:
                    raise CannotMeasure(f"{planned.snapshot.workload} needs something, and none should: {planned}")
                self._memory.record_plan(planned)
                self._metrics.observe_plan(planned.snapshot, planned.plan)
        self._metrics.export_counts(dict(self._metrics.counts_by_workload))

    def _plan(self, batch: PlanningBatch) -> list[PlanResult]:
        with pause_garbage_collection():
            return self._planner.plan_all(batch)

    def changes(self) -> Iterator[tuple[str, float]]:
        """What one thing costs that changes, on the average of many."""
        changed = range(0, WORKLOADS, WORKLOADS // 500)
        governors = {at: build_governor(at, percent_more=1) for at in changed}
        resized_pods = {at: cut_pod(build_pod(at, 1, percent_more=-50)) for at in changed}

        def put_advice(at: int) -> None:
            self._cache.put_governor("VerticalPodAutoscaler", (f"team-{at % 400}", f"web-{at}"), governors[at])

        def put_pod(at: int) -> None:
            key = (f"team-{at % 400}", resized_pods[at].metadata.name)
            self._cache.put_pod(key, self._pods[key], resized_pods[at])

        yield "a VPA with other advice, put", _time_each(changed, put_advice)
        yield "a pod of another size, put", _time_each(changed, put_pod)
        workloads = self._memory.select_changed(self._cache.governors.list_workloads())
        if len(workloads) != len(changed):
            raise CannotMeasure(f"{len(workloads)} workloads are to be looked at, and {len(changed)} have changed")
        acting: list[int] = []

        def plan() -> None:
            plans = self._plan(self._memory.build_batch(workloads, NOW))
            acting.append(sum(bool(plan.plan.actions) for plan in plans))

        yield "a workload gathered and planned for", _time(plan) / len(changed)
        if not acting[0]:
            raise CannotMeasure("nothing is done about pods that need something")


def _time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _time_each(some: range, work: Callable[[int], object]) -> float:
    start = time.perf_counter()
    for at in some:
        work(at)
    return (time.perf_counter() - start) / len(some)


def _controllers(at: int) -> tuple[Deployment, ReplicaSet]:
    selector: Json = {"matchLabels": {"app": f"web-{at}"}}
    metadata: Json = {"namespace": f"team-{at % 400}", "name": f"web-{at}"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{at}", "controller": True}
    below = {**metadata, "name": f"web-{at}-5d{at:07x}", "ownerReferences": [owner]}
    return (
        msgspec.convert({"metadata": metadata, "spec": {"selector": selector}}, Deployment),
        msgspec.convert({"metadata": below, "spec": {"replicas": PODS, "selector": selector}}, ReplicaSet),
    )


def build_governor(at: int, *, percent_more: int = 0) -> Governor:
    """What governs a workload; with `percent_more`, another recommendation, still within what is worth nothing."""
    recommended = [
        {
            "containerName": name,
            "target": _amounts(at, percent_more),
            "lowerBound": _amounts(at, -20),
            "upperBound": _amounts(at, 20),
        }
        for name in ("app", "proxy")
    ]
    policy: Json = {"updateMode": _MODES[at % len(_MODES)]}
    if at % 10 == 0:
        policy["evictionRequirements"] = [
            {"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}
        ]
    spec: Json = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{at}"}}
    spec["updatePolicy"] = policy
    if at % 4 == 0:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "8"}}]}
    document = {
        "kind": "VerticalPodAutoscaler",
        "apiVersion": "autoscaling.k8s.io/v1",
        "metadata": {"name": f"web-{at}", "namespace": f"team-{at % 400}", "uid": f"vpa-{at}"},
        "spec": spec,
        "status": {"recommendation": {"containerRecommendations": recommended}},
    }
    governor = compile_vpa_governor(msgspec.convert(document, VerticalPodAutoscaler))
    assert governor is not None
    return governor


def build_pod(at: int, number: int, *, percent_more: int = 0) -> Pod:
    """A pod of a workload, as the API server would tell; with `percent_more`, of another size."""
    resources: Json = {"requests": _amounts(at, percent_more)}
    if at % 2:
        resources["limits"] = {name: _text(name, 2 * amount) for name, amount in _numbers(at, percent_more).items()}
    born = "2026-06-01T08:00:00Z"
    document = {
        "metadata": {
            "name": f"web-{at}-5d{at:07x}-{number}",
            "namespace": f"team-{at % 400}",
            "uid": f"{at:08x}-0000-4000-a000-{number:012x}",
            "creationTimestamp": born,
            "labels": {"app": f"web-{at}"},
            "annotations": {"vpaObservedContainers": "app, proxy"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{at}-5d{at:07x}", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-{(at * PODS + number) % 3000}",
            "containers": [{"name": name, "resources": resources} for name in ("app", "proxy")],
        },
        "status": {
            "phase": "Running",
            "startTime": born,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": born}],
            "containerStatuses": [{"name": name, "resources": resources} for name in ("app", "proxy")],
        },
    }
    return msgspec.convert(document, Pod)


def _numbers(at: int, percent_more: int) -> dict[str, int]:
    """Millicores and bytes, more by so many percent."""
    return {
        "cpu": (100 + at % 3000) * (100 + percent_more) // 100,
        "memory": (64 + at % 4000) * (100 + percent_more) // 100 * _MIB,
    }


def _amounts(at: int, percent_more: int) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in _numbers(at, percent_more).items()}


def _text(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else f"{amount // _MIB}Mi"
