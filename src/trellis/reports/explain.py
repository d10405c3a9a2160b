"""Why did it do that? An explanation as text: what is to be known first, then everything else by chapters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.base.counted import counted
from trellis.core.explain.explained import Explained, Unseen, VpaPart
from trellis.core.explain.hvpa_parts import HvpaPart
from trellis.core.resize.inplace import Way
from trellis.reports import explain_buffer, explain_node
from trellis.reports.describe.words import clause, listed
from trellis.reports.explain_containers import container_lines
from trellis.reports.explain_hvpa import (
    count_lines,
    mention,
    size_lines,
    source_lines,
    stored_lines,
    summary_lines,
)
from trellis.reports.explain_placing import placing_lines, verdict_sentence
from trellis.reports.explain_pods import new_pod_lines, pod_groups, pod_lines, pod_title, summary
from trellis.reports.explain_says import BUDGET, say_sentence
from trellis.reports.explain_words import moment
from trellis.reports.text_tables import wrapped

_KINDS: Final = {
    "vpa": "VerticalPodAutoscaler",
    "hvpa": "Hvpa",
    "buffer": "Buffer",
    "node": "Node",
    "pod": "Pod",
    "recommendation": "Recommendation of",
}
_MODES: Final = {
    "Off": "it recommends, and changes no pod",
    "Initial": "new pods get what is recommended, and running pods are left alone",
    "Recreate": "running pods that are too far off are evicted, and come back as recommended",
    "InPlaceOrRecreate": "running pods are resized in place, and evicted where that fails",
    "InPlace": "running pods are resized in place, and never evicted",
}
_INDENT: Final = "  "
_POD: Final = "pod"
_HVPA: Final = "hvpa"
_BUFFER: Final = "buffer"


def as_text(explained: Explained, width: int = 100, *, plain: bool = False) -> Iterator[str]:
    """The lines of an explanation; `plain` draws with characters that every terminal has."""
    for depth, line in _lines(explained, width, plain=plain):
        inner = len(line) - len(line.lstrip(" "))
        indent = _INDENT * depth + " " * inner
        if "  " in line.strip() or not line:
            yield f"{indent}{line.strip()}".rstrip()  # a drawing
            continue
        yield from (f"{indent}{each}" for each in wrapped(line.strip(), max(width - len(indent), 20)))


def as_json(explained: Explained) -> bytes:
    """The explanation itself, as JSON."""
    return msgspec.json.format(msgspec.json.encode(explained), indent=2) + b"\n"


def _lines(explained: Explained, width: int, *, plain: bool) -> Iterator[tuple[int, str]]:
    now, vpa = explained.time, explained.vpa
    where = f"{explained.namespace}/" if explained.namespace else ""
    yield 0, f"{_KINDS[explained.kind]} {where}{explained.name}, at {now}"
    if explained.partial:
        yield 0, "This answer is partial: the end says what could not be seen."
    yield 0, ""
    yield from ((0, line) for line in _first_lines(explained))
    # What was asked about comes first.
    if explained.kind == _POD:
        yield from _pods(explained)
    if explained.kind == _HVPA and explained.hvpa is not None:
        yield from _hvpa_chapters(explained.hvpa, now, width - len(_INDENT), plain=plain)
    for title, lines in _titled(explained):
        yield from _chapter(title)
        yield from ((1, line) for line in lines)
    for container in explained.containers:
        yield from _chapter(f"RECOMMENDATION FOR CONTAINER {container.name}")
        parameters = vpa.parameters if vpa is not None else {}
        yield from ((1, line) for line in container_lines(container, parameters, now, plain=plain))
    if explained.kind != _POD:
        yield from _pods(explained)
    for new in explained.new_pods:
        yield from _chapter(f"A NEW POD OF {new.workload}")
        yield from ((1, line) for line in new_pod_lines(new))
    yield from _around(explained)


def _first_lines(explained: Explained) -> Iterator[str]:
    """What is to be known first."""
    now = explained.time
    if explained.vpa is not None:
        yield from _vpa_lines(explained.vpa, explained.kind)
    if explained.hvpa is not None:
        yield from summary_lines(explained.hvpa, now) if explained.kind == _HVPA else (mention(explained.hvpa),)
    if explained.buffer is not None:
        yield from explain_buffer.summary_lines(explained.buffer, now)
    if explained.node is not None:
        yield from explain_node.summary_lines(explained.node, now)
    if explained.kind == _POD and explained.placing is not None:
        yield f"The pod has no node. {verdict_sentence(explained.placing)}"
    yield from summary(explained.pods, alone=explained.kind == _POD)
    yield from _refused(explained)


def _titled(explained: Explained) -> Iterator[tuple[str, Iterator[str]]]:
    """Chapters about a Buffer or a node, and about nodes for whoever wants them."""
    if explained.buffer is not None:
        yield from explain_buffer.chapters(explained.buffer, explained.time)
    if explained.node is not None:
        yield from explain_node.chapters(explained.node, explained.time)
    if explained.placing is not None:
        yield "NODES FOR IT", placing_lines(explained.placing, "chunk" if explained.kind == _BUFFER else "pod")


def _hvpa_chapters(hvpa: HvpaPart, now: str, width: int, *, plain: bool) -> Iterator[tuple[int, str]]:
    if hvpa.verdict is None:
        return
    yield from _chapter("WHERE DEMAND COMES FROM")
    yield from ((1, line) for line in source_lines(hvpa, now))
    if hvpa.demands:
        yield from _chapter("HOW MANY")
        yield from ((1, line) for line in count_lines(hvpa, width, plain=plain))
        yield from _chapter("HOW BIG")
        yield from ((1, line) for line in size_lines(hvpa))


def _refused(explained: Explained) -> Iterator[str]:
    """Budgets under which the API server does not let a pod go that the updater wants to evict."""
    if any(pod.way == Way.EVICT.value for pod in explained.pods):
        for say in explained.says:
            if say.kind == BUDGET and not say.values["disruptionsAllowed"]:
                yield f"But PodDisruptionBudget {say.name} allows no disruption now: the API server refuses evictions."


def _pods(explained: Explained) -> Iterator[tuple[int, str]]:
    if explained.pods:
        yield from _chapter("THE POD" if explained.kind == _POD else "PODS")
    for group in pod_groups(explained.pods):
        yield 1, pod_title(group)
        yield from ((2, line) for line in pod_lines(group[0], explained.time))


def _around(explained: Explained) -> Iterator[tuple[int, str]]:
    now, vpa = explained.time, explained.vpa
    if vpa is not None and (vpa.conditions or vpa.stored_conditions):
        yield from _chapter("CONDITIONS")
        yield from ((1, line) for line in _conditions(vpa.conditions or vpa.stored_conditions, vpa.stored_conditions))
    elif explained.kind == _HVPA and explained.hvpa is not None and explained.hvpa.conditions:
        yield from _chapter("CONDITIONS")
        yield from ((1, line) for line in _conditions(explained.hvpa.conditions))
        yield from ((1, line) for line in stored_lines(explained.hvpa))
    elif explained.buffer is not None and explained.buffer.alone is None:
        yield from _chapter("ITS STATUS")
        yield from ((1, line) for line in explain_buffer.stored_lines(explained.buffer, now))
        yield from ((1, line) for line in _conditions(explained.buffer.conditions))
    if explained.says:
        yield from _chapter("WHO ELSE HAS A SAY")
        yield from ((1, say_sentence(say, now)) for say in explained.says)
    if explained.events:
        yield from _chapter("WHAT HAPPENED LATELY")
        for event in explained.events:
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield 1, f"{moment(event.time, now)}: {event.about}, {event.reason}{times}: {event.message}"
    if explained.unseen:
        yield from _chapter("WHAT COULD NOT BE SEEN")
        yield from ((1, line) for line in _unseen_lines(explained.unseen))


def _unseen_lines(unseen: Sequence[Unseen]) -> Iterator[str]:
    """A line for each reason: whoever may read little would have dozens that differ in a word."""
    for reason in {each.reason.code: each.reason for each in unseen}.values():
        by_why: dict[str, list[str]] = {}
        for each in unseen:
            if each.reason == reason and each.details:
                what, _, why = each.details.rpartition(": ")
                by_why.setdefault(why if what else "", []).append(what or why)
        details = "; ".join(f"{', '.join(what)}{f': {why}' if why else ''}" for why, what in by_why.items())
        yield f"{reason.code}: {clause(reason.meaning)}{f' ({details})' if details else ''}."


def _chapter(title: str) -> Iterator[tuple[int, str]]:
    yield 0, ""
    yield 0, title


def _vpa_lines(vpa: VpaPart, kind: str) -> Iterator[str]:
    who = "It" if kind != _POD else f"VerticalPodAutoscaler {vpa.name}"
    if vpa.problem:
        yield f"Its target cannot be used. {vpa.problem}."
    yield f"{who} governs {counted(vpa.pods, 'pod')} of {vpa.target} in mode {vpa.mode}: {_MODES[vpa.mode]}."
    if vpa.is_answered:
        yield f"The recommender {vpa.recommender} says what they should request."
    else:
        yield f"The recommender {vpa.recommender} is none that can be asked here."
    if vpa.rivals:
        yield f"Pods that it matches are governed by {listed(vpa.rivals)}: older, or acting while this one does not."
    if vpa.shadows_not_running:
        yield f"No recommender answers to the names of these shadows: {listed(vpa.shadows_not_running)}."
    if vpa.failure:
        yield f"Its recommender failed: {vpa.failure}."


def _conditions(found: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    stored = {each["type"]: each for each in known}
    for each in found:
        why = ": ".join(text for text in (each.get("reason", ""), each.get("message", "")) if text)
        kept = stored.get(each["type"])
        differs = "" if kept is None or kept["status"] == each["status"] else f" (the status says {kept['status']})"
        yield f"{each['type']} is {each['status']}{differs}{f', {why}' if why else ''}"
