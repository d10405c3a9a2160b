"""The part about a pod: the updater's decision, with the resources it has and should have, and its boosts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.kube.pods import Pod
from trellis.base.reasons import Reason
from trellis.core.admission.decisions import POD_NOT_GOVERNED
from trellis.core.boost.annotation import read_pre_boost_resources
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.counterfactuals import find_counterfactuals
from trellis.core.explain.explanation.document import (
    AmountChangePart,
    BoostPart,
    ContainerSizePart,
    DisruptionBudgetPart,
    PodPart,
)
from trellis.core.explain.explanation.values import format_amount, format_amounts, format_timestamp
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.resize.actions import DecisionKind, PodDecision
from trellis.core.resize.planner import PlanResult
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.view import PodView
from trellis.core.sizing.sizes import ContainerSize

ONLY_RECOMMENDS = Reason(
    "OnlyRecommends", "The updater does not change the pod: the object that governs it only recommends."
)
PLAN_FAILED = Reason("PlanFailed", "The updater could not plan for the workload, and does not change it.")


class PlannedPod(msgspec.Struct, frozen=True):
    """The decision about a pod, and the plan that made it."""

    workload: WorkloadKey
    planned: PlanResult
    verdict: PodDecision


def list_pod_decisions(evidence: Evidence) -> Iterator[PlannedPod]:
    """All decisions about the pods of the namespace."""
    for workload, planned in evidence.updated.plans.items():
        for decision in planned.plan.decisions:
            yield PlannedPod(workload, planned, decision)


def build_pod_part(evidence: Evidence, planned_pod: PlannedPod) -> PodPart:
    """The part about a pod with a decision."""
    decision, planned, updated = planned_pod.verdict, planned_pod.planned, evidence.updated
    view = updated.views[decision.pod.uid]
    governor = planned.snapshot.governor
    need = decision.need
    budget = decision.budget
    return PodPart(
        name=decision.pod.name,
        by=f"{governor.kind} {governor.name}" if governor.is_object else "",
        way=decision.kind.value,
        reason=decision.reason,
        node=view.node,
        details=decision.details,
        need=need.reason if need is not None else None,
        difference=need.difference if need is not None else decision.difference,
        warnings=decision.warnings,
        next_check=format_timestamp(decision.requeue_at),
        containers=tuple(_containers(evidence, view, governor.advice)),
        counterfactuals=find_counterfactuals(decision, planned, view, evidence.components, evidence.now),
        boosts=tuple(_boosts(evidence, view)),
        budget=DisruptionBudgetPart(budget.configured, budget.living, budget.ready, budget.tolerated, budget.minimum)
        if budget is not None
        else None,
    )


def build_undecided_pod_part(evidence: Evidence, pod: Pod) -> PodPart:
    """The part about a pod that is in no plan."""
    name = pod.metadata.name
    governor = evidence.recommended.namespace_governance.governance.governor.get(name, "")
    failed = next(
        (
            result
            for result in evidence.updated.plans.values()
            if result.error is not None and any(member.metadata.name == name for member in result.snapshot.pods)
        ),
        None,
    )
    reason = ONLY_RECOMMENDS if governor else POD_NOT_GOVERNED
    return PodPart(
        name=name,
        by=f"VerticalPodAutoscaler {governor}" if governor else "",
        way=DecisionKind.LEAVE.value,
        reason=PLAN_FAILED if failed is not None else reason,
        node=pod.spec.node_name,
        details=type(failed.error).__name__ if failed is not None else "",
        containers=tuple(_list_current_sizes(PodView.from_pod(pod))),
    )


def _containers(
    evidence: Evidence, view: PodView, advice: tuple[RecommendedResources, ...]
) -> Iterator[ContainerSizePart]:
    size = evidence.updated.sizes[view.ref.uid]
    recommended = {recommendation.container: recommendation for recommendation in advice}
    for container in view.in_force.containers:
        sized = size.find(container.name)
        recommendation = recommended.get(container.name)
        yield ContainerSizePart(
            container.name,
            format_amounts(container.requests),
            format_amounts(sized.requests) if sized is not None else {},
            tuple(_steps(recommendation, sized)) if sized is not None and recommendation is not None else (),
        )


def _steps(advice: RecommendedResources, size: ContainerSize) -> Iterator[AmountChangePart]:
    """From the recommendation to the size, a step for each note."""
    current = dict(advice.target)
    for note in size.notes:
        resource, before = note.resource, current.get(note.resource)
        current[resource] = note.request
        yield AmountChangePart(
            resource, note.reason, format_amount(resource, before), format_amount(resource, note.request)
        )


def _boosts(evidence: Evidence, view: PodView) -> Iterator[BoostPart]:
    memory = read_pre_boost_resources(view.pod.metadata.annotations)
    for phase in evidence.updated.phases[view.ref.uid].containers:
        recorded = memory.get(phase.container)
        before = {}
        if recorded is not None and not recorded.problem:
            before = {"requests": format_amounts(recorded.requests), "limits": format_amounts(recorded.limits)}
        yield BoostPart(
            phase.container,
            phase.phase.value,
            phase.reason,
            format_timestamp(phase.ends_at),
            {name: amounts for name, amounts in before.items() if amounts},
        )


def _list_current_sizes(view: PodView) -> Iterator[ContainerSizePart]:
    return (
        ContainerSizePart(container.name, format_amounts(container.requests)) for container in view.in_force.containers
    )
