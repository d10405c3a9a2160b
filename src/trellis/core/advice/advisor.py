"""Advises on all surveyed workloads: advice on each container, sorted by severity and cost, and totals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from trellis.base.prices import Prices, choose_weights
from trellis.base.reasons import Severity
from trellis.core.advice.hpa_scale_points import find_moved_scale_points
from trellis.core.advice.policy import RESOURCES, AdvicePolicy
from trellis.core.advice.results import AdviceRow, AdviceTotals, ContainerAdvice, SurveyAdvice, WorkloadAdvice
from trellis.core.advice.sizes import (
    ORDER,
    REQUEST_UNKNOWN,
    AdviceByResource,
    ResourceAdvice,
    advise_request,
    apply_limit_ranges,
)
from trellis.core.advice.survey.model import ResourceAmount, SurveyedContainer, SurveyedWorkload, SurveyResult

Read = Callable[[ResourceAdvice], float]


def sum_advice(workloads: Sequence[WorkloadAdvice], prices: Prices) -> AdviceTotals:
    """The totals of some workloads, each times its pods."""
    counted = [(container, workload.pods) for workload in workloads for container in workload.containers]
    before = _sum_resource(counted, lambda change: change.requested_before)
    after = _sum_resource(counted, lambda change: change.requested)
    saved = _sum_resource(counted, lambda change: max(-change.difference, 0.0))
    short = _sum_resource(counted, lambda change: max(change.difference, 0.0))
    weights = choose_weights(prices)
    total_weight = _compute_monthly_cost(before, weights)
    return AdviceTotals(
        workloads=len(workloads),
        containers=len(counted),
        pods=sum(workload.pods for workload in workloads),
        before=before,
        after=after,
        saved=saved,
        short=short,
        money_before=_compute_monthly_cost(before, prices),
        money_after=_compute_monthly_cost(after, prices),
        money_saved=_compute_monthly_cost(saved, prices),
        money_short=_compute_monthly_cost(short, prices),
        saved_share=_compute_monthly_cost(saved, weights) / total_weight if total_weight else 0.0,
        reasons=dict(sorted(Counter(container.reason.code for container, _ in counted).items())),
    )


def _sum_resource(counted: Sequence[tuple[ContainerAdvice, int]], read: Read) -> ResourceAmount:
    return ResourceAmount(
        math.fsum(read(container.cpu) * pods for container, pods in counted),
        math.fsum(read(container.memory) * pods for container, pods in counted),
    )


def _compute_monthly_cost(amount: ResourceAmount, prices: Prices) -> float:
    return prices.cost_per_month(amount.cpu / 1000.0, amount.memory)


_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def advise(
    surveyed: SurveyResult,
    policy: AdvicePolicy,
    prices: Prices,
    now: float,
    *,
    parameters: Mapping[str, str] | None = None,
) -> SurveyAdvice:
    """Advice on everything that was surveyed; `parameters` are those of the recommender that are set."""
    workloads = tuple(_advise_workload(workload, policy, prices) for workload in surveyed.workloads)
    by_namespace: dict[str, list[WorkloadAdvice]] = {}
    for advice in workloads:
        by_namespace.setdefault(advice.surveyed.namespace, []).append(advice)
    namespaces = [(name, sum_advice(members, prices)) for name, members in by_namespace.items()]
    namespaces.sort(key=lambda entry: (-entry[1].money_saved, -entry[1].saved.cpu, entry[0]))
    return SurveyAdvice(
        surveyed=surveyed,
        policy=policy,
        prices=prices,
        now=now,
        workloads=workloads,
        rows=_build_rows(workloads, choose_weights(prices)),
        namespaces=tuple(namespaces),
        total=sum_advice(workloads, prices),
        parameters=dict(parameters or {}),
    )


def _advise_workload(workload: SurveyedWorkload, policy: AdvicePolicy, prices: Prices) -> WorkloadAdvice:
    advice = {
        (container.name, resource): advise_request(container, resource, policy, is_sized=workload.is_sized)
        for container in workload.containers
        for resource in RESOURCES
    }
    changes = apply_limit_ranges(workload, advice, policy)
    containers = tuple(_advise_container(container, workload, changes, prices) for container in workload.containers)
    return WorkloadAdvice(
        workload, _count_pods(workload), containers, tuple(find_moved_scale_points(workload, changes))
    )


def _count_pods(workload: SurveyedWorkload) -> int:
    return workload.pods or max(workload.desired_replicas, 0)


def _advise_container(
    container: SurveyedContainer, workload: SurveyedWorkload, changes: AdviceByResource, prices: Prices
) -> ContainerAdvice:
    cpu, memory = (changes[container.name, resource] for resource in RESOURCES)
    pods = _count_pods(workload)
    difference = ResourceAmount(cpu.difference * pods, memory.difference * pods)
    return ContainerAdvice(
        surveyed=container,
        cpu=cpu,
        memory=memory,
        reason=min(cpu.reason, memory.reason, key=ORDER.index),
        difference=difference,
        money=prices.cost_per_month(difference.cpu / 1000.0, difference.memory),
    )


def _build_rows(workloads: Sequence[WorkloadAdvice], weights: Prices) -> tuple[AdviceRow, ...]:
    rows = [
        AdviceRow(workload, container, _compute_weight(container, weights))
        for workload in workloads
        for container in workload.containers
    ]
    rows.sort(
        key=lambda row: (
            _RANKS[row.container.reason.severity],
            -row.weight,
            ORDER.index(row.container.reason),
            row.workload.surveyed.namespace,
            row.workload.surveyed.name,
            row.container.surveyed.name,
        )
    )
    return tuple(rows)


def _compute_weight(container: ContainerAdvice, weights: Prices) -> float:
    """The cost at stake either way: more CPU does not make up for less memory."""
    if container.reason is REQUEST_UNKNOWN:
        return weights.cost_per_hour(container.cpu.requested / 1000.0, container.memory.requested)
    return weights.cost_per_hour(abs(container.difference.cpu) / 1000.0, abs(container.difference.memory))
