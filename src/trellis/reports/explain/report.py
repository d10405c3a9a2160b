"""The text and JSON of an explanation: the summary first, then everything else in chapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.document import MissingEvidencePart, ObjectExplanation, VpaPart
from trellis.core.explain.explanation.hvpa import HvpaPart
from trellis.core.explain.explanation.workload import WorkloadPart
from trellis.core.resize.actions import DecisionKind
from trellis.reports.explain import buffer, node, workload
from trellis.reports.explain.hvpa import (
    count_lines,
    mention_hvpa,
    size_lines,
    source_lines,
    stored_lines,
    summary_lines,
)
from trellis.reports.explain.node import describe_placement_decision, placement_lines
from trellis.reports.explain.pods import group_pods, new_pod_lines, pod_lines, pod_title, summarize_pods
from trellis.reports.explain.recommendation import container_lines
from trellis.reports.explain.related_objects import BUDGET, describe_related_object
from trellis.reports.formats import encode_indented
from trellis.reports.text.phrases import format_clause, join_words
from trellis.reports.text.quantities import format_moment
from trellis.reports.text.tables import wrap_text

_KINDS: Final = {
    "vpa": "VerticalPodAutoscaler",
    "hvpa": "Hvpa",
    "buffer": "Buffer",
    "node": "Node",
    "pod": "Pod",
    "recommendation": "Recommendation of VPA",
}
_MODES: Final = {
    "Off": "it recommends requests and changes no pod",
    "Initial": "new pods get the recommended requests; running pods are not changed",
    "Recreate": "running pods that differ too much from the recommendation are evicted and recreated",
    "InPlaceOrRecreate": "running pods are resized in place, and evicted if that fails",
    "InPlace": "running pods are resized in place and never evicted",
}
_INDENT: Final = "  "
_POD: Final = "pod"
_HVPA: Final = "hvpa"
_BUFFER: Final = "buffer"


def as_text(explained: ObjectExplanation, width: int = 100, *, plain: bool = False) -> Iterator[str]:
    """The lines of an explanation; `plain` draws with characters that every terminal has."""
    for depth, line in _lines(explained, width, plain=plain):
        inner = len(line) - len(line.lstrip(" "))
        indent = _INDENT * depth + " " * inner
        if "  " in line.strip() or not line:
            yield f"{indent}{line.strip()}".rstrip()  # a drawing
            continue
        yield from (f"{indent}{wrapped}" for wrapped in wrap_text(line.strip(), max(width - len(indent), 20)))


def as_json(explained: ObjectExplanation) -> bytes:
    """The explanation itself, as JSON."""
    return encode_indented(explained)


def _lines(explained: ObjectExplanation, width: int, *, plain: bool) -> Iterator[tuple[int, str]]:
    now, vpa = explained.time, explained.vpa
    inner_width = width - len(_INDENT)
    where = f"{explained.namespace}/" if explained.namespace else ""
    kind = explained.workload.kind if explained.workload is not None else _KINDS[explained.kind]
    yield 0, f"{kind} {where}{explained.name}, at {now}"
    if explained.partial:
        yield 0, "This answer is partial: what could not be read is listed under NOT OBSERVED."
    yield 0, ""
    yield from ((0, line) for line in _first_lines(explained))
    # The requested object comes first.
    if explained.kind == _POD:
        yield from _pod_lines(explained)
    if explained.kind == _HVPA and explained.hvpa is not None:
        yield from _hvpa_chapters(explained.hvpa, now, inner_width, plain=plain)
    for title, lines in _titled_chapters(explained):
        yield from _chapter_title(title)
        yield from ((1, line) for line in lines)
    # An explanation of a workload is an overview: `explain recommendation` has the steps.
    for container in explained.containers if explained.workload is None else ():
        yield from _chapter_title(f"RECOMMENDATION FOR CONTAINER {container.name}")
        parameters = vpa.parameters if vpa is not None else {}
        yield from ((1, line) for line in container_lines(container, parameters, now, inner_width, plain=plain))
    if explained.kind != _POD:
        yield from _pod_lines(explained)
    for new in explained.new_pods:
        yield from _chapter_title(f"NEW POD OF {new.workload}")
        yield from ((1, line) for line in new_pod_lines(new))
    yield from _related_object_lines(explained)


def _first_lines(explained: ObjectExplanation) -> Iterator[str]:
    """The lines at the top of an explanation."""
    now = explained.time
    if explained.workload is not None:
        yield from _workload_lines(explained, explained.workload)
    elif explained.vpa is not None:
        yield from _vpa_lines(explained.vpa, named=explained.kind == _POD)
    if explained.hvpa is not None and explained.workload is None:
        yield from summary_lines(explained.hvpa, now) if explained.kind == _HVPA else (mention_hvpa(explained.hvpa),)
    if explained.buffer is not None:
        yield from buffer.summary_lines(explained.buffer, now)
    if explained.node is not None:
        yield from node.summary_lines(explained.node, now)
    if explained.kind == _POD and explained.placement is not None:
        yield f"The pod is not scheduled. {describe_placement_decision(explained.placement)}"
    yield from summarize_pods(explained.pods, alone=explained.kind == _POD)
    yield from _refusal_lines(explained)


def _workload_lines(explained: ObjectExplanation, part: WorkloadPart) -> Iterator[str]:
    """What governs a workload: its size, its count and its spare capacity."""
    yield from workload.origin_lines(part)
    sizes = [*_vpa_lines(explained.vpa, named=True)] if explained.vpa is not None else []
    sizes += [mention_hvpa(explained.hvpa)] if explained.hvpa is not None else []
    if sizes:
        yield f"Size: {sizes[0]}"
        yield from sizes[1:]
    yield from workload.ungoverned_lines(part, governed=bool(sizes))
    yield from workload.count_lines(part)
    yield from workload.capacity_lines(part, explained.time)


def _titled_chapters(explained: ObjectExplanation) -> Iterator[tuple[str, Iterator[str]]]:
    """Chapters about a workload's template, a Buffer or a node, and about nodes for pods that wait for one."""
    if explained.workload is not None and explained.workload.containers:
        yield (
            "CONTAINERS",
            workload.container_lines(explained.workload, explained.vpa.name if explained.vpa is not None else ""),
        )
    if explained.buffer is not None:
        yield from buffer.chapters(explained.buffer, explained.time)
    if explained.node is not None:
        yield from node.chapters(explained.node, explained.time)
    if explained.placement is not None:
        yield "PLACEMENT", placement_lines(explained.placement, "chunk" if explained.kind == _BUFFER else "pod")


