"""What becomes of a pod, and why? The verdict of its plan, with what it has, what it should have and its boosts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.kube.pods import Pod
from trellis.base.reason import Reason
from trellis.core.admission.decisions import POD_NOT_GOVERNED
from trellis.core.boost.memory import read_memory
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Boost, Budget, PodPart, Sized, Step
from trellis.core.explain.otherwise import otherwise
from trellis.core.explain.wording import amount_text, amounts_text, time_text
from trellis.core.recommend.capping import Advice
from trellis.core.resize.governed import Workload
from trellis.core.resize.inplace import Way
from trellis.core.resize.planning import Planned
from trellis.core.resize.verdicts import Verdict
from trellis.core.resize.views import PodView
from trellis.core.sizing.sizes import ContainerSize

ONLY_RECOMMENDS = Reason(
    "OnlyRecommends", "The updater has no say about the pod: the object that governs it only recommends."
)
PLAN_FAILED = Reason("PlanFailed", "The updater could not make a plan for the workload, so that it is left alone.")


class Planful(msgspec.Struct, frozen=True):
    """A pod's verdict, and the plan that it stands in."""

    workload: Workload
    planned: Planned
    verdict: Verdict


def verdicts_of(evidence: Evidence) -> Iterator[Planful]:
    """All verdicts on the pods of the namespace."""
    for workload, planned in evidence.updated.plans.items():
        for verdict in planned.plan.verdicts:
            yield Planful(workload, planned, verdict)


def pod_part(evidence: Evidence, found: Planful) -> PodPart:
    """What is said of a pod that has a verdict."""
    verdict, planned, updated = found.verdict, found.planned, evidence.updated
    view = updated.views[verdict.pod.uid]
    governor = planned.gathered.governor
    need = verdict.need
    budget = verdict.budget
    return PodPart(
        name=verdict.pod.name,
        by=f"{governor.kind} {governor.name}" if governor.is_object else "",
        way=verdict.way.value,
        reason=verdict.reason,
        node=view.node,
        details=verdict.details,
        need=need.reason if need is not None else None,
        difference=need.difference if need is not None else verdict.apart,
        warnings=verdict.warnings,
        next_look=time_text(verdict.look),
        containers=tuple(_containers(evidence, view, governor.advice)),
        otherwise=otherwise(verdict, planned, view, evidence.components, evidence.now),
        boosts=tuple(_boosts(evidence, view)),
        budget=Budget(budget.configured, budget.living, budget.ready, budget.tolerated, budget.minimum)
        if budget is not None
        else None,
    )


def without_verdict(evidence: Evidence, pod: Pod) -> PodPart:
    """What is said of a pod that no plan is about."""
    name = pod.metadata.name
    governor = evidence.recommended.roster.governance.governor.get(name, "")
    failed = next(
        (
            each
            for each in evidence.updated.plans.values()
            if each.error is not None and any(one.metadata.name == name for one in each.gathered.pods)
        ),
        None,
    )
    reason = ONLY_RECOMMENDS if governor else POD_NOT_GOVERNED
    return PodPart(
        name=name,
        by=f"VerticalPodAutoscaler {governor}" if governor else "",
        way=Way.LEAVE.value,
        reason=PLAN_FAILED if failed is not None else reason,
        node=pod.spec.node_name,
        details=type(failed.error).__name__ if failed is not None else "",
        containers=tuple(_as_it_is(PodView.of(pod))),
    )


def _containers(evidence: Evidence, view: PodView, advice: tuple[Advice, ...]) -> Iterator[Sized]:
    size = evidence.updated.sizes[view.ref.uid]
    recommended = {each.container: each for each in advice}
    for container in view.in_force.containers:
        found = size.find(container.name)
        given = recommended.get(container.name)
        yield Sized(
            container.name,
            amounts_text(container.requests),
            amounts_text(found.requests) if found is not None else {},
            tuple(_steps(given, found)) if found is not None and given is not None else (),
        )


def _steps(advice: Advice, size: ContainerSize) -> Iterator[Step]:
    """From the recommendation to the size, a step for each note."""
    now = dict(advice.target)
    for note in size.notes:
        resource, before = note.resource, now.get(note.resource)
        now[resource] = note.request
        yield Step(resource, note.reason, amount_text(resource, before), amount_text(resource, note.request))


def _boosts(evidence: Evidence, view: PodView) -> Iterator[Boost]:
    memory = read_memory(view.pod.metadata.annotations)
    for phase in evidence.updated.phases[view.ref.uid].containers:
        had = memory.get(phase.container)
        before = {}
        if had is not None and not had.problem:
            before = {"requests": amounts_text(had.requests), "limits": amounts_text(had.limits)}
        yield Boost(
            phase.container,
            phase.phase.value,
            phase.reason,
            time_text(phase.at),
            {name: amounts for name, amounts in before.items() if amounts},
        )


def _as_it_is(view: PodView) -> Iterator[Sized]:
    return (Sized(each.name, amounts_text(each.requests)) for each in view.in_force.containers)
