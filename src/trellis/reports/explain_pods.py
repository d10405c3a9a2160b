"""What becomes of pods and why, in sentences? Pods of which the same is to be said are told of together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.base.counted import counted
from trellis.base.times import parse_time
from trellis.core.explain.explained import Boost, NewPod, PodPart, Sized
from trellis.reports.describe.words import clause, listed
from trellis.reports.explain_containers import step_sentence
from trellis.reports.explain_turns import turn_sentence
from trellis.reports.explain_words import amount, amounts, moment, word
from trellis.reports.figures import share

_WAYS: Final = {
    "Resize": ("is resized in place", "are resized in place"),
    "Evict": ("is evicted", "are evicted"),
    "Unboost": ("gets its boost taken back", "get their boosts taken back"),
    "Wait": ("waits", "wait"),
    "Leave": ("is left alone", "are left alone"),
}
_SHOWN_NAMES: Final = 3


def summary(pods: Iterable[PodPart], *, alone: bool = False) -> list[str]:
    """How many pods have which fate, and why: `2 pods are left alone: ...`; one that is `alone` is the pod."""
    groups: dict[tuple[str, str], list[PodPart]] = {}
    for pod in pods:
        groups.setdefault((pod.way, pod.reason.code), []).append(pod)
    return [_fate(group, alone=alone) for group in sorted(groups.values(), key=len, reverse=True)]


def _fate(group: list[PodPart], *, alone: bool) -> str:
    first = group[0]
    who = "The pod" if alone else counted(len(group), "pod")
    what = _WAYS[first.way][len(group) > 1]
    need = f"; {clause(first.need.meaning)}" if first.need is not None else ""
    details = f" ({first.details})" if first.details else ""
    return f"{who} {what}: {clause(first.reason.meaning)}{details}{need}."


def pod_groups(pods: Iterable[PodPart]) -> list[list[PodPart]]:
    """Pods that differ in nothing but their names and nodes, together."""
    groups: dict[bytes, list[PodPart]] = {}
    for pod in pods:
        groups.setdefault(msgspec.json.encode(msgspec.structs.replace(pod, name="", node="")), []).append(pod)
    return list(groups.values())


def pod_title(group: list[PodPart]) -> str:
    """Who it is about."""
    names = [pod.name for pod in group]
    more = len(names) - _SHOWN_NAMES
    shown = [*names[:_SHOWN_NAMES], counted(more, "other")] if more > 0 else names
    on = f" on {group[0].node}" if len(group) == 1 and group[0].node else ""
    return f"{listed(shown)}{on}"


def pod_lines(pod: PodPart, now: str) -> Iterator[str]:
    """What is to be said of a pod, the verdict first."""
    details = f" ({pod.details})" if pod.details else ""
    yield f"{pod.way}, {pod.reason.code}: {clause(pod.reason.meaning)}{details}."
    if pod.need is not None:
        off = f"; requests are off by {share(pod.difference)}" if pod.difference else ""
        yield f"It needs a change, {pod.need.code}: {clause(pod.need.meaning)}{off}."
    for warning in pod.warnings:
        yield f"Warning, {warning.code}: {clause(warning.meaning)}."
    for sized in pod.containers:
        yield from _sized(sized)
    for boost in pod.boosts:
        yield _boost(boost, now)
    if pod.otherwise:
        yield f"The verdict is another when {listed([turn_sentence(each, now) for each in pod.otherwise], 'or')}."
    if pod.next_look and parse_time(pod.next_look) > parse_time(now):
        yield f"Looked at again at {moment(pod.next_look, now)}, or when something changes."
    elif pod.by:
        yield "Looked at again when something changes."


def _sized(sized: Sized) -> Iterator[str]:
    parts = []
    for resource in dict.fromkeys([*sized.requests, *sized.targets]):
        had = sized.requests.get(resource, "")
        parts.append(_change(resource, had, sized.targets.get(resource, had)))
    yield f"{sized.container} requests {', '.join(parts) or 'nothing'}"
    for step in sized.steps:
        yield f"  {step_sentence(step)}"


def _change(resource: str, had: str, has: str) -> str:
    same = amount(resource, had)
    return f"{word(resource)} {same if had == has else f'{same} -> {amount(resource, has)}'}"


def _boost(boost: Boost, now: str) -> str:
    until = f", until {moment(boost.until, now)}" if boost.until else ""
    requests = boost.before.get("requests", {})
    before = f"; it requested {amounts(requests)} before" if requests else ""
    why = f"{boost.reason.code}: {clause(boost.reason.meaning)}"
    return f"{boost.container} is boosted ({boost.phase}), {why}{until}{before}."


def new_pod_lines(new: NewPod) -> Iterator[str]:
    """What a new pod would get."""
    yield f"{new.reason.code}: {clause(new.reason.meaning)}."
    containers: Mapping[str, Any] = new.account.get("containers", {})
    for name, account in containers.items():
        for field, noun in (("requests", "requests"), ("limits", "is limited to")):
            changes = [
                _change(resource, had or "", has or "") for resource, (had, has) in account.get(field, {}).items()
            ]
            if changes:
                yield f"{name} {noun} {', '.join(changes)}"
        if account.get("why"):
            yield f"  because of {', '.join(account['why'])}"
    for warning in new.warnings:
        yield f"Warning: {warning}."
