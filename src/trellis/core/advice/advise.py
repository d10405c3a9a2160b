"""What should all workloads ask for? Each container judged, in the order in which it matters, and summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trellis.base.prices import Prices, weights
from trellis.base.reason import Severity
from trellis.core.advice.advised import Advised, ContainerAdvice, Row, WorkloadAdvice
from trellis.core.advice.bounding import Changes, bounded
from trellis.core.advice.judging import ORDER, REQUEST_UNKNOWN, judged
from trellis.core.advice.policy import RESOURCES, Policy
from trellis.core.advice.scale_points import moved_points
from trellis.core.advice.summing import summed
from trellis.core.advice.surveyed import Amount, Surveyed, SurveyedContainer, SurveyedWorkload

_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def advise(
    surveyed: Surveyed, policy: Policy, prices: Prices, now: float, *, parameters: Mapping[str, str] | None = None
) -> Advised:
    """Advice on everything that was surveyed; `parameters` are what somebody has set of the recommender."""
    workloads = tuple(_workload(each, policy, prices) for each in surveyed.workloads)
    by_namespace: dict[str, list[WorkloadAdvice]] = {}
    for each in workloads:
        by_namespace.setdefault(each.surveyed.namespace, []).append(each)
    namespaces = [(name, summed(members, prices)) for name, members in by_namespace.items()]
    namespaces.sort(key=lambda each: (-each[1].money_saved, -each[1].saved.cpu, each[0]))
    return Advised(
        surveyed=surveyed,
        policy=policy,
        prices=prices,
        now=now,
        workloads=workloads,
        rows=_rows(workloads, weights(prices)),
        namespaces=tuple(namespaces),
        total=summed(workloads, prices),
        parameters=dict(parameters or {}),
    )


def _workload(workload: SurveyedWorkload, policy: Policy, prices: Prices) -> WorkloadAdvice:
    judgements = {
        (each.name, resource): judged(each, resource, policy, is_sized=workload.is_sized)
        for each in workload.containers
        for resource in RESOURCES
    }
    changes = bounded(workload, judgements, policy)
    containers = tuple(_container(each, workload, changes, prices) for each in workload.containers)
    return WorkloadAdvice(workload, _pods(workload), containers, tuple(moved_points(workload, changes)))


def _pods(workload: SurveyedWorkload) -> int:
    return workload.pods or max(workload.wanted, 0)


def _container(
    container: SurveyedContainer, workload: SurveyedWorkload, changes: Changes, prices: Prices
) -> ContainerAdvice:
    cpu, memory = (changes[container.name, resource] for resource in RESOURCES)
    pods = _pods(workload)
    difference = Amount(cpu.difference * pods, memory.difference * pods)
    return ContainerAdvice(
        surveyed=container,
        cpu=cpu,
        memory=memory,
        reason=min(cpu.reason, memory.reason, key=ORDER.index),
        difference=difference,
        money=prices.monthly(difference.cpu / 1000.0, difference.memory),
    )


def _rows(workloads: Sequence[WorkloadAdvice], by: Prices) -> tuple[Row, ...]:
    rows = [Row(each, container, _weight(container, by)) for each in workloads for container in each.containers]
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
        return by.hourly(container.cpu.asked / 1000.0, container.memory.asked)
    return by.hourly(abs(container.difference.cpu) / 1000.0, abs(container.difference.memory))
