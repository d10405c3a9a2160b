"""Would a pod of this kind be changed, and from which moment on?

Pods of a workload are mostly alike: what one of them lacks, all of them lack. So one stands for all, and the decision
itself is asked about it (`candidates.consider`), once as if it were old and once more as if it had just run out of
memory. What differs from pod to pod is only when it becomes old, and whether it was killed.

A kind is kept as bytes: a tenth of what the values take, and quick to compare.
"""

from __future__ import annotations

import math
from enum import IntFlag
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod, PodOS, PodSpec
from trellis.core.resize.actions import GroupKey, PodRef
from trellis.core.resize.candidates import consider
from trellis.core.resize.eligibility import SIGNIFICANT_CHANGE
from trellis.core.resize.inplace import Way
from trellis.core.resize.requirements import permits_eviction
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.states import Resize, ResizeState
from trellis.core.resize.verdicts import Step
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.sizing.shapes import PodShape

_NOBODY: Final = PodRef("", "", "")
_SOMEBODY: Final = GroupKey("", "")


class Turn(IntFlag):
    """When a pod has its turn, as far as pod and object alone decide. `AGING` is a moment at which to look again."""

    NEVER = 0
    AGING = 1
    WHEN_OLD = 2
    AT_ONCE = 4


class _Kind(msgspec.Struct, frozen=True, array_like=True):
    """All of a pod that decides what becomes of it, while no boost and no resize is under way."""

    in_spec: PodShape
    in_force: PodShape
    observed: frozenset[str] | None
    os: PodOS | None


# Sets come in any order, and the same kind must be the same bytes.
_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_decoder: Final = msgspec.msgpack.Decoder(_Kind)


def is_left_alone(pod: PodView) -> bool:
    """Whether nothing is done to a pod, whatever it lacks."""
    return pod.over or (not pod.boosted and (pod.group is None or not pod.node))


def is_special(pod: PodView) -> bool:
    """Whether it takes a plan to say what becomes of a pod: its boost or its resize is under way."""
    return pod.boosted or pod.resize.state is not ResizeState.NONE


def kind_of(pod: PodView) -> bytes:
    """The kind of a pod that is neither special nor left alone."""
    return _encoder.encode(_Kind(pod.in_spec, pod.in_force, pod.observed, pod.pod.spec.os))


def turn_of(view: WorkloadView, kind: bytes, settings: UpdateSettings, *, killed: bool = False) -> Turn:
    """When pods of a kind have their turn; `killed` are those that soon ran out of memory, in whichever container."""
    pod = _standing_for(kind, killed=killed)
    # It started at 0, and so it is just old enough now.
    found = consider(view, pod, settings.lifetime, settings)
    if isinstance(found, Step):
        return Turn.NEVER
    acts = found.way is Way.RESIZE or (
        found.way is Way.EVICT and permits_eviction(view.governor.vpa, found.need.containers)
    )
    if found.need.reason is SIGNIFICANT_CHANGE:
        return Turn.AGING | Turn.WHEN_OLD if acts else Turn.AGING
    return Turn.AT_ONCE if acts else Turn.NEVER


def _standing_for(kind: bytes, *, killed: bool) -> PodView:
    read = _decoder.decode(kind)
    shape = read.in_spec
    return PodView(
        pod=Pod(spec=PodSpec(node_name="some", os=read.os)),
        ref=_NOBODY,
        group=_SOMEBODY,
        in_spec=shape,
        in_force=read.in_force,
        resize=Resize(),
        kills={each.name: -math.inf for each in (*shape.containers, *shape.plain_inits)} if killed else {},
        observed=read.observed,
        boosted=False,
        ready=True,
        unready=False,
        ready_since=0.0,
        started=0.0,
        created=None,
    )
