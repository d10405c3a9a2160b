"""Lines of a recording of the updater: all inputs of its state, in order, and all decisions.

The inputs are the calls of `WorkloadCache` and `UpdateMemory`; the same calls in the same order lead to the same
decisions. Reasons are given by their codes: another wording is no other decision. Decisions are in the order of the
plans, and nothing is in an order that only one process has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.core.resize.actions import Action, PodDecision
from trellis.core.resize.planner import PlanResult
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.sizing.governors import Governor


class RecordedPodDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision about one pod, by the codes of its reasons."""

    pod: str
    uid: str
    kind: str
    reason: str
    need: str = ""
    difference: float = 0.0
    details: str = ""
    warnings: tuple[str, ...] = ()
    requeue_at: float | None = None

    @classmethod
    def of(cls, decision: PodDecision) -> RecordedPodDecision:
        """Record a decision by the codes of its reasons."""
        pod, need = decision.pod, decision.need
        return cls(
            pod.name,
            pod.uid,
            decision.kind.value,
            decision.reason.code,
            need.reason.code if need is not None else "",
            need.difference if need is not None else 0.0,
            decision.details,
            tuple(warning.code for warning in decision.warnings),
            decision.requeue_at,
        )


class RecordedUpdatePlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, or the kind of error that came instead of it."""

    workload: WorkloadKey
    decisions: tuple[RecordedPodDecision, ...] = ()
    actions: tuple[Action, ...] = ()
    requeue_at: float | None = None
    error: str = ""

    @classmethod
    def of(cls, planned: PlanResult) -> RecordedUpdatePlan:
        """Record the plan of a workload."""
        plan, error = planned.plan, planned.error
        return cls(
            planned.snapshot.workload,
            tuple(map(RecordedPodDecision.of, plan.decisions)),
            plan.actions,
            plan.requeue_at,
            type(error).__name__ if error is not None else "",
        )


class UpdatesDecided(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last plans, as they are carried out; `sized` is the argument of `UpdateMemory.filter_evictions`."""

    sized: bool
    plans: tuple[RecordedUpdatePlan, ...]

    @classmethod
    def of(cls, plans: Iterable[PlanResult], *, sized: bool) -> UpdatesDecided:
        """Record the plans of several workloads."""
        return cls(sized, tuple(map(RecordedUpdatePlan.of, plans)))


WORKLOAD_KINDS: Final[Mapping[str, type[KubeObject]]] = {
    kind.__name__: kind
    for kind in (CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet)
}


class _UpdaterLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of the lines of the updater."""


class UpdaterStarted(_UpdaterLine, frozen=True):
    """The settings of the updater; `has_headroom` is whether it tracks the headroom of nodes."""

    settings: UpdateSettings
    has_headroom: bool


class PutGovernor(_UpdaterLine, frozen=True):
    """A compiled object; without a governor it sizes no pods. `undated` stands for a creation time of NaN."""

    kind: str
    key: ObjectKey
    governor: Governor | None = None
    annotations: Labels = NOTHING
    undated: bool = False

    @classmethod
    def of(cls, kind: str, key: ObjectKey, governor: Governor | None, annotations: Labels) -> PutGovernor:
        """The line of an object."""
        if governor is None or not math.isnan(governor.claim.created):
            return cls(kind, key, governor, annotations)
        return cls(kind, key, _with_creation_time(governor, 0.0), annotations, undated=True)

    @property
    def compiled(self) -> Governor | None:
        """The governor of a line."""
        return (
            _with_creation_time(self.governor, math.nan)
            if self.governor is not None and self.undated
            else self.governor
        )


class PutPod(_UpdaterLine, frozen=True):
    """A pod; `old` is recorded for a deleted pod only, because it may be newer than the pod last put."""

    key: ObjectKey
    new: Pod | None = None
    old: Pod | None = None


class PutWorkload(_UpdaterLine, frozen=True):
    """A controller, as JSON of an object of its kind or null; `old` as that of a pod."""

    kind: str
    key: ObjectKey
    new: msgspec.Raw
    old: msgspec.Raw


class PutLimits(_UpdaterLine, frozen=True):
    """All LimitRanges of a namespace."""

    namespace: str
    ranges: tuple[LimitRange, ...] = ()


class PutNode(_UpdaterLine, frozen=True):
    """A node, or its removal."""

    name: str
    node: Node | None = None


class PutNamespace(_UpdaterLine, frozen=True):
    """The annotations of a namespace."""

    name: str
    annotations: Labels = NOTHING


class PutHpa(_UpdaterLine, frozen=True):
    """An HPA; `old` as that of a pod."""

    key: ObjectKey
    new: HorizontalPodAutoscaler | None = None
    old: HorizontalPodAutoscaler | None = None


class PutFreeze(_UpdaterLine, frozen=True):
    """The ConfigMap that freezes the cluster."""

    data: Mapping[str, str] | None = None


class PutScales(_UpdaterLine, frozen=True):
    """All scales that were read."""

    scales: tuple[tuple[TargetRef, ScaleInfo], ...] = ()


class PodEvicted(_UpdaterLine, frozen=True):
    """A pod was evicted; `until` is set if the result is uncertain, and is when its end counts as observed."""

    uid: str
    until: float | None = None


class PodWritten(_UpdaterLine, frozen=True):
    """A pod was patched, and has this version since."""

    uid: str
    resource_version: str


class UpdatesPlanned(_UpdaterLine, frozen=True):
    """Plans are made for these workloads, at that time."""

    workloads: tuple[WorkloadKey, ...]
    now: float


class HeadroomCounted(_UpdaterLine, frozen=True):
    """Some of the changed pods were counted on their nodes."""


class ActionEnded(_UpdaterLine, frozen=True):
    """An action has ended, or was not executed."""

    action: Action
    now: float
    is_applied: bool


class PlanExecuted(_UpdaterLine, frozen=True):
    """A plan has been executed."""

    workload: WorkloadKey
    outcomes: tuple[ActionResult, ...]
    now: float


class ShardTaken(_UpdaterLine, frozen=True):
    """Other replicas serve these workloads, and this is the part of the cluster's hourly budget."""

    forgotten: tuple[WorkloadKey, ...] = ()
    hourly: int | None = None


# The recorded names of lines.
LINE_TYPES: Final[Mapping[str, type[Any]]] = {
    START_LINE: UpdaterStarted,
    "governor": PutGovernor,
    "pod": PutPod,
    "workload": PutWorkload,
    "limits": PutLimits,
    "node": PutNode,
    "namespace": PutNamespace,
    "hpa": PutHpa,
    "freeze": PutFreeze,
    "scales": PutScales,
    "evicted": PodEvicted,
    "written": PodWritten,
    INPUT_LINE: UpdatesPlanned,
    "headroom": HeadroomCounted,
    "action": ActionEnded,
    "executed": PlanExecuted,
    "shard": ShardTaken,
    DECISION_LINE: UpdatesDecided,
}
LINE_NAMES: Final[Mapping[type[Any], str]] = {kind: name for name, kind in LINE_TYPES.items()}


def _with_creation_time(governor: Governor, at: float) -> Governor:
    return msgspec.structs.replace(governor, claim=msgspec.structs.replace(governor.claim, created=at))
