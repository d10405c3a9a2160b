"""What would the Hvpa controller decide, told what was collected? Its own plan, as after a restart.

What the controller remembers between two looks is known to its process alone: windows begin with what runs now, and no
wish of an HPA is read, because nobody can tell whether it was acted on.
"""

from __future__ import annotations

import msgspec

from trellis.api.hvpa import Hvpa, HvpaStatus
from trellis.api.kube.scaling import Scale, ScaleSpec
from trellis.base.reason import Reason
from trellis.core.explain.neighbours import Neighbours
from trellis.core.explain.settings import Components
from trellis.core.hvpa import HvpaSettings, Meaning, Plan, View, plan, recalled
from trellis.core.hvpa.reading import HVPA_REFUSED, meaning_of
from trellis.core.hvpa.surroundings import Surroundings
from trellis.core.hvpa.viewing import view_of
from trellis.core.model.collected import Collected
from trellis.core.model.owners import TargetRef
from trellis.core.model.selection import select
from trellis.core.model.target_problems import TargetProblem


class Scaled(msgspec.Struct, frozen=True):
    """One Hvpa and what is decided about it; without a plan, `problem` says why there is none."""

    hvpa: Hvpa
    target: TargetRef
    around: Surroundings
    meaning: Meaning | None = None
    view: View | None = None
    plan: Plan | None = None
    pods: tuple[str, ...] = ()
    problem: Reason | None = None
    details: str = ""


def scaled_in(collected: Collected, namespace: str, components: Components, now: float) -> dict[str, Scaled]:
    """Plans for all Hvpas of a namespace, by name."""
    neighbours = Neighbours(collected, namespace)
    figures = components.hvpas
    return {each.metadata.name: _scaled(collected, each, neighbours, figures, now) for each in neighbours.hvpas}


def _scaled(collected: Collected, hvpa: Hvpa, neighbours: Neighbours, figures: HvpaSettings, now: float) -> Scaled:
    around = neighbours.around(hvpa)
    reference, namespace = hvpa.spec.target_ref, hvpa.metadata.namespace
    target = TargetRef(namespace, reference.api_version, reference.kind, reference.name)
    meaning, refused = meaning_of(hvpa)
    if meaning is None:
        return Scaled(hvpa, target, around, problem=HVPA_REFUSED, details=refused)
    selector = select(target, collected.owners)
    if isinstance(selector, TargetProblem):
        return Scaled(hvpa, target, around, meaning, problem=selector.reason, details=selector.message)
    pods = neighbours.pods(selector)
    status = hvpa.status or HvpaStatus()
    view = view_of(
        hvpa,
        meaning,
        Scale(spec=ScaleSpec(_replicas(collected, target, status, len(pods)))),
        pods,
        around,
        wish=hvpa.spec.replicas,
        published=status.recommendation,
        memory=recalled(hvpa.status, now),
    )
    names = tuple(each.metadata.name for each in pods)
    return Scaled(hvpa, target, around, meaning, view, plan(view, now, figures), names)


def _replicas(collected: Collected, target: TargetRef, status: HvpaStatus, pods: int) -> int:
    """The target's count. Of a kind that nobody knows, the Hvpa's own status mirrors it."""
    if not target.is_well_known:
        return pods if status.replicas is None else status.replicas
    spec = getattr(collected.owners.find(target), "spec", None)
    count: int | None = getattr(spec, "replicas", None)
    return 1 if count is None else count