def _hvpa_chapters(hvpa: HvpaPart, now: str, width: int, *, plain: bool) -> Iterator[tuple[int, str]]:
    if hvpa.verdict is None:
        return
    yield from _chapter_title("DEMAND")
    yield from ((1, line) for line in source_lines(hvpa, now))
    if hvpa.demands:
        yield from _chapter_title("REPLICAS")
        yield from ((1, line) for line in count_lines(hvpa, width, plain=plain))
        yield from _chapter_title("SIZE")
        yield from ((1, line) for line in size_lines(hvpa))


def _refusal_lines(explained: ObjectExplanation) -> Iterator[str]:
    """Budgets that make the API server refuse an eviction that the updater plans."""
    if any(pod.way == DecisionKind.EVICT.value for pod in explained.pods):
        for influence in explained.influences:
            if influence.kind == BUDGET and not influence.values["disruptionsAllowed"]:
                budget = influence.name
                yield f"PodDisruptionBudget {budget} allows no disruption now: the API server refuses evictions."


def _pod_lines(explained: ObjectExplanation) -> Iterator[tuple[int, str]]:
    if explained.pods:
        yield from _chapter_title("POD" if explained.kind == _POD else "PODS")
    for group in group_pods(explained.pods):
        yield 1, pod_title(group)
        yield from ((2, line) for line in pod_lines(group[0], explained.time))


