"""Advises on all surveyed workloads: each container judged, in the order in which it matters, and summed up."""

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
    apply_limit_ranges,
    judge_request,
)
from trellis.core.advice.survey.model import ResourceAmount, SurveyedContainer, SurveyedWorkload, SurveyResult

Read = Callable[[ResourceAdvice], float]


def sum_advice(workloads: Sequence[WorkloadAdvice], prices: Prices) -> AdviceTotals:
    """The totals of some workloads, each times its pods."""
    counted = [(container, workload.pods) for workload in workloads for container in workload.containers]
    before = _sum(counted, lambda change: change.asked_before)
    after = _sum(counted, lambda change: change.asked)
    saved = _sum(counted, lambda change: max(-change.difference, 0.0))
    short = _sum(counted, lambda change: max(change.difference, 0.0))
    by = choose_weights(prices)
    weight = _monthly(before, by)
    return AdviceTotals(
        workloads=len(workloads),
        containers=len(counted),
        pods=sum(workload.pods for workload in workloads),
        before=before,
        after=after,
        saved=saved,
        short=short,
        money_before=_monthly(before, prices),
        money_after=_monthly(after, prices),
        money_saved=_monthly(saved, prices),
        money_short=_monthly(short, prices),
        saved_share=_monthly(saved, by) / weight if weight else 0.0,
        reasons=dict(sorted(Counter(container.reason.code for container, _ in counted).items())),
    )


def _sum(counted: Sequence[tuple[ContainerAdvice, int]], read: Read) -> ResourceAmount:
    return ResourceAmount(
        math.fsum(read(container.cpu) * pods for container, pods in counted),
        math.fsum(read(container.memory) * pods for container, pods in counted),
    )


def _monthly(amount: ResourceAmount, prices: Prices) -> float:
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
    workloads = tuple(_workload(workload, policy, prices) for workload in surveyed.workloads)
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
        rows=_rows(workloads, choose_weights(prices)),
        namespaces=tuple(namespaces),
        total=sum_advice(workloads, prices),
        parameters=dict(parameters or {}),
    )


def _workload(workload: SurveyedWorkload, policy: AdvicePolicy, prices: Prices) -> WorkloadAdvice:
    judgements = {
        (container.name, resource): judge_request(container, resource, policy, is_sized=workload.is_sized)
        for container in workload.containers
        for resource in RESOURCES
    }
    changes = apply_limit_ranges(workload, judgements, policy)
    containers = tuple(_container(container, workload, changes, prices) for container in workload.containers)
    return WorkloadAdvice(workload, _pods(workload), containers, tuple(find_moved_scale_points(workload, changes)))


def _pods(workload: SurveyedWorkload) -> int:
    return workload.pods or max(workload.wanted, 0)


def _container(
    container: SurveyedContainer, workload: SurveyedWorkload, changes: AdviceByResource, prices: Prices
) -> ContainerAdvice:
    cpu, memory = (changes[container.name, resource] for resource in RESOURCES)
    pods = _pods(workload)
    difference = ResourceAmount(cpu.difference * pods, memory.difference * pods)
    return ContainerAdvice(
        surveyed=container,
        cpu=cpu,
        memory=memory,
        reason=min(cpu.reason, memory.reason, key=ORDER.index),
        difference=difference,
        money=prices.cost_per_month(difference.cpu / 1000.0, difference.memory),
    )


def _rows(workloads: Sequence[WorkloadAdvice], by: Prices) -> tuple[AdviceRow, ...]:
    rows = [
        AdviceRow(workload, container, _weight(container, by))
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


def _weight(container: ContainerAdvice, by: Prices) -> float:
    """What is at stake either way: more CPU does not make up for less memory."""
    if container.reason is REQUEST_UNKNOWN:
        return by.cost_per_hour(container.cpu.asked / 1000.0, container.memory.asked)
    return by.cost_per_hour(abs(container.difference.cpu) / 1000.0, abs(container.difference.memory))
