"""Explains in sentences the replica count and the pod size of an Hvpa's workload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.hvpa import (
    DemandPart,
    HeldStepPart,
    HpaSourcePart,
    HvpaContainerPart,
    HvpaPart,
    ScaleRequestPart,
    VpaSourcePart,
)
from trellis.core.explain.explanation.values import QuantityTexts
from trellis.core.hvpa.demand.hpa import HPA_BOUNDS
from trellis.core.hvpa.steps import STABILIZATION_WINDOW
from trellis.reports.explain.bucket_drawing import draw_buckets
from trellis.reports.text.numbers import format_share
from trellis.reports.text.phrases import format_clause, join_words
from trellis.reports.text.quantities import format_bucket_quantity, format_moment, get_resource_word

_SOURCES: Final = {"hpa": "the HPA", "vpa": "the VPA"}
_WISH: Final = "a count written to its scale subresource"
_SIZINGS: Final = {
    "Share": "the share",
    "AtLeastRecommended": "the larger of the share and the VPA's target",
}
_DECIDED: Final = "Decided: "


def summary_lines(hvpa: HvpaPart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if hvpa.problem is not None:
        yield f"It does not change {hvpa.target}. {hvpa.problem.code}: {hvpa.problem_details or hvpa.problem.meaning}"
    if hvpa.verdict is None or hvpa.replicas is None:
        return
    pods = "" if hvpa.ready == hvpa.pods == hvpa.replicas else f"; {pluralize(hvpa.pods, 'pod')}, {hvpa.ready} Ready"
    yield f"It scales {hvpa.target}, which has {pluralize(hvpa.replicas, 'replica')}{pods}."
    decision = _describe_decision(hvpa) if hvpa.demands else "Nothing changes."
    yield f"{decision} {hvpa.verdict.code}: {format_clause(hvpa.verdict.meaning)}."
    if hvpa.rivals:
        yield f"It yields to {join_words(hvpa.rivals)}."
    for note in hvpa.notes:
        yield f"{note.code}: {format_clause(note.meaning)}."
    for held in hvpa.blocked:
        yield _describe_blocked_step(held, now)


def mention_hvpa(hvpa: HvpaPart) -> str:
    """One sentence about the Hvpa of a pod or of a VPA."""
    if not hvpa.demands:
        reason = hvpa.yields or hvpa.problem or hvpa.verdict
        because = f": {format_clause(reason.meaning)}" if reason is not None else ""
        return f"Hvpa {hvpa.name} does not change {hvpa.target}{because}."
    decision = _describe_decision(hvpa).removeprefix(_DECIDED)
    return f"Hvpa {hvpa.name} decides number and size of the replicas of {hvpa.target}: {decision}"


def source_lines(hvpa: HvpaPart, now: str) -> Iterator[str]:
    """Where demand comes from."""
    if hvpa.vpa is not None:
        yield from _vpa_lines(hvpa, hvpa.vpa)
    if hvpa.hpa is not None:
        yield from _hpa_lines(hvpa, hvpa.hpa, now)
    if hvpa.scale_request is not None:
        yield from _scale_request_lines(hvpa, hvpa.scale_request, now)
    elif hvpa.hpa is None and hvpa.wish is not None and hvpa.wish != hvpa.replicas:
        yield f"spec.replicas is {hvpa.wish}, which the Hvpa controller has not processed yet."
    if hvpa.vpa is None and hvpa.hpa is None:
        yield "No HPA targets it, and no VPA in mode Off targets its workload."


def count_lines(hvpa: HvpaPart, width: int, *, plain: bool) -> Iterator[str]:
    """How the count follows from the totals."""
    for demand in hvpa.demands:
        yield _describe_count(hvpa, demand)
    yield from _deciding_count(hvpa)
    for demand in hvpa.demands:
        yield ""
        yield from draw_buckets(hvpa, demand, width, plain=plain)
    if hvpa.count_changes:
        yield ""
    for change in hvpa.count_changes:
        totals = [
            f"{get_resource_word(name)} {format_bucket_quantity(name, text, hvpa.binary)}"
            for name, text in change.totals.items()
        ]
        when = f"Above {join_words(totals, 'or')}" if change.upwards else f"At or below {join_words(totals)}"
        yield f"{when} in total, the count is {change.count}."


def size_lines(hvpa: HvpaPart) -> Iterator[str]:
    """How the size follows from the count, and what containers get of it."""
    for demand in hvpa.demands:
        yield _describe_size(hvpa, demand)
    for portion in hvpa.containers:
        yield _describe_container_share(hvpa, portion)


def stored_lines(hvpa: HvpaPart) -> Iterator[str]:
    """The blocked steps in the status."""
    for step in hvpa.stored_blocked:
        message = str(step.get("message", "")).removesuffix(".")
        way, code = str(step.get("direction", "")).lower(), step["reason"]
        yield f"Blocked step {way}, {code}{f': {message}' if message else ''}."


def _describe_decision(hvpa: HvpaPart) -> str:
    size = f" of {_format_amounts(hvpa, hvpa.size)} each" if hvpa.size else ""
    return f"{_DECIDED}{pluralize(hvpa.count, 'replica')}{size}."


def _describe_blocked_step(held: HeldStepPart, now: str) -> str:
    step = f" ({held.details})" if held.details else ""
    # The windows of the controller may have begun earlier.
    latest = ", at the latest" if held.reason.code == STABILIZATION_WINDOW.code else ""
    until = f"; until {format_moment(held.until, now)}{latest}" if held.until else ""
    return (
        f"Blocked step {held.direction.lower()}{step}, {held.reason.code}: {format_clause(held.reason.meaning)}{until}."
    )


def _vpa_lines(hvpa: HvpaPart, vpa: VpaSourcePart) -> Iterator[str]:
    ownership = _describe_ownership(vpa)
    if not vpa.target:
        yield f"VPA {vpa.name} ({ownership}) recommends nothing yet."
        return
    yield f"VPA {vpa.name} ({ownership}) recommends {_format_amounts(hvpa, vpa.target)} for a pod."
    yield f"  Its total for the workload is {_format_amounts(hvpa, vpa.totals)}."
    if vpa.scaled_by:
        yield f"  The total is the usage history of the workload, scaled by the target of recommender {vpa.scaled_by}."
    if vpa.held:
        resources = join_words([get_resource_word(resource) for resource in vpa.held])
        yield f"  No total of {resources} is published: it stays at target times replicas of the first pass."


def _scale_request_lines(hvpa: HvpaPart, wished: ScaleRequestPart, now: str) -> Iterator[str]:
    since = f", since {format_moment(wished.since, now)}" if wished.since else ""
    yield f"A count written to its scale subresource asks for {_format_amounts(hvpa, wished.totals)} in total{since}."
    if wished.condition_message:
        yield f"  {wished.condition_message}"


def _describe_ownership(source: HpaSourcePart | VpaSourcePart) -> str:
    if source.owned:
        return "owned by this Hvpa"
    return f"owned by Hvpa {source.owner}" if source.owner else "not owned by an Hvpa"


def _hpa_lines(hvpa: HvpaPart, hpa: HpaSourcePart, now: str) -> Iterator[str]:
    ownership = _describe_ownership(hpa)
    metrics = join_words(hpa.metrics) or "no known metric"
    at = f"at {format_share(hpa.ratio)} of its target" if hpa.ratio is not None else "without values yet"
    between = f"between {hpa.min_replicas} and {hpa.max_replicas} replicas"
    yield f"HPA {hpa.name} ({ownership}) scales by {metrics}, {at}, {between}."
    if hpa.totals:
        since = f", since {format_moment(hpa.since, now)}" if hpa.since else ""
        yield f"  It asks for {_format_amounts(hvpa, hpa.totals)} in total{since}."
    if hvpa.wish is not None and hvpa.wish != hvpa.replicas:
        bound = any(note.code == HPA_BOUNDS.code for note in hvpa.notes)
        meaning = "is its own bound and no demand" if bound else "the Hvpa controller has not processed yet"
        yield f"  It wrote {hvpa.wish} into spec.replicas, which {meaning}."


def _describe_count(hvpa: HvpaPart, demand: DemandPart) -> str:
    name = demand.resource
    demanded, total = (format_bucket_quantity(name, text, hvpa.binary) for text in (demand.requested, demand.total))
    sources = {**_SOURCES, "hpa": _WISH} if hvpa.hpa is None else _SOURCES
    askers = f", from {join_words([sources[source] for source in demand.by])}" if demand.by else ""
    held = f"; {total} applies until a stabilization window ends" if total != demanded else ""
    holds = format_bucket_quantity(name, demand.up_to, hvpa.binary)
    if demand.limited:
        most = f"That exceeds the {holds} that {pluralize(demand.count, 'replica')} hold."
        return f"{get_resource_word(name)}: the demand is {demanded}{askers}{held}. {most}"
    fewer = f"fewer hold up to {format_bucket_quantity(name, demand.above, hvpa.binary)}, " if demand.above else ""
    needs = f"needs {pluralize(demand.count, 'replica')}: {fewer}{demand.count} up to {holds}"
    return f"{get_resource_word(name)}: the demand is {demanded}{askers}{held}. It {needs}."


def _deciding_count(hvpa: HvpaPart) -> Iterator[str]:
    if not hvpa.demands:
        return
    needed = max(demand.count for demand in hvpa.demands)
    if len({demand.count for demand in hvpa.demands}) > 1:
        yield f"The higher count applies: {needed}."
    if hvpa.count > needed:
        keeps = [demand for demand in hvpa.demands if demand.keeps]
        for demand in keeps:
            edge = format_bucket_quantity(demand.resource, demand.kept_above, hvpa.binary)
            below = f"{hvpa.overlap_percent} % below what fewer hold"
            above = f"{get_resource_word(demand.resource)} is above {edge}, which is {below}"
            yield f"{pluralize(hvpa.count, 'replica')} are kept: {above}."
        if not keeps:
            yield f"{pluralize(hvpa.count, 'replica')} stay for now: the step down is blocked."
    elif hvpa.count < needed:
        yield f"{pluralize(hvpa.count, 'replica')} stay for now: the step up is blocked."


def _describe_size(hvpa: HvpaPart, demand: DemandPart) -> str:
    name = demand.resource
    part, size = (
        format_bucket_quantity(name, demand.share, hvpa.binary),
        format_bucket_quantity(name, demand.size or "0", hvpa.binary),
    )
    target = (
        f"; the VPA's target is {format_bucket_quantity(name, demand.target, hvpa.binary)}" if demand.target else ""
    )
    total = format_bucket_quantity(name, demand.total, hvpa.binary)
    bounds = ""
    if demand.most:
        low, high = (format_bucket_quantity(name, text, hvpa.binary) for text in (demand.least, demand.most))
        bounds = f" (at this count a share is {low} to {high})"
    division = f"{total} over {pluralize(hvpa.count, 'replica')} is a share of {part}{target}"
    if demand.held:
        return f"{get_resource_word(name)}: {division}. The size stays {size} for now: a step is blocked."
    rule = f"With {demand.sizing}, the size is {_SIZINGS[demand.sizing]}"
    return f"{get_resource_word(name)}: {division}. {rule}: {size}{bounds}."


def _describe_container_share(hvpa: HvpaPart, portion: HvpaContainerPart) -> str:
    if not portion.scaled:
        return f"{portion.container} is not scaled: the mode of its policy is not Auto."
    if not portion.planned:
        return f"{portion.container} keeps the requests of its template."
    requests = (
        f"; it requests {_format_amounts(hvpa, portion.requests)} now" if portion.requests != portion.planned else ""
    )
    return f"{portion.container} gets {_format_amounts(hvpa, portion.planned)}{requests}."


def _format_amounts(hvpa: HvpaPart, quantities: QuantityTexts) -> str:
    return join_words(
        [
            f"{get_resource_word(name)} {format_bucket_quantity(name, text, hvpa.binary)}"
            for name, text in quantities.items()
        ]
    )
