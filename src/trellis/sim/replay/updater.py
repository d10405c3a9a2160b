"""Replays a recording of the updater: what it observed, in the same order.

The same parts of the core decide as in the live process, without threads, clocks and connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload
from trellis.core.cluster.store import ObjectKey
from trellis.core.recording import updater as lines
from trellis.core.recording.updater import UpdatesDecided
from trellis.core.resize.planner import PlanResult, UpdateMemory, UpdatePlanner
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.sim.replay.decisions import ReplayedDecision

_NULL: Final = b"null"


def replay_updater(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ReplayedDecision]:
    """Every recorded decision beside the one that is made now; raises `InvalidRecording`."""
    replay: _UpdaterReplay | None = None
    for name, data in recording:
        if name == HEADER:
            continue
        kind = lines.LINE_TYPES.get(name)
        if kind is None:
            raise InvalidRecording(name, "is not valid in a recording of the updater")
        line = decode_payload(data, kind)
        if isinstance(line, lines.UpdaterStarted):
            replay = _UpdaterReplay(line)
        elif replay is None:
            raise InvalidRecording(name, "comes before a line of kind start, which has the settings")
        elif isinstance(line, UpdatesDecided):
            yield ReplayedDecision(bytes(data), encode_payload(replay.decide(line)))
        else:
            replay.read_line(line)


class _UpdaterReplay:
    """An updater that reads a recording and writes nothing."""

    def __init__(self, start: lines.UpdaterStarted) -> None:
        settings = start.settings
        self._cache = WorkloadCache(tracks_headroom=start.has_headroom)
        self._memory = UpdateMemory(self._cache, settings)
        self._planner = UpdatePlanner(
            settings, NodeHeadroom(counts_all=settings.require_fit) if start.has_headroom else None
        )
        self._plans: list[PlanResult] = []
        self._pods: dict[ObjectKey, Pod] = {}
        self._workloads: dict[WorkloadKey, KubeObject] = {}
        self._hpas: dict[ObjectKey, HorizontalPodAutoscaler] = {}
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            lines.PutGovernor: self._put_governor,
            lines.PutPod: self._put_pod,
            lines.PutWorkload: self._put_workload,
            lines.PutHpa: self._put_hpa,
            lines.PutLimits: lambda line: self._cache.put_limits(line.namespace, line.ranges),
            lines.PutNode: lambda line: self._cache.put_node(line.name, line.node),
            lines.PutNamespace: lambda line: self._cache.put_namespace(line.name, line.annotations),
            lines.PutFreeze: lambda line: self._cache.put_freeze_config(line.data),
            lines.PutScales: lambda line: self._cache.put_scales(dict(line.scales)),
            lines.PodEvicted: self._expect_eviction,
            lines.PodWritten: lambda line: self._cache.pending_writes.expect_write(line.uid, line.resource_version),
            lines.UpdatesPlanned: self._read_pass,
            lines.HeadroomCounted: lambda _line: self._count_headroom(),
            lines.ActionEnded: lambda line: self._memory.record_action_end(
                line.action, line.now, is_applied=line.is_applied
            ),
            lines.ShardTaken: lambda line: self._memory.take_shard(line.forgotten, line.hourly),
            lines.PlanExecuted: lambda line: self._memory.record_results(line.workload, line.outcomes, line.now),
        }

    def read_line(self, line: object) -> None:
        """Take in what the updater observed."""
        self._handlers[type(line)](line)

    def decide(self, recorded: UpdatesDecided) -> UpdatesDecided:
        """Decide about the workloads of the last pass."""
        plans, self._plans = self._plans, []
        filtered = self._memory.filter_evictions(plans, is_admission_live=recorded.sized)
        for planned in filtered:
            self._memory.record_plan(planned)
        return UpdatesDecided.of(filtered, sized=recorded.sized)

    def _read_pass(self, line: lines.UpdatesPlanned) -> None:
        self._plans = self._planner.plan_all(self._memory.build_batch(line.workloads, line.now))

    def _count_headroom(self) -> None:
        self._planner.count_headroom()

    def _put_governor(self, line: lines.PutGovernor) -> None:
        self._cache.put_governor(line.kind, line.key, line.compiled, line.annotations)

    def _put_pod(self, line: lines.PutPod) -> None:
        before = self._pods.pop(line.key, None)
        self._cache.put_pod(line.key, before if line.new is not None else line.old, line.new)
        if line.new is not None:
            self._pods[line.key] = line.new

    def _put_workload(self, line: lines.PutWorkload) -> None:
        workload_key = (line.key[0], line.kind, line.key[1])
        kind = lines.WORKLOAD_KINDS.get(line.kind)
        if kind is None:
            raise InvalidRecording(line.kind, "is not a kind of controller that the updater watches")
        before = self._workloads.pop(workload_key, None)
        old, new = (
            decode_payload(payload, kind) if bytes(payload) != _NULL else None for payload in (line.old, line.new)
        )
        self._cache.put_workload(line.kind, line.key, before if new is not None else old, new)
        if new is not None:
            self._workloads[workload_key] = new

    def _put_hpa(self, line: lines.PutHpa) -> None:
        before = self._hpas.pop(line.key, None)
        self._cache.put_hpa(line.key, before if line.new is not None else line.old, line.new)
        if line.new is not None:
            self._hpas[line.key] = line.new

    def _expect_eviction(self, line: lines.PodEvicted) -> None:
        self._cache.pending_writes.expect_eviction(line.uid, math.inf if line.until is None else line.until)
