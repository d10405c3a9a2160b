"""Explains in sentences what becomes of pods and why. Pods with the same explanation are grouped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.base.times import parse_time
from trellis.base.wording import pluralize
from trellis.core.explain.explanation.document import BoostPart, ContainerSizePart, NewPodPart, PodPart
from trellis.reports.explain.counterfactuals import counterfactual_sentence
from trellis.reports.explain.recommendation import step_sentence
from trellis.reports.text.numbers import format_share
from trellis.reports.text.phrases import as_clause, join_words
from trellis.reports.text.quantities import format_moment, format_quantities, format_quantity, resource_word

_WAYS: Final = {
    "Resize": ("is resized in place", "are resized in place"),
    "Evict": ("is evicted", "are evicted"),
    "Unboost": ("gets its boost taken back", "get their boosts taken back"),
    "Wait": ("waits", "wait"),
    "Leave": ("is left alone", "are left alone"),
}
_SHOWN_NAMES: Final = 3


def summarize_pods(pods: Iterable[PodPart], *, alone: bool = False) -> list[str]:
    """How many pods have which fate, and why: `2 pods are left alone: ...`; one that is `alone` is the pod."""
    groups: dict[tuple[str, str], list[PodPart]] = {}
    for pod in pods:
        groups.setdefault((pod.way, pod.reason.code), []).append(pod)
    return [_fate(group, alone=alone) for group in sorted(groups.values(), key=len, reverse=True)]


def _fate(group: list[PodPart], *, alone: bool) -> str:
    first = group[0]
    subject = "The pod" if alone else pluralize(len(group), "pod")
    action = _WAYS[first.way][len(group) > 1]
    need = f"; {as_clause(first.need.meaning)}" if first.need is not None else ""
    details = f" ({first.details})" if first.details else ""
    return f"{subject} {action}: {as_clause(first.reason.meaning)}{details}{need}."


def pod_groups(pods: Iterable[PodPart]) -> list[list[PodPart]]:
    """Pods that differ in nothing but their names and nodes, together."""
    groups: dict[bytes, list[PodPart]] = {}
    for pod in pods:
        groups.setdefault(msgspec.json.encode(msgspec.structs.replace(pod, name="", node="")), []).append(pod)
    return list(groups.values())


def pod_title(group: list[PodPart]) -> str:
    """The title of the lines about a pod."""
    names = [pod.name for pod in group]
    more = len(names) - _SHOWN_NAMES
    shown = [*names[:_SHOWN_NAMES], pluralize(more, "other")] if more > 0 else names
    on = f" on {group[0].node}" if len(group) == 1 and group[0].node else ""
    return f"{join_words(shown)}{on}"


def pod_lines(pod: PodPart, now: str) -> Iterator[str]:
    """What is to be said of a pod, the verdict first."""
    details = f" ({pod.details})" if pod.details else ""
    yield f"{pod.way}, {pod.reason.code}: {as_clause(pod.reason.meaning)}{details}."
    if pod.need is not None:
        off = f"; requests are off by {format_share(pod.difference)}" if pod.difference else ""
        yield f"It needs a change, {pod.need.code}: {as_clause(pod.need.meaning)}{off}."
    for warning in pod.warnings:
        yield f"Warning, {warning.code}: {as_clause(warning.meaning)}."
    for sized in pod.containers:
        yield from _sized(sized)
    for boost in pod.boosts:
        yield _boost(boost, now)
    if pod.counterfactuals:
        changes = [counterfactual_sentence(change, now) for change in pod.counterfactuals]
        yield f"The verdict is another when {join_words(changes, 'or')}."
    if pod.next_check and parse_time(pod.next_check) > parse_time(now):
        yield f"Looked at again at {format_moment(pod.next_check, now)}, or when something changes."
    elif pod.by:
        yield "Looked at again when something changes."


def _sized(sized: ContainerSizePart) -> Iterator[str]:
    parts = []
    for resource in dict.fromkeys([*sized.requests, *sized.targets]):
        had = sized.requests.get(resource, "")
        parts.append(_change(resource, had, sized.targets.get(resource, had)))
    yield f"{sized.container} requests {', '.join(parts) or 'nothing'}"
    for step in sized.steps:
        yield f"  {step_sentence(step)}"


def _change(resource: str, had: str, has: str) -> str:
    same = format_quantity(resource, had)
    return f"{resource_word(resource)} {same if had == has else f'{same} -> {format_quantity(resource, has)}'}"


def _boost(boost: BoostPart, now: str) -> str:
    until = f", until {format_moment(boost.until, now)}" if boost.until else ""
    requests = boost.before.get("requests", {})
    before = f"; it requested {format_quantities(requests)} before" if requests else ""
    reason = f"{boost.reason.code}: {as_clause(boost.reason.meaning)}"
    return f"{boost.container} is boosted ({boost.phase}), {reason}{until}{before}."


def new_pod_lines(new: NewPodPart) -> Iterator[str]:
    """What a new pod would get."""
    yield f"{new.reason.code}: {as_clause(new.reason.meaning)}."
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
