"""How is advice put into words? The answer in a sentence or two, and what else should be known."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.counted import counted
from trellis.base.readable import RESOURCE_WORDS
from trellis.base.reason import Severity
from trellis.core.advice.advised import Advised, ContainerAdvice, Row, Totals, WorkloadAdvice
from trellis.core.advice.judging import (
    LOW_CONFIDENCE,
    MEMORY_AT_RISK,
    NO_REQUEST,
    NO_USAGE_KNOWN,
    REQUEST_UNKNOWN,
    UNDER_REQUESTED,
)
from trellis.core.advice.policy import RESOURCES, LimitRule, Limits
from trellis.core.advice.scale_points import SCALE_POINT_MISSING, ScalePoint
from trellis.core.advice.surveyed import Effort
from trellis.reports.advice_amounts import amount
from trellis.reports.describe.words import listed
from trellis.reports.figures import GIB, count, gibibytes, money, share, significant, span

_NAMED = 3  # in a sentence
_NOTHING = 0.005  # cores or GiB that are none, in a sum
_RULES = {
    LimitRule.NONE: "none",
    LimitRule.REQUEST: "as requested",
    LimitRule.KEEP: "as they are",
    LimitRule.KEEP_RATIO: "in proportion",
}


def named(workload: WorkloadAdvice) -> str:
    """As people call it: `shop/web`."""
    each = workload.surveyed
    return one_line(f"{each.namespace}/{each.name}" if each.namespace else each.name)


def one_line(name: str) -> str:
    """A name from a file or a metric may be anything; in a table it has one line."""
    return name if name.isprintable() else "".join(each if each.isprintable() else "?" for each in name)


def mark(container: ContainerAdvice) -> str:
    """How much it matters, for who sees no colours."""
    if container.reason in {LOW_CONFIDENCE, NO_USAGE_KNOWN}:
        return "?"
    return {Severity.ERROR: "!!", Severity.WARNING: "!", Severity.INFO: ""}[container.reason.severity]


def facts(advised: Advised) -> list[str]:
    """What was looked at and how, a few words each."""
    surveyed, total = advised.surveyed, advised.total
    told = [counted(total.workloads, "workload"), counted(total.containers, "container"), counted(total.pods, "pod")]
    days = sorted(row.container.surveyed.days for row in advised.rows if row.container.surveyed.samples)
    if days:
        told.append(f"{span(days[len(days) // 2] * 86_400)} of history")
    parameters = ", ".join(f"{name}={value}" for name, value in advised.parameters.items())
    told.append(f"recommender {surveyed.recommender}" + (f" ({parameters})" if parameters else ""))
    return [*told, f"from {surveyed.source}", limits_told(advised.policy.limits)]


def limits_told(limits: Limits) -> str:
    """What becomes of limits."""
    if limits.cpu is limits.memory:
        return f"limits {_RULES[limits.cpu]}"
    return f"CPU limits {_RULES[limits.cpu]}, memory limits {_RULES[limits.memory]}"


def partial(advised: Advised) -> str:
    """What a reader must know first, if something could not be seen."""
    missing = advised.surveyed.missing
    if not missing:
        return ""
    what = "1 thing that is" if len(missing) == 1 else f"{len(missing)} things that are"
    return f"Partial: {what} listed below could not be looked at."


def answer(advised: Advised) -> Iterator[str]:
    """What it comes to: what can be saved, what is missing, and what is at risk."""
    total = advised.total
    if not total.containers:
        yield "There is nothing to size."
        return
    unknown = total.reasons.get(REQUEST_UNKNOWN.code, 0)
    if unknown:
        needed = listed([text for text in (_cores(total.after.cpu), _gib(total.after.memory)) if text])
        whose = "" if unknown == total.containers else f" of {counted(unknown, 'container')}"
        yield f"{needed or 'Nothing'} are needed in all; what is requested now{whose} could not be seen."
    early = sum(total.reasons.get(each.code, 0) for each in (LOW_CONFIDENCE, NO_USAGE_KNOWN))
    if unknown != total.containers:
        yield from _sums(advised, is_judged=early < total.containers)
    if early:
        yield f"Of {counted(early, 'container')} there is too little history to say more."


def _sums(advised: Advised, *, is_judged: bool) -> Iterator[str]:
    total = advised.total
    if _is_some(total, "saved"):
        cost = ""
        if total.money_before > 0:
            paid = f"{money(total.money_saved)} of {money(total.money_before)}"
            cost = f", {advised.prices.currency} {paid} a month"
        saved = listed([text for text in (_cores(total.saved.cpu), _gib(total.saved.memory)) if text])
        yield f"{saved} are requested and not needed{cost} ({share(total.saved_share)})."
    elif is_judged:
        yield "Nothing is requested that is not needed."
    if _is_some(total, "short"):
        short = listed([text for text in (_cores(total.short.cpu), _gib(total.short.memory)) if text])
        who = sum(total.reasons.get(each.code, 0) for each in (MEMORY_AT_RISK, UNDER_REQUESTED, NO_REQUEST))
        cost = f" ({advised.prices.currency} {money(total.money_short)} a month)" if total.money_short > 0 else ""
        yield f"{short}{cost} are needed and not requested, by {counted(who, 'container')}."
    risky = total.reasons.get(MEMORY_AT_RISK.code, 0)
    if risky:
        yield f"{counted(risky, 'container')} {'is' if risky == 1 else 'are'} at risk for lack of memory."


def _is_some(total: Totals, what: str) -> bool:
    found = total.saved if what == "saved" else total.short
    return found.cpu >= 1000 * _NOTHING or found.memory >= _NOTHING * GIB


def _cores(milli: float) -> str:
    return f"{significant(milli / 1000)} cores" if milli >= 1000 * _NOTHING else ""


def _gib(bytes_: float) -> str:
    return f"{gibibytes(bytes_)} GiB" if bytes_ >= _NOTHING * GIB else ""


def scale_points(advised: Advised) -> Iterator[str]:
    """A sentence for each HPA that a new request would make act otherwise."""
    for workload in advised.workloads:
        for point in workload.scale_points:
            yield f"{named(workload)}: {scale_point(point)}"


def scale_point(point: ScalePoint) -> str:
    """What happens to one target of an HPA."""
    of = f"the {RESOURCE_WORDS[point.resource]} request" + (f" of {point.container}" if point.container else "")
    target = f"HPA {point.hpa} keeps usage at {point.utilization:g} % of {of}"
    if point.reason is SCALE_POINT_MISSING:
        return f"{target}, and cannot act as long as a container has none."
    before, after = (amount(point.resource, value) for value in (point.before, point.after))
    moved = f"{'-' if point.moves_by < 0 else '+'}{share(abs(point.moves_by))}"
    return f"{target}: {before} a pod now, {after} then ({moved}). A target of {point.keeps:.0f} % keeps it."


def remarks(advised: Advised) -> Iterator[str]:
    """What could not be seen, what whoever looked had to say, and who else has a say in sizes."""
    for missing in advised.surveyed.missing:
        yield f"Not seen: {missing}"
    for note in advised.surveyed.notes:
        yield f"Note: {note}"
    governed = [each for each in advised.workloads if each.is_change and each.surveyed.vpas]
    if governed:
        rest = f" and {len(governed) - _NAMED} more" if len(governed) > _NAMED else ""
        names = ", ".join(named(each) for each in governed[:_NAMED])
        yield f"Note: VerticalPodAutoscalers may set other requests: {names}{rest}"
    for row in advised.rows:
        yield from _bounds(row)
    mixed = sum(row.container.surveyed.differing > 0 for row in advised.rows)
    if mixed:
        yield f"Note: {counted(mixed, 'container')} with pods of several sizes; most of the pods count"


def _bounds(row: Row) -> Iterator[str]:
    for resource in RESOURCES:
        change = row.container.of(resource)
        if change.capped is not None:
            found, left = amount(resource, change.found), amount(resource, change.request)
            what = f"{named(row.workload)} {one_line(row.container.surveyed.name)}: {RESOURCE_WORDS[resource]}"
            yield f"Note: {what} of {found} is needed, {left} is allowed ({change.capped.code})"


def effort(used: Effort) -> str:
    """How many questions it took; empty if nobody was asked."""
    if not used.queries:
        return f"{count(used.samples)} samples read." if used.samples else ""
    beside = f" (one for each container would have been {count(used.one_by_one)})" if used.one_by_one else ""
    again = f", {count(used.repeated)} repeated" if used.repeated else ""
    took = f" in {used.seconds:.1f} s" if used.seconds else ""
    queries = "1 query" if used.queries == 1 else f"{count(used.queries)} queries"
    return f"{queries}{again}{beside}, {count(used.samples)} samples{took}."
