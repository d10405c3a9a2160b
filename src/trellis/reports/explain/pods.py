"""Explains in sentences what is decided about pods, why, and what would have to change for another decision.

Pods with the same explanation are grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.base.times import parse_time
from trellis.base.wording import pluralize
from trellis.core.explain.counterfactuals import CounterfactualCode
from trellis.core.explain.explanation.document import (
    BoostPart,
    ContainerSizePart,
    CounterfactualPart,
    NewPodPart,
    PodPart,
)
from trellis.reports.explain.recommendation import describe_step
from trellis.reports.text.numbers import format_count, format_share
from trellis.reports.text.phrases import format_clause, join_words
from trellis.reports.text.quantities import format_moment, format_quantities, format_quantity, get_resource_word

_WAYS: Final = {
    "Resize": ("is resized in place", "are resized in place"),
    "Evict": ("is evicted", "are evicted"),
    "Unboost": ("is unboosted", "are unboosted"),
    "Wait": ("waits", "wait"),
    "Leave": ("is not changed", "are not changed"),
}
_SHOWN_NAMES: Final = 3


def summarize_pods(pods: Iterable[PodPart], *, alone: bool = False) -> list[str]:
    """How many pods have which decision: `2 pods wait: BackingOff.`; one that is `alone` is "the pod"."""
    groups: dict[tuple[str, str], list[PodPart]] = {}
    for pod in pods:
        groups.setdefault((pod.way, pod.reason.code), []).append(pod)
    return [_describe_decision(group, alone=alone) for group in sorted(groups.values(), key=len, reverse=True)]


def _describe_decision(group: list[PodPart], *, alone: bool) -> str:
    first = group[0]
    subject = "The pod" if alone else pluralize(len(group), "pod")
    action = _WAYS[first.way][len(group) > 1]
    return f"{subject} {action}: {first.reason.code}."


def group_pods(pods: Iterable[PodPart]) -> list[list[PodPart]]:
    """Pods that differ in nothing but their names and nodes, together."""
    groups: dict[bytes, list[PodPart]] = {}
    for pod in pods:
        groups.setdefault(msgspec.json.encode(msgspec.structs.replace(pod, name="", node="")), []).append(pod)
    return list(groups.values())


def pod_title(group: list[PodPart]) -> str:
    """The title of the lines about a pod."""
    names = [pod.name for pod in group]
    remaining = len(names) - _SHOWN_NAMES
    shown = [*names[:_SHOWN_NAMES], pluralize(remaining, "other")] if remaining > 0 else names
    on = f" on {group[0].node}" if len(group) == 1 and group[0].node else ""
    return f"{join_words(shown)}{on}"


def pod_lines(pod: PodPart, now: str) -> Iterator[str]:
    """The lines about a pod, the decision first."""
    details = f" ({pod.details})" if pod.details else ""
    yield f"{pod.way}, {pod.reason.code}: {format_clause(pod.reason.meaning)}{details}."
    if pod.need is not None:
        off = f"; requests differ by {format_share(pod.difference)} in total" if pod.difference else ""
        yield f"Change needed, {pod.need.code}: {format_clause(pod.need.meaning)}{off}."
    for warning in pod.warnings:
        yield f"Warning, {warning.code}: {format_clause(warning.meaning)}."
    for sized in pod.containers:
        yield from _describe_size(sized)
    for boost in pod.boosts:
        yield _describe_boost(boost, now, explained=boost.reason.code == pod.reason.code)
    changes = [describe_counterfactual(change, now) for change in pod.counterfactuals]
    if changes and not _is_next_check(pod):
        yield f"The decision changes when {join_words(changes, 'or')}."
    if pod.next_check and parse_time(pod.next_check) > parse_time(now):
        yield f"Next check: at {format_moment(pod.next_check, now)}, or when an object that it depends on changes."
    elif pod.by:
        yield "Next check: when an object that it depends on changes."


def _describe_size(sized: ContainerSizePart) -> Iterator[str]:
    parts = []
    for resource in dict.fromkeys([*sized.requests, *sized.targets]):
        had = sized.requests.get(resource, "")
        parts.append(_describe_change(resource, had, sized.targets.get(resource, had)))
    yield f"{sized.container} requests {', '.join(parts) or 'nothing'}"
    for step in sized.steps:
        yield f"  {describe_step(step)}"


def _describe_change(resource: str, had: str, has: str) -> str:
    same = format_quantity(resource, had)
    return f"{get_resource_word(resource)} {same if had == has else f'{same} -> {format_quantity(resource, has)}'}"


def _is_next_check(pod: PodPart) -> bool:
    """Whether only the time of the next check changes the decision."""
    codes = {change.code for change in pod.counterfactuals}
    times = {change.values.get("at") for change in pod.counterfactuals}
    return codes == {CounterfactualCode.TIME_PASSED.value} and times == {pod.next_check}


def _describe_boost(boost: BoostPart, now: str, *, explained: bool) -> str:
    """One boost; the meaning of its reason is left out where the pod's own reason is the same."""
    until = f", until {format_moment(boost.until, now)}" if boost.until else ""
    requests = boost.before.get("requests", {})
    before = f"; it requested {format_quantities(requests)} before" if requests else ""
    reason = boost.reason.code if explained else f"{boost.reason.code}: {format_clause(boost.reason.meaning)}"
    return f"{boost.container} is boosted ({boost.phase}), {reason}{until}{before}."


