"""Amounts and sentences of advised requests, the same in all formats and short enough for a table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trellis.base.reasons import Severity
from trellis.base.wording import RESOURCE_WORDS, pluralize
from trellis.core.advice.hpa_scale_points import SCALE_POINT_MISSING, HpaScalePoint
from trellis.core.advice.policy import RESOURCES, LimitRule, LimitRules, select_resource
from trellis.core.advice.results import AdviceRow, AdviceTotals, ContainerAdvice, SurveyAdvice, WorkloadAdvice
from trellis.core.advice.sizes import (
    LOW_CONFIDENCE,
    MEMORY_AT_RISK,
    NO_REQUEST,
    NO_USAGE,
    OVER_REQUESTED,
    REQUEST_UNKNOWN,
    UNDER_REQUESTED,
    WELL_SIZED,
    ResourceAdvice,
)
from trellis.core.advice.survey.model import SurveyEffort
from trellis.reports.text.numbers import (
    GIB,
    NO_VALUE,
    format_count,
    format_gib,
    format_money,
    format_share,
    format_significant,
    format_span,
)
from trellis.reports.text.phrases import join_words

NO_AMOUNT = "none"
UNKNOWN = "?"
_UNITS = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_CENT = 0.01
_DAY = 86_400.0


def format_amount(resource: str, value: float) -> str:
    """An amount of one container, short and as in Kubernetes: `320m`, `1.25`, `512Mi`."""
    if math.isnan(value):
        return NO_AMOUNT
    if resource == "cpu":
        return f"{value:.0f}m" if value < 1000 else _format_short(value / 1000)
    for size, unit in _UNITS:
        if value >= size:
            return f"{_format_short(value / size)}{unit}"
    return f"{value:.0f}"


def _format_short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def format_request_change(resource: str, change: ResourceAdvice) -> str:
    """The present and the advised request: `500m -> 320m`, or one of them if they are equal."""
    before, after = format_requests(resource, change)
    return before if before == after else f"{before} -> {after}"


def format_requests(resource: str, change: ResourceAdvice) -> tuple[str, str]:
    """The present and the advised request; both are the present one where nothing is advised."""
    before = format_amount(resource, change.request_before) if change.is_request_known else UNKNOWN
    return before, before if math.isnan(change.request) else format_amount(resource, change.request)


def format_difference(resource: str, value: float) -> str:
    """Of all pods together: `-0.72` cores, `+2.8Gi`; nothing where there is none."""
    if not value:
        return ""
    sign = "+" if value > 0 else "-"
    if resource == "cpu":
        return f"{sign}{format_significant(abs(value) / 1000)}"
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{sign}{format_significant(abs(value) / size)}{unit}"
    return f"{sign}{abs(value):.0f}"


def format_signed_money(value: float) -> str:
    """A difference in cost: `+12.30`, `-1,234`."""
    return f"{'-' if value < 0 else '+'}{format_money(abs(value))}" if abs(value) >= _CENT / 2 else "0"


def format_history(container: ContainerAdvice) -> str:
    """The length of the history."""
    days = container.surveyed.days
    if math.isnan(container.surveyed.first):
        return NO_VALUE
    if days < 1 / 24:
        return format_span(round(days * _DAY))
    return f"{days:.0f} d" if days >= 2 else f"{days * 24:.0f} h"


def sum_requests(resource: str, total: AdviceTotals) -> tuple[float, float]:
    """Requests before and after, in cores or GiB."""
    unit = 1000.0 if resource == "cpu" else GIB
    return select_resource(total.before, resource) / unit, select_resource(total.after, resource) / unit


def are_requests_unknown(total: AdviceTotals) -> bool:
    """Whether the present requests of all containers are unknown."""
    return 0 < total.containers == total.reasons.get(REQUEST_UNKNOWN.code, 0)


def format_totals(resource: str, total: AdviceTotals) -> tuple[str, str, str]:
    """Requests before and after, in cores or GiB, and their difference."""
    before, after = sum_requests(resource, total)
    if are_requests_unknown(total):
        return UNKNOWN, format_significant(after), ""
    return format_significant(before), format_significant(after), format_relative_change(before, after)


def format_cost_difference(total: AdviceTotals) -> str:
    """The difference in cost of all requests."""
    return "" if are_requests_unknown(total) else format_signed_money(total.money_after - total.money_before)


def format_relative_change(before: float, after: float) -> str:
    """The relative difference of two sums, in per cent."""
    if not before or math.isclose(before, after):
        return "" if before else "new" if after else ""
    return f"{'-' if after < before else '+'}{format_share(abs(after / before - 1))}"


_MAX_NAMES = 3  # in a sentence
_NEGLIGIBLE = 0.005  # cores or GiB that are none, in a sum
_RULES = {
    LimitRule.NONE: "no {} limits",
    LimitRule.REQUEST: "{} limits equal to requests",
    LimitRule.KEEP: "{} limits unchanged",
    LimitRule.KEEP_RATIO: "{} limits in proportion to requests",
}


def format_workload_name(workload: WorkloadAdvice) -> str:
    """The name with its namespace: `shop/web`."""
    surveyed = workload.surveyed
    return escape_name(f"{surveyed.namespace}/{surveyed.name}" if surveyed.namespace else surveyed.name)


def escape_name(name: str) -> str:
    """A name without line breaks: a file or a metric may have any characters in it."""
    return name if name.isprintable() else "".join(character if character.isprintable() else "?" for character in name)


# Reasons in a few words; their codes and meanings stand beside them in small print.
_REASON_WORDS = {
    MEMORY_AT_RISK.code: "risk of OOM kill",
    UNDER_REQUESTED.code: "request too low",
    NO_REQUEST.code: "no request",
    OVER_REQUESTED.code: "request too high",
    REQUEST_UNKNOWN.code: "request unknown",
    LOW_CONFIDENCE.code: "too little history",
    NO_USAGE.code: "no usage data",
    WELL_SIZED.code: "well sized",
}


def describe_reason(container: ContainerAdvice) -> str:
    """The reason in a few words, and whether a bound changes what is advised."""
    words = _REASON_WORDS.get(container.reason.code, container.reason.code)
    is_bounded = any(container.get_resource(resource).capped is not None for resource in RESOURCES)
    return f"{words}, bounded" if is_bounded else words


def get_severity_mark(container: ContainerAdvice) -> str:
    """The severity as a mark, for output without colour."""
    if container.reason in {LOW_CONFIDENCE, NO_USAGE}:
        return "?"
    return {Severity.ERROR: "!!", Severity.WARNING: "!", Severity.INFO: ""}[container.reason.severity]


def list_facts(advised: SurveyAdvice) -> list[str]:
    """What was surveyed and how, a few words each."""
    surveyed, total = advised.surveyed, advised.total
    facts = [
        pluralize(total.workloads, "workload"),
        pluralize(total.containers, "container"),
        pluralize(total.pods, "pod"),
    ]
    days = sorted(row.container.surveyed.days for row in advised.rows if row.container.surveyed.samples)
    if days:
        facts.append(f"{format_span(days[len(days) // 2] * _DAY)} of history")
    parameters = ", ".join(f"{name}={value}" for name, value in advised.parameters.items())
    facts.append(f"recommender {surveyed.recommender}" + (f" ({parameters})" if parameters else ""))
    return [*facts, f"from {surveyed.source}", describe_limits(advised.policy.limits)]


def describe_limits(limits: LimitRules) -> str:
    """How limits follow from requests, in words."""
    if limits.cpu is limits.memory:
        return _RULES[limits.cpu].format("CPU and memory")
    return ", ".join([_RULES[limits.cpu].format("CPU"), _RULES[limits.memory].format("memory")])


def describe_missing_data(advised: SurveyAdvice) -> str:
    """The notice at the top if some data could not be read."""
    missing = advised.surveyed.missing
    if not missing:
        return ""
    listed = "it is listed" if len(missing) == 1 else "they are listed"
    return f"Partial: {pluralize(len(missing), 'source')} of data could not be read; {listed} below."


def summarize_advice(advised: SurveyAdvice) -> Iterator[str]:
    """The summary: what can be saved, what is missing, and what is at risk."""
    total = advised.total
    if not total.containers:
        yield "No containers were found."
        return
    unknown = total.reasons.get(REQUEST_UNKNOWN.code, 0)
    if unknown:
        needed = join_words(
            [text for text in (_format_cores(total.after.cpu), _format_gib(total.after.memory)) if text]
        )
        containers = "" if unknown == total.containers else f" of {pluralize(unknown, 'container')}"
        yield f"The requests should be {needed or 'zero'} in total; the current requests{containers} are unknown."
    early = sum(total.reasons.get(reason.code, 0) for reason in (LOW_CONFIDENCE, NO_USAGE))
    if unknown != total.containers:
        yield from _summarize_totals(advised, has_requests=early < total.containers)
    if early:
        yield f"{pluralize(early, 'container')} {'has' if early == 1 else 'have'} too little history for advice."


def _summarize_totals(advised: SurveyAdvice, *, has_requests: bool) -> Iterator[str]:
    total = advised.total
    if _has_amount(total, "saved"):
        cost = ""
        if total.money_before > 0:
            paid = f"{format_money(total.money_saved)} of {format_money(total.money_before)}"
            cost = f": {advised.prices.currency} {paid} a month"
        saved = join_words([text for text in (_format_cores(total.saved.cpu), _format_gib(total.saved.memory)) if text])
        yield f"{saved} are requested but not needed{cost} ({format_share(total.saved_share)})."
    elif has_requests:
        yield "No container requests more than it needs."
    if _has_amount(total, "short"):
        short = join_words([text for text in (_format_cores(total.short.cpu), _format_gib(total.short.memory)) if text])
        short_containers = sum(
            total.reasons.get(reason.code, 0) for reason in (MEMORY_AT_RISK, UNDER_REQUESTED, NO_REQUEST)
        )
        cost = (
            f" ({advised.prices.currency} {format_money(total.money_short)} a month)" if total.money_short > 0 else ""
        )
        verb = "requests" if short_containers == 1 else "request"
        yield f"{pluralize(short_containers, 'container')} {verb} too little: {short} more are needed{cost}."
    risky = total.reasons.get(MEMORY_AT_RISK.code, 0)
    if risky:
        yield f"{pluralize(risky, 'container')} {'risks' if risky == 1 else 'risk'} being OOM-killed."


def _has_amount(total: AdviceTotals, side: str) -> bool:
    usage = total.saved if side == "saved" else total.short
    return usage.cpu >= 1000 * _NEGLIGIBLE or usage.memory >= _NEGLIGIBLE * GIB


def _format_cores(milli: float) -> str:
    return f"{format_significant(milli / 1000)} cores" if milli >= 1000 * _NEGLIGIBLE else ""


def _format_gib(bytes_: float) -> str:
    return f"{format_gib(bytes_)} GiB" if bytes_ >= _NEGLIGIBLE * GIB else ""


def describe_scale_points(advised: SurveyAdvice) -> Iterator[str]:
    """A sentence for each HPA whose behaviour a new request would change."""
    for workload in advised.workloads:
        for point in workload.scale_points:
            yield f"{format_workload_name(workload)}: {describe_scale_point(point)}"


def describe_scale_point(point: HpaScalePoint) -> str:
    """The effect of new requests on one target of an HPA."""
    request = f"the {RESOURCE_WORDS[point.resource]} request of {point.container or 'the pod'}"
    target = f"HPA {point.hpa} keeps usage at {point.utilization:g} % of {request}"
    if point.reason is SCALE_POINT_MISSING:
        return f"{target}, and does nothing while a container has no such request."
    before, after = (format_amount(point.resource, value) for value in (point.before, point.after))
    moved = f"{'-' if point.moves_by < 0 else '+'}{format_share(abs(point.moves_by))}"
    adds = f"it adds pods above {before} of usage per pod now, and above {after} with the new request ({moved})"
    return f"{target}: {adds}. With a target of {point.keeps:.0f} % it scales as before."


def list_remarks(advised: SurveyAdvice) -> Iterator[str]:
    """What could not be read, notes of the survey, and other objects that decide about sizes."""
    for missing in advised.surveyed.missing:
        yield f"Could not be read: {missing}"
    for note in advised.surveyed.notes:
        yield f"Note: {note}"
    governed = [workload for workload in advised.workloads if workload.is_change and workload.surveyed.vpas]
    if governed:
        rest = f" and {len(governed) - _MAX_NAMES} more" if len(governed) > _MAX_NAMES else ""
        names = ", ".join(format_workload_name(workload) for workload in governed[:_MAX_NAMES])
        yield f"Note: a VerticalPodAutoscaler may set other requests for {names}{rest}"
    for row in advised.rows:
        yield from _describe_bounds(row)
    mixed = sum(row.container.surveyed.differing > 0 for row in advised.rows)
    if mixed:
        yield f"Note: requests differ between pods of {pluralize(mixed, 'container')}; the most frequent are shown"


def _describe_bounds(row: AdviceRow) -> Iterator[str]:
    for resource in RESOURCES:
        change = row.container.get_resource(resource)
        if change.capped is not None:
            needed, allowed = format_amount(resource, change.estimate), format_amount(resource, change.request)
            container = escape_name(row.container.surveyed.name)
            subject = f"{format_workload_name(row.workload)} {container}, {RESOURCE_WORDS[resource]}"
            yield f"Note: {subject}: {needed} is needed, {allowed} is allowed ({change.capped.code})"


def describe_effort(used: SurveyEffort) -> str:
    """How many queries the survey took; empty if there were none."""
    if not used.queries:
        return f"{format_count(used.samples)} samples read." if used.samples else ""
    beside = (
        f" (one query per container would be {format_count(used.queries_per_container)})"
        if used.queries_per_container
        else ""
    )
    retries = f", {format_count(used.repeated)} repeated" if used.repeated else ""
    duration = f" in {used.seconds:.1f} s" if used.seconds else ""
    queries = "1 query" if used.queries == 1 else f"{format_count(used.queries)} queries"
    return f"{queries}{retries}{beside}, {format_count(used.samples)} samples{duration}."
