"""Sentences and table cells of proposed buckets: why these counts and sizes, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.wording import pluralize
from trellis.core.hvpa.suggest.suggestion import BucketProposal, FewestReason, LargestReason, ReplayCost
from trellis.reports.advice.wording import escape_name, format_amount
from trellis.reports.buckets.proposals import WorkloadProposal, WorkloadProposals
from trellis.reports.text.numbers import format_count, format_money, format_share, format_significant, format_span

_HEADS = ("", "replicas", "core-hours", "GiB-hours")
_DAY = 86_400.0


def format_proposal_name(proposal: WorkloadProposal) -> str:
    """The name of the workload with its namespace: `shop/web`."""
    return escape_name(f"{proposal.workload.namespace}/{proposal.workload.name}")


def summarize_proposals(proposals: WorkloadProposals) -> str:
    """For how many workloads buckets are proposed, and what they cost instead."""
    count = len(proposals.proposed)
    everything = pluralize(count + len(proposals.others), "workload")
    if not count:
        return f"No buckets are proposed for {everything}."
    current_cost, proposed_cost = _sum_costs(proposals)
    prices = proposals.advised.prices
    summary = f"Buckets for {count} of {everything}"
    if prices.is_free:
        return f"{summary}."
    return (
        f"{summary}: {prices.currency} {format_money(proposed_cost)} a month instead of {format_money(current_cost)}."
    )


def _sum_costs(proposals: WorkloadProposals) -> tuple[float, float]:
    pairs = [(proposal.suggestion.now, proposal.suggestion.by_buckets) for proposal in proposals.proposed]
    return (
        sum(now.money for now, _ in pairs if now is not None),
        sum(then.money for _, then in pairs if then is not None),
    )


def describe_reasons(proposal: WorkloadProposal) -> Iterator[str]:
    """Sentences about the observed usage and the reasons for the proposal."""
    suggestion, buckets = proposal.suggestion, proposal.suggestion.proposal
    if buckets is None:
        return
    cores = format_range(format_significant(buckets.quiet / 1000), format_significant(buckets.peak / 1000))
    memory, time = format_amount("memory", buckets.memory_peak), format_span(suggestion.days * _DAY)
    yield f"All pods together used {cores} cores and at most {memory} of memory in {time}."
    yield _describe_fewest(proposal, buckets)
    yield _describe_largest(proposal, buckets)
    if buckets.most > buckets.fewest:
        times = buckets.most * buckets.largest[0] * suggestion.utilization / buckets.peak
        at = format_share(suggestion.utilization)
        most = f"{buckets.most} replicas of that size"
        yield f"{most} provide {times:.1f} times the highest usage at {at} CPU utilization."
    base = format_amount("memory", buckets.base.memory)
    if buckets.base.is_known:
        yield f"Each replica uses {base} of memory at any load; the fewest replicas have enough for all of it."
    else:
        yield f"The number of pods hardly changed: the lowest memory usage of a pod, {base}, counts as its base usage."
    yield from _describe_other_objects(proposal)


def _describe_fewest(proposal: WorkloadProposal, buckets: BucketProposal) -> str:
    few = pluralize(buckets.fewest, "replica")
    if buckets.fewest_by is FewestReason.HPA:
        return f"At least {few}: the minimum of HPA {proposal.workload.hpas[0].name}."
    if buckets.fewest_by is FewestReason.MEMBERS:
        return f"At least {few}, as now: members of a {proposal.workload.kind} may depend on one another."
    if buckets.fewest_by is FewestReason.AVAILABILITY:
        return f"At least {few}: there were never fewer, and a single replica is unavailable while it is replaced."
    return f"At least {few}: the lowest number so far."


def _describe_largest(proposal: WorkloadProposal, buckets: BucketProposal) -> str:
    size = _cores(buckets.largest[0])
    growth = f"Replicas grow to {size} before more are added"
    if buckets.largest_by is LargestReason.REQUEST:
        return f"{growth}: the current request."
    if buckets.largest_by is LargestReason.HPA:
        hpa = proposal.workload.hpas[0]
        return f"{growth}: so the {hpa.most} replicas of HPA {hpa.name} suffice."
    if buckets.largest_by is LargestReason.BOUND:
        memory = format_amount("memory", buckets.largest[1])
        return f"Replicas grow to {size} and {memory}: the largest allowed size, or half of the largest node."
    return f"{growth}: what a pod needs at peak load."


def _cores(milli: float) -> str:
    return format_amount("cpu", milli) if milli < 1000 else f"{milli / 1000:.3g} core{'s' * (milli != 1000)}"


def _describe_other_objects(proposal: WorkloadProposal) -> Iterator[str]:
    """Sentences on HPAs and VPAs of the same workload."""
    workload = proposal.workload
    if workload.hpas:
        hpa = workload.hpas[0]
        percent = format_share(proposal.suggestion.utilization)
        yield f"Delete HPA {hpa.name} when you apply this: the Hvpa creates its own, with a target of {percent} CPU."
        if len(hpa.targets) + hpa.others > 1:
            yield f"HPA {hpa.name} also uses other metrics, which the proposal does not include."
    for vpa in workload.vpas:
        yield f"Set VerticalPodAutoscaler {vpa} to mode Off, or delete it: otherwise the Hvpa leaves sizes to it."


def list_outcomes(proposal: WorkloadProposal) -> Iterator[tuple[str, ReplayCost]]:
    """Ways of scaling, with the cost of each."""
    suggestion = proposal.suggestion
    ways = (("today", suggestion.now), ("HPA alone", suggestion.by_hpa), ("buckets", suggestion.by_buckets))
    yield from ((name, cost) for name, cost in ways if cost is not None)


def list_cost_headers(proposals: WorkloadProposals) -> list[str]:
    """The headers of the columns of `cost_cells`."""
    prices = proposals.advised.prices
    priced = [] if prices.is_free else [f"{prices.currency}/month"]
    return [*_HEADS, *priced, "CPU above", "memory above", "changes"]


def format_cost_cells(name: str, cost: ReplayCost, proposals: WorkloadProposals) -> list[str]:
    """The cells of one way of scaling: replicas, cost, and the share of time in which it was too little."""
    priced = [] if proposals.advised.prices.is_free else [format_money(proposals.get_monthly_cost(cost))]
    hours = [format_significant(cost.core_hours), format_significant(cost.gib_hours)]
    short = [format_share(cost.cpu_over), format_share(cost.memory_over)]
    return [
        name,
        format_range(format_count(cost.fewest), format_count(cost.most)),
        *hours,
        *priced,
        *short,
        format_count(cost.changes),
    ]


def format_bucket_cells(proposal: WorkloadProposal) -> Iterator[list[str]]:
    """A row for each bucket: replicas, the size of one, and the total of all."""
    buckets = proposal.suggestion.proposal
    for bucket in buckets.buckets if buckets is not None else ():
        sizes = [
            format_range(format_amount(name, low), format_amount(name, high))
            for name, low, high in zip(("cpu", "memory"), bucket.least, bucket.largest, strict=True)
        ]
        holds = [_cores(bucket.last * bucket.largest[0]), format_amount("memory", bucket.last * bucket.largest[1])]
        yield [format_range(str(bucket.first), str(bucket.last)), *sizes, ", ".join(holds)]


BUCKET_HEADERS = ["replicas", "CPU each", "memory each", "capacity"]


def format_range(low: str, high: str) -> str:
    """A range, or one figure if both ends are equal."""
    return low if low == high else f"{low} to {high}"