def new_pod_lines(new: NewPodPart) -> Iterator[str]:
    """The resources that a new pod would get."""
    yield f"{new.reason.code}: {format_clause(new.reason.meaning)}."
    containers: Mapping[str, Any] = new.account.get("containers", {})
    for name, account in containers.items():
        for field, noun in (("requests", "requests"), ("limits", "limits:")):
            changes = [
                _describe_change(resource, had or "", has or "")
                for resource, (had, has) in account.get(field, {}).items()
            ]
            if changes:
                yield f"{name} {noun} {', '.join(changes)}"
        if account.get("why"):
            yield f"  reasons: {', '.join(account['why'])}"
    for warning in new.warnings:
        yield f"Warning: {warning}."


_Values = Mapping[str, str | float | None]

_CHANGES: Final = {
    "TargetHigherThanRequests": "is higher than the request",
    "TargetHigherThanOrEqualToRequests": "is at least the request",
    "TargetLowerThanRequests": "is lower than the request",
    "TargetLowerThanOrEqualToRequests": "is at most the request",
}
_PLAIN: Final = {
    CounterfactualCode.POD_READY: "the pod becomes Ready",
    CounterfactualCode.GATE_ON: "the feature gate that it needs is enabled",
    CounterfactualCode.SERVER_RESIZES: "the API server can resize pods in place (Kubernetes 1.33 or newer)",
    CounterfactualCode.CONTROLLER_THERE: "a controller that would replace the pod owns it",
    CounterfactualCode.NODE_ASSIGNED: "the pod is scheduled",
    CounterfactualCode.POD_STARTED: "the pod starts",
    CounterfactualCode.RECOMMENDATION_PUBLISHED: "a recommendation for its containers is published",
    CounterfactualCode.RECOMMENDATION_CHANGED: "the recommendation changes",
    CounterfactualCode.OUTSIDE_BOUNDS: (
        "its requests are outside the recommended bounds, or a container runs out of memory soon after its start"
    ),
    CounterfactualCode.ROOM_MADE: "a node has capacity for its replacement",
}


def describe_counterfactual(counterfactual: CounterfactualPart, now: str) -> str:
    """One counterfactual, as the end of `The decision changes when ...`."""
    kind = CounterfactualCode(counterfactual.code)
    return _PLAIN[kind] if kind in _PLAIN else _WITH_FIGURES[kind](counterfactual.values, now)


def _format_text(values: _Values, name: str) -> str:
    return str(values.get(name) or "")


