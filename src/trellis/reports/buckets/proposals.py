"""Proposes buckets for each surveyed workload, or the reason why there are none.

Translates what a survey knows into the input of `core.hvpa`, which decides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from trellis.base.prices import choose_weights
from trellis.base.reasons import Reason
from trellis.core.advice.policy import RESOURCES, select_resource
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import SurveyedHpa, SurveyedWorkload
from trellis.core.hvpa.suggest.suggestion import (
    ObservedHpa,
    ReplayCost,
    Suggestion,
    SuggestionRules,
    WorkloadHistory,
    WorkloadUsageHistory,
    suggest,
)

# Of the largest node that one replica may take: others have to fit beside it.
_MAX_NODE_SHARE = 0.5
_NO_USAGE = WorkloadUsageHistory(1.0, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


class WorkloadProposal(msgspec.Struct, frozen=True):
    """A workload with its suggestion."""

    workload: SurveyedWorkload
    suggestion: Suggestion

    @property
    def saves(self) -> float:
        """Savings in a month, at prices that are never zero; negative if the proposal costs more."""
        current_cost, proposed_cost = self.suggestion.now, self.suggestion.by_buckets
        return (
            current_cost.money - proposed_cost.money if current_cost is not None and proposed_cost is not None else 0.0
        )


class WorkloadProposals(msgspec.Struct, frozen=True):
    """Workloads with buckets, those that save most first, and the others by name."""

    advised: SurveyAdvice
    rules: SuggestionRules
    proposed: tuple[WorkloadProposal, ...]
    others: tuple[WorkloadProposal, ...]

    def get_monthly_cost(self, outcome: ReplayCost) -> float:
        """The cost in a month; 0 at prices of zero."""
        return 0.0 if self.advised.prices.is_free else outcome.money

    @property
    def reasons(self) -> list[tuple[Reason, int]]:
        """Why there are no buckets, and for how many workloads."""
        counts = Counter(proposal.suggestion.reason for proposal in self.others)
        return [(reason, count) for reason, count in counts.most_common() if reason is not None]


def propose_buckets(advised: SurveyAdvice, rules: SuggestionRules = SuggestionRules()) -> WorkloadProposals:  # noqa: B008 -- frozen
    """Proposals for all surveyed workloads."""
    prices = choose_weights(advised.prices)
    workloads = advised.surveyed.workloads
    name_counts = Counter((workload.namespace, name) for workload in workloads for name in _list_object_names(workload))
    proposals = []
    for workload in workloads:
        is_shared = name_counts[workload.namespace, workload.name] > 1
        name = f"{workload.name}-{workload.kind.lower()}" if is_shared else workload.name
        proposals.append(
            WorkloadProposal(workload, suggest(build_workload_history(workload, advised, name), rules, prices))
        )
    proposed = [proposal for proposal in proposals if proposal.suggestion.manifest]
    proposed.sort(key=lambda proposal: (-proposal.saves, proposal.workload.namespace, proposal.workload.name))
    return WorkloadProposals(
        advised, rules, tuple(proposed), tuple(proposal for proposal in proposals if not proposal.suggestion.manifest)
    )


def _list_object_names(workload: SurveyedWorkload) -> Iterator[str]:
    """Names of objects that an Hvpa of the same name would collide with: its HPA and VPA have its name."""
    yield workload.name
    yield from (hpa.name for hpa in workload.hpas)
    yield from workload.vpas


def build_workload_history(workload: SurveyedWorkload, advised: SurveyAdvice, name: str = "") -> WorkloadHistory:
    """The history of a workload as input of a proposal; `name` is that of the proposed Hvpa."""
    totals = workload.totals
    usage = (
        WorkloadUsageHistory(totals.step, totals.pods, totals.cpu, totals.memory) if totals is not None else _NO_USAGE
    )
    cpu, memory = (
        _sum_requests([select_resource(container.request, resource) for container in workload.containers])
        for resource in RESOURCES
    )
    most_cpu, most_memory = (_find_largest_request(workload, advised, resource) for resource in RESOURCES)
    return WorkloadHistory(
        namespace=workload.namespace,
        api_version=workload.api_version,
        kind=workload.kind,
        name=workload.name,
        usage=usage,
        replicas=workload.desired_replicas if workload.desired_replicas >= 0 else workload.pods,
        request=(cpu, memory),
        largest=(most_cpu, most_memory),
        hpa=_build_observed_hpa(workload.hpas[0]) if workload.hpas else None,
        hvpa=name,
    )


def _sum_requests(amounts: Sequence[float]) -> float:
    """The sum of the requests of containers, without those that have none."""
    requested = [amount for amount in amounts if not math.isnan(amount)]
    return math.fsum(requested) if requested else math.nan


def _find_largest_request(workload: SurveyedWorkload, advised: SurveyAdvice, resource: str) -> float:
    """The most that one replica may request, by nodes, LimitRanges and the user's bounds."""
    containers = max(1, len(workload.containers))
    limits = workload.limits
    bounds = [
        _MAX_NODE_SHARE * select_resource(advised.surveyed.largest_node, resource),
        containers * select_resource(advised.policy.most, resource),
        float(limits.pod.most.get(resource, 0)) or math.nan,
        containers * float(limits.container.most.get(resource, 0)) or math.nan,
    ]
    return min((bound for bound in bounds if not math.isnan(bound)), default=math.inf)


def _build_observed_hpa(hpa: SurveyedHpa) -> ObservedHpa:
    shares = [target.utilization / 100 for target in hpa.targets if target.resource == "cpu" and not target.container]
    utilizations = [share for share in shares if not math.isnan(share)]
    others = len(hpa.targets) + hpa.others - len(utilizations[:1])
    return ObservedHpa(
        hpa.name, max(hpa.least, 1), max(hpa.most, 1), utilizations[0] if utilizations else math.nan, others
    )
