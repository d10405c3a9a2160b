"""Sentences about what would have to change for another decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trellis.core.explain.counterfactuals import CounterfactualCode
from trellis.core.explain.explanation.document import CounterfactualPart
from trellis.reports.text.numbers import format_count, format_share
from trellis.reports.text.phrases import join_words
from trellis.reports.text.quantities import format_moment, resource_word

_Values = Mapping[str, str | float | None]

_CHANGES: Final = {
    "TargetHigherThanRequests": "is higher than the request",
    "TargetHigherThanOrEqualToRequests": "is at least the request",
    "TargetLowerThanRequests": "is lower than the request",
    "TargetLowerThanOrEqualToRequests": "is at most the request",
}
_PLAIN: Final = {
    CounterfactualCode.POD_READY: "the pod becomes Ready",
    CounterfactualCode.GATE_ON: "the feature gate is switched on",
    CounterfactualCode.SERVER_RESIZES: "the API server can resize pods in place, as Kubernetes 1.33 can",
    CounterfactualCode.CONTROLLER_THERE: "a controller owns the pod, which would replace it",
    CounterfactualCode.NODE_ASSIGNED: "the pod is scheduled",
    CounterfactualCode.POD_STARTED: "the pod starts",
    CounterfactualCode.RECOMMENDATION_PUBLISHED: "a recommendation is published for its containers",
    CounterfactualCode.RECOMMENDATION_CHANGED: "something else is recommended",
    CounterfactualCode.OUTSIDE_BOUNDS: (
        "its requests are outside of the recommended bounds, or it soon runs out of memory"
    ),
    CounterfactualCode.ROOM_MADE: "some node has room for the pod that would take its place",
}


def counterfactual_sentence(turn: CounterfactualPart, now: str) -> str:
    """One thing, as what follows `The verdict is another when ...`."""
    kind = CounterfactualCode(turn.code)
    return _PLAIN[kind] if kind in _PLAIN else _WITH_FIGURES[kind](turn.values, now)


def _text(values: _Values, name: str) -> str:
    return str(values.get(name) or "")


def _number(values: _Values, name: str) -> str:
    return format_count(float(values.get(name) or 0))


def _freeze(values: _Values, _now: str) -> str:
    reason = f" ({values['why']})" if values.get("why") else ""
    return f"{_text(values, 'by')} lifts the freeze of the {_text(values, 'where')}{reason}"


def _time(values: _Values, now: str) -> str:
    return f"it is {format_moment(_text(values, 'at'), now)}" if values.get("at") else "some time has passed"


def _difference(values: _Values, _now: str) -> str:
    difference, threshold = float(values["difference"] or 0), float(values["threshold"] or 0)
    return f"its requests are off by {format_share(threshold)} or more ({format_share(difference)} now)"


def _others(values: _Values, _now: str) -> str:
    least, ready = _number(values, "least"), _number(values, "ready")
    return f"more pods of its controller are in service than the {least} that must stay ({ready} now)"


def _replicas(values: _Values, _now: str) -> str:
    living, least = _number(values, "living"), _number(values, "minimum")
    return f"{least} pods of its controller live ({living} now; `minReplicas` says how many there must be)"


def _skipped(values: _Values, _now: str) -> str:
    mode = f"the update mode is {_text(values, 'mode')} and " if values.get("mode") else ""
    return f"{mode}the updater runs with `{_text(values, 'flag')}`, because the resize restarts no container"


def _hourly(values: _Values, _now: str) -> str:
    limits = [f"{_number(values, name)} {where}" for name, where in _HOURLY.items() if name in values]
    return f"more than {join_words(limits)} may be disturbed within an hour"


_HOURLY: Final = {"perHour": "in the cluster", "perHourInNamespace": "in the namespace"}


def _requirements(values: _Values, _now: str) -> str:
    resources = join_words([resource_word(resource) for resource in _text(values, "resources").split(",")], "or")
    change = _text(values, "change")
    return f"the target for {resources} {_CHANGES.get(change, 'compares as the object asks')}"


def _containers(values: _Values, _now: str) -> str:
    names = [name for name in _text(values, "containers").split(",") if name]
    return f"{join_words(names) or 'every container'} {'run' if len(names) > 1 else 'runs'} again"


def _hpa(values: _Values, _now: str) -> str:
    resources = join_words([resource_word(resource) for resource in _text(values, "resources").split(",")])
    return f"no HPA scales the workload by the utilization of {resources}"


_WITH_FIGURES: Final[Mapping[CounterfactualCode, Callable[[_Values, str], str]]] = {
    CounterfactualCode.FREEZE_LIFTED: _freeze,
    CounterfactualCode.TIME_PASSED: _time,
    CounterfactualCode.MODE_CHANGED: lambda values, _now: f"the update mode is another than {_text(values, 'mode')}",
    CounterfactualCode.DIFFERENCE_LARGER: _difference,
    CounterfactualCode.REPLICAS_ADDED: _replicas,
    CounterfactualCode.BUDGET_SKIPPED: _skipped,
    CounterfactualCode.OTHERS_READY: _others,
    CounterfactualCode.BUDGET_RAISED: _hourly,
    CounterfactualCode.ADMISSION_THERE: lambda values, _now: (
        f"an admission controller renews the Lease {_text(values, 'lease')}"
    ),
    CounterfactualCode.REQUIREMENTS_MET: _requirements,
    CounterfactualCode.HPA_CHANGED: _hpa,
    CounterfactualCode.CONTAINERS_RUN: _containers,
    CounterfactualCode.NODE_ANSWERED: lambda values, _now: (
        f"the kubelet of {_text(values, 'node')} carries out what it was asked for"
    ),
}