def _format_number(values: _Values, name: str) -> str:
    return format_count(float(values.get(name) or 0))


def _describe_freeze(values: _Values, _now: str) -> str:
    reason = f" ({values['why']})" if values.get("why") else ""
    return f"the freeze of the {_format_text(values, 'where')} by {_format_text(values, 'by')}{reason} is lifted"


def _describe_time(values: _Values, now: str) -> str:
    return (
        f"the time is {format_moment(_format_text(values, 'at'), now)}"
        if values.get("at")
        else "enough time has passed"
    )


def _describe_difference(values: _Values, _now: str) -> str:
    difference, threshold = float(values["difference"] or 0), float(values["threshold"] or 0)
    return f"its requests differ by {format_share(threshold)} or more in total ({format_share(difference)} now)"


def _describe_ready_pods(values: _Values, _now: str) -> str:
    least, ready = _format_number(values, "least"), _format_number(values, "ready")
    return f"more than {least} pods of its controller are available ({ready} now; {least} must stay available)"


def _describe_replicas(values: _Values, _now: str) -> str:
    living, least = _format_number(values, "living"), _format_number(values, "minimum")
    return f"at least {least} pods of its controller are running ({living} now; see `minReplicas`, `--min-replicas`)"


def _describe_mode(values: _Values, _now: str) -> str:
    mode = f"the update mode is {_format_text(values, 'mode')} and " if values.get("mode") else ""
    return f"{mode}the updater runs with `{_format_text(values, 'flag')}`, which exempts resizes without a restart"


def _describe_hourly_limit(values: _Values, _now: str) -> str:
    limits = [f"{_format_number(values, name)} {where}" for name, where in _HOURLY.items() if name in values]
    return f"the hourly limit of disrupted pods is above {join_words(limits)}"


_HOURLY: Final = {"perHour": "in the cluster", "perHourInNamespace": "in the namespace"}


def _describe_requirements(values: _Values, _now: str) -> str:
    resources = join_words(
        [get_resource_word(resource) for resource in _format_text(values, "resources").split(",")], "or"
    )
    change = _format_text(values, "change")
    return f"the target for {resources} {_CHANGES.get(change, 'compares as required')}"


def _describe_containers(values: _Values, _now: str) -> str:
    names = [name for name in _format_text(values, "containers").split(",") if name]
    return f"{join_words(names) or 'every container'} {'run' if len(names) > 1 else 'runs'} again"


def _describe_hpa(values: _Values, _now: str) -> str:
    resources = join_words([get_resource_word(resource) for resource in _format_text(values, "resources").split(",")])
    return f"no HPA scales the workload by the utilization of {resources}"


_WITH_FIGURES: Final[Mapping[CounterfactualCode, Callable[[_Values, str], str]]] = {
    CounterfactualCode.FREEZE_LIFTED: _describe_freeze,
    CounterfactualCode.TIME_PASSED: _describe_time,
    CounterfactualCode.MODE_CHANGED: lambda values, _now: (
        f"the update mode is no longer {_format_text(values, 'mode')}"
    ),
    CounterfactualCode.DIFFERENCE_LARGER: _describe_difference,
    CounterfactualCode.REPLICAS_ADDED: _describe_replicas,
    CounterfactualCode.BUDGET_SKIPPED: _describe_mode,
    CounterfactualCode.OTHERS_READY: _describe_ready_pods,
    CounterfactualCode.BUDGET_RAISED: _describe_hourly_limit,
    CounterfactualCode.ADMISSION_THERE: lambda values, _now: (
        f"the admission controller renews the Lease {_format_text(values, 'lease')}"
    ),
    CounterfactualCode.REQUIREMENTS_MET: _describe_requirements,
    CounterfactualCode.HPA_CHANGED: _describe_hpa,
    CounterfactualCode.CONTAINERS_RUN: _describe_containers,
    CounterfactualCode.NODE_ANSWERED: lambda values, _now: (
        f"the kubelet of {_format_text(values, 'node')} applies the resize"
    ),
}
