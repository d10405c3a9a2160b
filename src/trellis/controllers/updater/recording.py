"""Records what the updater's state is told, so that its decisions can be replayed.

Each line is written before the state takes the change in, on the event loop and therefore in the order of changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

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
from trellis.core.resize.planner import PlanningBatch, PlanResult
from trellis.core.resize.pod_decisions import Action
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult
from trellis.core.resize.state.memory import UpdateMemory
from trellis.core.resize.state.ownership import WorkloadKey
from trellis.core.resize.state.pending_writes import PendingPodWrites
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.core.sizing.governors import Governor
from trellis.runtime.recorder import Recorder


class UpdaterRecording:
    """Lines of the updater, one after another."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def write(self, line: msgspec.Struct) -> None:
        """Add a line."""
        self._recorder.write(lines.LINE_NAMES[type(line)], line)

    def flush(self) -> None:
        """Keep what was written so far, whatever becomes of the process."""
        self._recorder.flush()


class RecordedPodWrites(PendingPodWrites):
    """What we have done, written down."""

    def __init__(self, tape: UpdaterRecording) -> None:
        super().__init__()
        self._tape = tape

    def evicted(self, uid: str, until: float = math.inf) -> None:
        """A pod was evicted, or perhaps."""
        self._tape.write(lines.PodEvicted(uid, None if until == math.inf else until))
        super().evicted(uid, until)

    def written(self, uid: str, resource_version: str) -> None:
        """A pod was changed."""
        self._tape.write(lines.PodWritten(uid, resource_version))
        super().written(uid, resource_version)


class RecordedWorkloadCache(WorkloadCache):
    """What is known, written down as it comes."""

    def __init__(self, tape: UpdaterRecording, knows_rooms: bool) -> None:
        super().__init__(knows_rooms=knows_rooms)
        self.echoes = RecordedPodWrites(tape)
        self._tape = tape

    def put_governor(self, kind: str, key: ObjectKey, governor: Governor | None, annotations: Labels = NOTHING) -> None:
        """An object that sizes pods."""
        self._tape.write(lines.PutGovernor.of(kind, key, governor, annotations))
        super().put_governor(kind, key, governor, annotations)

    def put_pod(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """A pod."""
        self._tape.write(lines.PutPod(key, new, old if new is None else None))
        super().put_pod(key, old, new)

    def put_workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller of a well-known kind."""
        self._tape.write(lines.PutWorkload(kind, key, _raw(new), _raw(old if new is None else None)))
        super().put_workload(kind, key, old, new)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """All LimitRanges of a namespace."""
        found = tuple(ranges)
        self._tape.write(lines.PutLimits(namespace, found))
        super().put_limits(namespace, found)

    def put_node(self, name: str, node: Node | None) -> None:
        """A node."""
        self._tape.write(lines.PutNode(name, node))
        super().put_node(name, node)

    def put_namespace(self, name: str, annotations: Labels) -> None:
        """What is written on a namespace."""
        self._tape.write(lines.PutNamespace(name, annotations))
        super().put_namespace(name, annotations)

    def put_hpa(self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        """An HPA."""
        self._tape.write(lines.PutHpa(key, new, old if new is None else None))
        super().put_hpa(key, old, new)

    def put_switch(self, data: Mapping[str, str] | None) -> None:
        """What freezes the cluster."""
        self._tape.write(lines.PutFreeze(data))
        super().put_switch(data)

    def put_scales(self, found: Mapping[TargetRef, ScaleInfo]) -> None:
        """All answers of scales."""
        self._tape.write(lines.PutScales(tuple(found.items())))
        super().put_scales(found)


class RecordedUpdateMemory(UpdateMemory):
    """What is remembered, written down as it comes, and with it what was decided."""

    def __init__(self, tape: UpdaterRecording, gathering: WorkloadCache, settings: UpdateSettings) -> None:
        super().__init__(gathering, settings)
        self._tape = tape

    def batch(self, workloads: Iterable[WorkloadKey], now: float) -> PlanningBatch:
        """Plans are about to be made."""
        wanted = tuple(self._cache.plannable(workloads))
        self._tape.write(lines.UpdatesPlanned(wanted, now))
        return super().batch(wanted, now)

    def settled(self, plans: Iterable[PlanResult], *, sized: bool) -> list[PlanResult]:
        """Plans were made."""
        settled = super().settled(plans, sized=sized)
        self._tape.write(UpdatesDecided.of(settled, sized=sized))
        self._tape.flush()
        return settled

    def ended(self, action: Action, now: float, *, done: bool) -> None:
        """An action is over."""
        self._tape.write(lines.ActionEnded(action, now, done))
        super().ended(action, now, done=done)

    def carried(self, workload: WorkloadKey, outcomes: Iterable[ActionResult], now: float) -> None:
        """A plan has been carried out."""
        found = tuple(outcomes)
        self._tape.write(lines.PlanExecuted(workload, found, now))
        super().carried(workload, found, now)


def _raw(found: KubeObject | None) -> msgspec.Raw:
    return msgspec.Raw(encode_payload(found))
