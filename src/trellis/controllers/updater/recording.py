"""Records what changes the updater's state, so that its decisions can be replayed.

Each line is written before the state takes the change in, on the event loop and therefore in the order of changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.json_lines import encode_payload
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.recording import updater as lines
from trellis.core.recording.updater import UpdatesDecided
from trellis.core.resize.actions import Action
from trellis.core.resize.planner import PlanningBatch, PlanResult, UpdateMemory
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import PendingPodWrites, WorkloadCache
from trellis.core.sizing.governors import Governor
from trellis.runtime.recorder import Recorder


class UpdaterRecording:
    """The recording of an updater, if one is asked for."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def is_on(self) -> bool:
        """Whether lines are recorded."""
        return self._recorder.is_on

    def write(self, line: msgspec.Struct) -> None:
        """Write a line to the recording."""
        self._recorder.write(lines.LINE_NAMES[type(line)], line)

    def flush(self) -> None:
        """Write all lines so far to the file."""
        self._recorder.flush()


def create_workload_cache(
    recording: UpdaterRecording,
    *,
    tracks_headroom: bool,
    on_change: Callable[[WorkloadKey], None],
    on_new_target: Callable[[], None],
    withdraws_in: Callable[[str], bool],
) -> WorkloadCache:
    """The state of workloads, recorded if a recording is asked for."""
    if not recording.is_on:
        return WorkloadCache(
            tracks_headroom=tracks_headroom, on_change=on_change, on_new_target=on_new_target, withdraws_in=withdraws_in
        )
    return RecordedWorkloadCache(
        recording,
        tracks_headroom=tracks_headroom,
        on_change=on_change,
        on_new_target=on_new_target,
        withdraws_in=withdraws_in,
    )


def create_memory(recording: UpdaterRecording, cache: WorkloadCache, settings: UpdateSettings) -> UpdateMemory:
    """The memory of plans, recorded if a recording is asked for."""
    return RecordedUpdateMemory(recording, cache, settings) if recording.is_on else UpdateMemory(cache, settings)


class RecordedPodWrites(PendingPodWrites):
    """Pending writes, each recorded."""

    def __init__(self, recording: UpdaterRecording) -> None:
        super().__init__()
        self._recording = recording

    def expect_eviction(self, uid: str, until: float = math.inf) -> None:
        self._recording.write(lines.PodEvicted(uid, None if until == math.inf else until))
        super().expect_eviction(uid, until)

    def expect_write(self, uid: str, resource_version: str) -> None:
        self._recording.write(lines.PodWritten(uid, resource_version))
        super().expect_write(uid, resource_version)


class RecordedWorkloadCache(WorkloadCache):
    """The state of workloads, with each change recorded before it is applied."""

    def __init__(
        self,
        recording: UpdaterRecording,
        *,
        tracks_headroom: bool,
        on_change: Callable[[WorkloadKey], None],
        on_new_target: Callable[[], None],
        withdraws_in: Callable[[str], bool],
    ) -> None:
        super().__init__(
            tracks_headroom=tracks_headroom,
            on_change=on_change,
            on_new_target=on_new_target,
            withdraws_in=withdraws_in,
            pending_writes=RecordedPodWrites(recording),
        )
        self._recording = recording

    def put_governor(self, kind: str, key: ObjectKey, governor: Governor | None, annotations: Labels = NOTHING) -> None:
        self._recording.write(lines.PutGovernor.of(kind, key, governor, annotations))
        super().put_governor(kind, key, governor, annotations)

    def put_pod(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        self._recording.write(lines.PutPod(key, new, old if new is None else None))
        super().put_pod(key, old, new)

    def put_workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        self._recording.write(lines.PutWorkload(kind, key, _raw(new), _raw(old if new is None else None)))
        super().put_workload(kind, key, old, new)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        limit_ranges = tuple(ranges)
        self._recording.write(lines.PutLimits(namespace, limit_ranges))
        super().put_limits(namespace, limit_ranges)

    def put_node(self, name: str, node: Node | None) -> None:
        self._recording.write(lines.PutNode(name, node))
        super().put_node(name, node)

    def put_namespace(self, name: str, annotations: Labels) -> None:
        self._recording.write(lines.PutNamespace(name, annotations))
        super().put_namespace(name, annotations)

    def put_hpa(self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        self._recording.write(lines.PutHpa(key, new, old if new is None else None))
        super().put_hpa(key, old, new)

    def put_freeze_config(self, data: Mapping[str, str] | None) -> None:
        self._recording.write(lines.PutFreeze(data))
        super().put_freeze_config(data)

    def put_scales(self, scales: Mapping[TargetRef, ScaleInfo]) -> None:
        self._recording.write(lines.PutScales(tuple(scales.items())))
        super().put_scales(scales)


class RecordedUpdateMemory(UpdateMemory):
    """The memory of plans, with each change and each decision recorded."""

    def __init__(self, recording: UpdaterRecording, cache: WorkloadCache, settings: UpdateSettings) -> None:
        super().__init__(cache, settings)
        self._recording = recording

    def take_shard(self, forgotten: Collection[WorkloadKey], hourly: int | None) -> None:
        self._recording.write(lines.ShardTaken(tuple(forgotten), hourly))
        super().take_shard(forgotten, hourly)

    def build_batch(self, workloads: Iterable[WorkloadKey], now: float) -> PlanningBatch:
        plannable = tuple(self._cache.select_plannable(workloads))
        self._recording.write(lines.UpdatesPlanned(plannable, now))
        return super().build_batch(plannable, now)

    def filter_evictions(self, plans: Iterable[PlanResult], *, is_admission_live: bool) -> list[PlanResult]:
        permitted = super().filter_evictions(plans, is_admission_live=is_admission_live)
        self._recording.write(UpdatesDecided.of(permitted, sized=is_admission_live))
        self._recording.flush()
        return permitted

    def record_action_end(self, action: Action, now: float, *, is_applied: bool) -> None:
        self._recording.write(lines.ActionEnded(action, now, is_applied))
        super().record_action_end(action, now, is_applied=is_applied)

    def record_results(self, workload: WorkloadKey, outcomes: Iterable[ActionResult], now: float) -> None:
        results = tuple(outcomes)
        self._recording.write(lines.PlanExecuted(workload, results, now))
        super().record_results(workload, results, now)


def _raw(obj: KubeObject | None) -> msgspec.Raw:
    return msgspec.Raw(encode_payload(obj))
