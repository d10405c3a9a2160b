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
_WISH: Final = "a count written to its scale"
_SIZINGS: Final = {
    "Share": "its share counts",
    "AtLeastRecommended": "the larger of its share and the VPA's target counts",
}
_DECIDED: Final = "Decided: "


def summary_lines(hvpa: HvpaPart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if hvpa.problem is not None:
        yield f"It leaves {hvpa.target} alone. {hvpa.problem.code}: {hvpa.problem_details or hvpa.problem.meaning}"
    if hvpa.verdict is None or hvpa.replicas is None:
        return
    pods = "" if hvpa.ready == hvpa.pods == hvpa.replicas else f"; {pluralize(hvpa.pods, 'pod')}, {hvpa.ready} Ready"
    yield f"It scales {hvpa.target}, which has {pluralize(hvpa.replicas, 'replica')}{pods}."
    decision = _describe_decision(hvpa) if hvpa.demands else "All is left as it is."
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
        return f"Hvpa {hvpa.name} leaves {hvpa.target} alone{because}."
    decision = _describe_decision(hvpa).removeprefix(_DECIDED)
    return f"Hvpa {hvpa.name} decides how many pods {hvpa.target} has and how big each is: {decision}"


def source_lines(hvpa: HvpaPart, now: str) -> Iterator[str]:
    """Where demand comes from."""
    if hvpa.vpa is not None:
        yield from _vpa_lines(hvpa, hvpa.vpa)
    if hvpa.hpa is not None:
        yield from _hpa_lines(hvpa, hvpa.hpa, now)
    if hvpa.scale_request is not None:
        yield from _scale_request_lines(hvpa, hvpa.scale_request, now)
    elif hvpa.hpa is None and hvpa.wish is not None and hvpa.wish != hvpa.replicas:
        yield f"spec.replicas says {hvpa.wish}: a wish that the controller has not answered yet."
    if hvpa.vpa is None and hvpa.hpa is None:
        yield "Neither an HPA pointed at it nor a VPA in mode Off on its target is there."


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
        when = f"above {join_words(totals, 'or')}" if change.upwards else f"at or below {join_words(totals)}"
        yield f"It would be {pluralize(change.count, 'replica')} {when} in total."


def size_lines(hvpa: HvpaPart) -> Iterator[str]:
    """How the size follows from the count, and what containers get of it."""
    for demand in hvpa.demands:
        yield _describe_size(hvpa, demand)
    for portion in hvpa.containers:
        yield _describe_container_share(hvpa, portion)


def stored_lines(hvpa: HvpaPart) -> Iterator[str]:
    """What the controller itself says of steps that it holds back."""
    for step in hvpa.stored_blocked:
        message = str(step.get("message", "")).removesuffix(".")
        way, code = str(step.get("direction", "")).lower(), step["reason"]
        yield f"The controller holds a step {way} back, {code}{f': {message}' if message else ''}."


def _describe_decision(hvpa: HvpaPart) -> str:
    size = f" of {_format_amounts(hvpa, hvpa.size)} each" if hvpa.size else ""
    return f"{_DECIDED}{pluralize(hvpa.count, 'replica')}{size}."


def _describe_blocked_step(held: HeldStepPart, now: str) -> str:
    step = f" ({held.details})" if held.details else ""
    # The windows of the controller may have begun earlier.
    latest = ", at the latest" if held.reason.code == STABILIZATION_WINDOW.code else ""
    until = f"; until {format_moment(held.until, now)}{latest}" if held.until else ""
    return (
        f"Held back, {held.direction.lower()}{step}: {held.reason.code}: {format_clause(held.reason.meaning)}{until}."
    )


def _vpa_lines(hvpa: HvpaPart, vpa: VpaSourcePart) -> Iterator[str]:
    ownership = _describe_ownership(vpa)
    if not vpa.target:
        yield f"VPA {vpa.name}, {ownership}, recommends nothing yet."
        return
    yield f"VPA {vpa.name}, {ownership}, recommends {_format_amounts(hvpa, vpa.target)} for a pod."
    yield f"  For the whole workload that is {_format_amounts(hvpa, vpa.totals)} in total."
    if vpa.scaled_by:
        yield f"  That is the history of the whole workload, scaled by the target of recommender {vpa.scaled_by}."
    if vpa.held:
        resources = join_words([get_resource_word(resource) for resource in vpa.held])
        yield f"  Of {resources} no total is published: it is held at the target times the count of the first pass."


def _scale_request_lines(hvpa: HvpaPart, wished: ScaleRequestPart, now: str) -> Iterator[str]:
    since = f", since {format_moment(wished.since, now)}" if wished.since else ""
    yield f"A count written to its scale asks for {_format_amounts(hvpa, wished.totals)} in total{since}."
    if wished.condition_message:
        yield f"  {wished.condition_message}"


def _describe_ownership(source: HpaSourcePart | VpaSourcePart) -> str:
    if source.owned:
        return "its own"
    return f"that of Hvpa {source.owner}" if source.owner else "yours"


def _hpa_lines(hvpa: HvpaPart, hpa: HpaSourcePart, now: str) -> Iterator[str]:
    ownership = _describe_ownership(hpa)
    metrics = join_words(hpa.metrics) or "no metric that is known"
    at = f", at {format_share(hpa.ratio)} of its target" if hpa.ratio is not None else ", and has no metrics yet"
    between = f"between {hpa.min_replicas} and {hpa.max_replicas} replicas"
    yield f"HPA {hpa.name}, {ownership}, looks at {metrics}{at}; it may ask for {between}."
    if hpa.totals:
        since = f", since {format_moment(hpa.since, now)}" if hpa.since else ""
        yield f"  It asks for {_format_amounts(hvpa, hpa.totals)} in total{since}."
    if hvpa.wish is not None and hvpa.wish != hvpa.replicas:
        bound = any(note.code == HPA_BOUNDS.code for note in hvpa.notes)
        meaning = "its own bound and no wish" if bound else "a wish that the controller has not answered yet"
        yield f"  It wrote {hvpa.wish} into spec.replicas, which is {meaning}."


def _describe_count(hvpa: HvpaPart, demand: DemandPart) -> str:
    name = demand.resource
    demanded, total = (format_bucket_quantity(name, text, hvpa.binary) for text in (demand.requested, demand.total))
    sources = {**_SOURCES, "hpa": _WISH} if hvpa.hpa is None else _SOURCES
    askers = f" by {join_words([sources[source] for source in demand.by])}" if demand.by else ""
    held = f", and {total} counts until a window is over" if total != demanded else ""
    holds = format_bucket_quantity(name, demand.up_to, hvpa.binary)
    if demand.limited:
        most = f"That is more than the {holds} that {demand.count} hold."
        return f"{get_resource_word(name)}: {demanded} asked for{askers}{held}. {most}"
    fewer = f"fewer hold up to {format_bucket_quantity(name, demand.above, hvpa.binary)}, " if demand.above else ""
    takes = f"takes {pluralize(demand.count, 'replica')}: {fewer}{demand.count} up to {holds}"
    return f"{get_resource_word(name)}: {demanded} asked for{askers}{held}. It {takes}."


def _deciding_count(hvpa: HvpaPart) -> Iterator[str]:
    if not hvpa.demands:
        return
    needed = max(demand.count for demand in hvpa.demands)
    if len({demand.count for demand in hvpa.demands}) > 1:
        yield f"The higher count wins: {needed}."
    if hvpa.count > needed:
        keeps = [demand for demand in hvpa.demands if demand.keeps]
        for demand in keeps:
            edge = format_bucket_quantity(demand.resource, demand.kept_above, hvpa.binary)
            below = f"{hvpa.overlap_percent} % below what fewer hold"
            yield f"{hvpa.count} are kept: {get_resource_word(demand.resource)} is above {edge}, which is {below}."
        if not keeps:
            yield f"{hvpa.count} stay for now: the step down is held back."
    elif hvpa.count < needed:
        yield f"{hvpa.count} stay for now: the step up is held back."


def _describe_size(hvpa: HvpaPart, demand: DemandPart) -> str:
    name = demand.resource
    part, size = (
        format_bucket_quantity(name, demand.share, hvpa.binary),
        format_bucket_quantity(name, demand.size or "0", hvpa.binary),
    )
    target = (
        f", and the VPA's target is {format_bucket_quantity(name, demand.target, hvpa.binary)}" if demand.target else ""
    )
    total = format_bucket_quantity(name, demand.total, hvpa.binary)
    bounds = ""
    if demand.most:
        low, high = (format_bucket_quantity(name, text, hvpa.binary) for text in (demand.least, demand.most))
        bounds = f"; at this count a share is {low} to {high}"
    division = f"{total} over {pluralize(hvpa.count, 'replica')} is {part} for each{target}"
    if demand.held:
        return f"{get_resource_word(name)}: {division}. It stays {size} for now: a step is held back."
    return f"{get_resource_word(name)}: {division}. With {demand.sizing} {_SIZINGS[demand.sizing]}: {size}{bounds}."


def _describe_container_share(hvpa: HvpaPart, portion: HvpaContainerPart) -> str:
    if not portion.scaled:
        return f"{portion.container} is not scaled: its policy has another mode than Auto."
    if not portion.planned:
        return f"{portion.container} keeps what its template says."
    requests = (
        f", and requests {_format_amounts(hvpa, portion.requests)} now" if portion.requests != portion.planned else ""
    )
    return f"{portion.container} gets {_format_amounts(hvpa, portion.planned)} of it{requests}."


def _format_amounts(hvpa: HvpaPart, quantities: QuantityTexts) -> str:
    return join_words(
        [
            f"{get_resource_word(name)} {format_bucket_quantity(name, text, hvpa.binary)}"
            for name, text in quantities.items()
        ]
    )
