"""Decisions on running pods and the actions that execute them, as data.

An action names the pod as it was observed, and what it should become. The executor returns it with its result
(`state.attempts`), so that an action also holds what the next plan needs to know of it. Recordings keep the names that
fields had first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from trellis.base.reasons import Reason
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.update_need import UpdateNeed

_NO_NODE: ResourceAmounts = {}


class DecisionKind(StrEnum):
    """The kind of decision about a pod in one plan."""

    RESIZE = "Resize"
    EVICT = "Evict"
    UNBOOST = "Unboost"
    WAIT = "Wait"
    LEAVE = "Leave"


class PodRef(msgspec.Struct, frozen=True):
    """A pod, identified by its uid as well."""

    namespace: str
    name: str
    uid: str


class ControllerKey(msgspec.Struct, frozen=True):
    """The direct controller of a pod. Its pods share one disruption budget."""

    kind: str
    name: str


class ResizePod(msgspec.Struct, frozen=True, tag=True):
    """Patch `pods/resize`. `requests` are the new requests by container."""

    pod: PodRef
    patch: tuple[PatchOp, ...]
    requests: Mapping[str, ResourceAmounts]
    node_allocatable: ResourceAmounts = _NO_NODE
    restarts: bool = False
    unboosts: bool = False


class UnmarkPod(msgspec.Struct, frozen=True, tag=True):
    """Remove the annotations of boosts that have ended."""

    pod: PodRef
    patch: tuple[PatchOp, ...]


class EvictPod(msgspec.Struct, frozen=True, tag=True):
    """Evict the pod, PodDisruptionBudgets permitting.

    `requests` are those of the pod by container. `repeats_useless`: the pod was created after an eviction that changed
    nothing. `new_pods` are the uids of pods that are as new as this decision; `created` is when the pod was created.
    """

    pod: PodRef
    controller: ControllerKey
    requests: Mapping[str, ResourceAmounts]
    repeats_useless: bool = False
    new_pods: tuple[str, ...] = ()
    created: float | None = None


Action: TypeAlias = ResizePod | UnmarkPod | EvictPod


class ReplicaBudgetStatus(msgspec.Struct, frozen=True):
    """A disruption budget: configured, living and Ready pods, how many may be out of service, how many must live."""

    configured: int
    living: int
    ready: int
    tolerated: int
    minimum: int


class PodDecision(msgspec.Struct, frozen=True):
    """The decision about one pod in one plan.

    `need` says why the pod should change, if it should; `warnings` apply whatever the decision is. `requeue_at` is when
    the decision may change without an event before. `difference` is how far requests are off where that is no need, and
    `budget` the budget that refused a disruption; explanations read both.
    """

    pod: PodRef
    kind: DecisionKind
    reason: Reason
    need: UpdateNeed | None = None
    details: str = ""
    warnings: tuple[Reason, ...] = ()
    requeue_at: float | None = None
    difference: float = 0.0
    budget: ReplicaBudgetStatus | None = None


class PodUpdate(msgspec.Struct, frozen=True):
    """A decision and its actions."""

    decision: PodDecision
    actions: tuple[Action, ...] = ()