def _related_object_lines(explained: ObjectExplanation) -> Iterator[tuple[int, str]]:
    now, vpa = explained.time, explained.vpa
    if vpa is not None and (vpa.conditions or vpa.stored_conditions):
        yield from _chapter_title("CONDITIONS")
        yield from (
            (1, line) for line in _condition_lines(vpa.conditions or vpa.stored_conditions, vpa.stored_conditions)
        )
    elif explained.kind == _HVPA and explained.hvpa is not None and explained.hvpa.conditions:
        yield from _chapter_title("CONDITIONS")
        yield from ((1, line) for line in _condition_lines(explained.hvpa.conditions))
        yield from ((1, line) for line in stored_lines(explained.hvpa))
    elif explained.buffer is not None and explained.buffer.skip_reason is None:
        yield from _chapter_title("STATUS")
        yield from ((1, line) for line in buffer.stored_lines(explained.buffer, now))
        yield from ((1, line) for line in _condition_lines(explained.buffer.conditions))
    if explained.influences:
        yield from _chapter_title("RELATED OBJECTS")
        yield from ((1, describe_related_object(influence, now)) for influence in explained.influences)
    if explained.events:
        yield from _chapter_title("RECENT EVENTS")
        for event in explained.events:
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield 1, f"{format_moment(event.time, now)}: {event.about}, {event.reason}{times}: {event.message}"
    if explained.missing:
        yield from _chapter_title("NOT OBSERVED")
        yield from ((1, line) for line in _missing_evidence_lines(explained.missing))


def _missing_evidence_lines(missing: Sequence[MissingEvidencePart]) -> Iterator[str]:
    """A line for each reason: with few permissions there would be dozens that differ in a word."""
    for reason in {part.reason.code: part.reason for part in missing}.values():
        by_cause: dict[str, list[str]] = {}
        for part in missing:
            if part.reason == reason and part.details:
                subject, _, cause = part.details.rpartition(": ")
                by_cause.setdefault(cause if subject else "", []).append(subject or cause)
        details = "; ".join(
            f"{', '.join(subjects)}{f': {cause}' if cause else ''}" for cause, subjects in by_cause.items()
        )
        yield f"{reason.code}: {format_clause(reason.meaning)}{f' ({details})' if details else ''}."


def _chapter_title(title: str) -> Iterator[tuple[int, str]]:
    yield 0, ""
    yield 0, title


def _vpa_lines(vpa: VpaPart, *, named: bool) -> Iterator[str]:
    subject = f"VerticalPodAutoscaler {vpa.name}" if named else "It"
    if vpa.problem:
        yield f"Its target cannot be used. {vpa.problem}."
    yield f"{subject} governs {pluralize(vpa.pods, 'pod')} of {vpa.target} in mode {vpa.mode}: {_MODES[vpa.mode]}."
    if vpa.is_answered:
        yield f"The recommender {vpa.recommender} computes the recommendation."
    else:
        yield f"The recommender {vpa.recommender} computes the recommendation, and is not available here."
    if vpa.rivals:
        rivals = join_words(vpa.rivals)
        govern = "govern" if len(vpa.rivals) > 1 else "governs"
        yield f"{rivals} {govern} pods that this VPA matches, as the older VPA or because this VPA is in mode Off."
    if vpa.shadows_not_running:
        yield f"There are no recommenders of the names of these shadows: {join_words(vpa.shadows_not_running)}."
    if vpa.failure:
        yield f"Its recommender failed: {vpa.failure}."


def _condition_lines(computed: Sequence[Mapping[str, Any]], stored: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    stored_by_type = {condition["type"]: condition for condition in stored}
    for condition in computed:
        details = ": ".join(text for text in (condition.get("reason", ""), condition.get("message", "")) if text)
        previous = stored_by_type.get(condition["type"])
        differs = (
            ""
            if previous is None or previous["status"] == condition["status"]
            else f" (the stored status is {previous['status']})"
        )
        yield f"{condition['type']} is {condition['status']}{differs}{f', {details}' if details else ''}"
