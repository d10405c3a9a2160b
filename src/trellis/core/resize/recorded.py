"""What is in a recording of the updater? Everything it was told, in order, and everything it decided, line by line.

What is put there is what `Gathering` and `Memory` were told; whoever tells them the same again in the same order gets
the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from trellis.core.model.keys import Key
from trellis.core.model.owners import ScaleAnswer, TargetRef
from trellis.core.resize.actions import Action
from trellis.core.resize.attempts import Outcome
from trellis.core.resize.decisions import Decided
from trellis.core.resize.governed import Workload
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.governors import Governor

WORKLOAD_KINDS: Final[Mapping[str, type[KubeObject]]] = {
    each.__name__: each
    for each in (CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet)
}


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of what a line says."""


class Began(_Line, frozen=True):
    """By which figures; `rooms` is whether it is known what is taken on nodes."""

    settings: UpdateSettings
    rooms: bool


class PutGovernor(_Line, frozen=True):
    """An object as it was compiled; without a governor it sizes no pods. JSON has no NaN, which is `undated`."""

    kind: str
    key: Key
    governor: Governor | None = None
    annotations: Labels = NOTHING
    undated: bool = False

    @classmethod
    def of(cls, kind: str, key: Key, governor: Governor | None, annotations: Labels) -> PutGovernor:
        """What is told of an object."""
        if governor is None or not math.isnan(governor.claim.created):
            return cls(kind, key, governor, annotations)
        return cls(kind, key, _created(governor, 0.0), annotations, undated=True)

    @property
    def compiled(self) -> Governor | None:
        """The governor that was told of."""
        return _created(self.governor, math.nan) if self.governor is not None and self.undated else self.governor


class PutPod(_Line, frozen=True):
    """A pod; `old` is told only of one that is gone, because it may be newer than what was last put."""

    key: Key
    new: Pod | None = None
    old: Pod | None = None


class PutWorkload(_Line, frozen=True):
    """A controller, as JSON of an object of its kind or null; `old` as that of a pod."""

    kind: str
    key: Key
    new: msgspec.Raw
    old: msgspec.Raw


class PutLimits(_Line, frozen=True):
    """All LimitRanges of a namespace."""

    namespace: str
    ranges: tuple[LimitRange, ...] = ()


class PutNode(_Line, frozen=True):
    """A node."""

    name: str
    node: Node | None = None


class PutNamespace(_Line, frozen=True):
    """What is written on a namespace."""

    name: str
    annotations: Labels = NOTHING


class PutHpa(_Line, frozen=True):
    """An HPA; `old` as that of a pod."""

    key: Key
    new: HorizontalPodAutoscaler | None = None
    old: HorizontalPodAutoscaler | None = None


class PutSwitch(_Line, frozen=True):
    """The ConfigMap that freezes the cluster."""

    data: Mapping[str, str] | None = None


class PutScales(_Line, frozen=True):
    """All answers of scales."""

    answers: tuple[tuple[TargetRef, ScaleAnswer], ...] = ()


class Evicted(_Line, frozen=True):
    """A pod was evicted, or perhaps; then `until` says when its end will have been seen."""

    uid: str
    until: float | None = None


class Written(_Line, frozen=True):
    """A pod was changed, and has this version since."""

    uid: str
    resource_version: str


class Looked(_Line, frozen=True):
    """Plans are made for these, at that time."""

    workloads: tuple[Workload, ...]
    now: float


class Counted(_Line, frozen=True):
    """Some of the pods that had changed were counted on their nodes."""


class Ended(_Line, frozen=True):
    """An action is over, or was not tried."""

    action: Action
    now: float
    done: bool


class Carried(_Line, frozen=True):
    """A plan has been carried out."""

    workload: Workload
    outcomes: tuple[Outcome, ...]
    now: float


# What each line is called.
KINDS: Final[Mapping[str, type[Any]]] = {
    "began": Began,
    "governor": PutGovernor,
    "pod": PutPod,
    "workload": PutWorkload,
    "limits": PutLimits,
    "node": PutNode,
    "namespace": PutNamespace,
    "hpa": PutHpa,
    "switch": PutSwitch,
    "scales": PutScales,
    "evicted": Evicted,
    "written": Written,
    "looked": Looked,
    "counted": Counted,
    "ended": Ended,
    "carried": Carried,
    "decided": Decided,
}
NAMES: Final[Mapping[type[Any], str]] = {kind: name for name, kind in KINDS.items()}


def _created(governor: Governor, at: float) -> Governor:
    return msgspec.structs.replace(governor, claim=msgspec.structs.replace(governor.claim, created=at))
