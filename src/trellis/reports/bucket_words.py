"""How are proposed buckets put into words? Why these counts and sizes, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.counted import counted
from trellis.core.hvpa.suggesting import FewestBy, LargestBy, Outcome, Rungs
from trellis.reports.advice_amounts import amount
from trellis.reports.advice_words import one_line
from trellis.reports.figures import count, money, share, significant, span
from trellis.reports.suggested import Proposal, Proposals

_HEADS = ("", "replicas", "core-hours", "GiB-hours")
_DAY = 86_400.0


def named(proposal: Proposal) -> str:
    """As people call it: `shop/web`."""
    return one_line(f"{proposal.workload.namespace}/{proposal.workload.name}")


def answer(proposals: Proposals) -> str:
    """What it comes to."""
    many = len(proposals.proposed)
    everything = counted(many + len(proposals.others), "workload")
    if not many:
        return f"There are no buckets to propose for {everything}."
    now, then = _money(proposals)
    prices = proposals.advised.prices
    told = f"Buckets for {many} of {everything}"
    if prices.are_free:
        return f"{told}."
    return f"{told}: {prices.currency} {money(then)} a month instead of {money(now)}."


def _money(proposals: Proposals) -> tuple[float, float]:
    pairs = [(each.suggestion.now, each.suggestion.by_buckets) for each in proposals.proposed]
    return (
        sum(now.money for now, _ in pairs if now is not None),
        sum(then.money for _, then in pairs if then is not None),
    )


def why(proposal: Proposal) -> Iterator[str]:
    """Sentences: what was seen, and what follows from it."""
    suggestion, found = proposal.suggestion, proposal.suggestion.rungs
    if found is None:
        return
    cores = from_to(significant(found.quiet / 1000), significant(found.peak / 1000))
    memory, time = amount("memory", found.memory_peak), span(suggestion.days * _DAY)
    yield f"All pods together used {cores} cores and at most {memory} of memory in {time}."
    yield _fewest(proposal, found)
    yield _largest(proposal, found)
    if found.most > found.fewest:
        times = found.most * found.largest[0] * suggestion.utilization / found.peak
        at = share(suggestion.utilization)
        yield f"{found.most} replicas of that size hold {times:.1f} times the most that was used, at {at} of their CPU."
    base = amount("memory", found.base.memory)
    if found.base.is_known:
        yield f"Each replica has {base} of memory in any case; the fewest can hold what all of them have."
    else:
        yield f"The number of pods hardly changed: the {base} that one had at the least are taken for its base usage."
    yield from _others(proposal)


def _fewest(proposal: Proposal, found: Rungs) -> str:
    few = counted(found.fewest, "replica")
    if found.fewest_by is FewestBy.HPA:
        return f"At least {few}: HPA {proposal.workload.hpas[0].name} has no fewer."
    if found.fewest_by is FewestBy.MEMBERS:
        return f"At least {few}, as now: members of a {proposal.workload.kind} may need one another."
    if found.fewest_by is FewestBy.AVAILABILITY:
        return f"At least {few}: there were never fewer, and one alone would be gone while it is replaced."
    return f"At least {few}: there was no more at some times."


def _largest(proposal: Proposal, found: Rungs) -> str:
    size = _cores(found.largest[0])
    told = f"Replicas grow to {size} before there are more of them"
    if found.largest_by is LargestBy.REQUEST:
        return f"{told}: it is what one requests now."
    if found.largest_by is LargestBy.HPA:
        return f"{told}: the {proposal.workload.hpas[0].most} of HPA {proposal.workload.hpas[0].name} are then enough."
    if found.largest_by is LargestBy.BOUND:
        memory = amount("memory", found.largest[1])
        return f"Replicas grow to {size} and {memory}: no more is allowed, or fits twice on the largest node."
    return f"{told}: it is what a pod needs at the busiest times."


def _cores(milli: float) -> str:
    return amount("cpu", milli) if milli < 1000 else f"{milli / 1000:.3g} core{'s' * (milli != 1000)}"


def _others(proposal: Proposal) -> Iterator[str]:
    """Who else scales or sizes it."""
    workload = proposal.workload
    if workload.hpas:
        hpa = workload.hpas[0]
        percent = share(proposal.suggestion.utilization)
        yield f"Delete HPA {hpa.name} when you apply this: the Hvpa has one of its own, at {percent} of CPU."
        if len(hpa.targets) + hpa.others > 1:
            yield f"HPA {hpa.name} goes by other metrics too, which are not in the proposal."
    for vpa in workload.vpas:
        yield f"Set VerticalPodAutoscaler {vpa} to mode Off, or delete it: the Hvpa gives way to one that acts."


def outcomes(proposal: Proposal) -> Iterator[tuple[str, Outcome]]:
    """Ways of scaling, with what each comes to."""
    suggestion = proposal.suggestion
    ways = (("as now", suggestion.now), ("HPA alone", suggestion.by_hpa), ("buckets", suggestion.by_buckets))
    yield from ((name, found) for name, found in ways if found is not None)


def cost_heads(proposals: Proposals) -> list[str]:
    """Over the columns of `cost_cells`."""
    prices = proposals.advised.prices
    priced = [] if prices.are_free else [f"{prices.currency}/month"]
    return [*_HEADS, *priced, "CPU short", "memory short", "changes"]


def cost_cells(name: str, found: Outcome, proposals: Proposals) -> list[str]:
    """One way of scaling: how many replicas, what it cost, and for how much of the time it was too little."""
    priced = [] if proposals.advised.prices.are_free else [money(proposals.money(found))]
    hours = [significant(found.core_hours), significant(found.gib_hours)]
    short = [share(found.cpu_over), share(found.memory_over)]
    return [name, from_to(count(found.fewest), count(found.most)), *hours, *priced, *short, count(found.changes)]


def bucket_cells(proposal: Proposal) -> Iterator[list[str]]:
    """A row for each bucket: replicas, what one may have, and what all of them hold."""
    found = proposal.suggestion.rungs
    for each in found.buckets if found is not None else ():
        sizes = [
            from_to(amount(name, low), amount(name, high))
            for name, low, high in zip(("cpu", "memory"), each.least, each.largest, strict=True)
        ]
        holds = [_cores(each.last * each.largest[0]), amount("memory", each.last * each.largest[1])]
        yield [from_to(str(each.first), str(each.last)), *sizes, ", ".join(holds)]


BUCKET_HEADS = ["replicas", "CPU of one", "memory of one", "hold at most"]


def from_to(low: str, high: str) -> str:
    """A range, or one figure if there is no more to it."""
    return low if low == high else f"{low} to {high}"
