"""The part about a VPA: what the recommender's pass decided for each container, by which stages, from which usage.

Usage is drawn as a few numbers from the best source that is known: collected series, summaries of hours, or a
histogram.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.resolve import EffectiveVpa, resolve_vpa
from trellis.core.cluster.dump_format import ContainerHistory
from trellis.core.cluster.store import key_of
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.explanation.document import (
    AmountChangePart,
    ContainerRecommendationPart,
    UsageCurvePart,
    VpaPart,
)
from trellis.core.explain.explanation.values import format_amount, format_timestamp
from trellis.core.recommend.amounts import CPU, MILLICORES_PER_CORE, RESOURCES, format_cpu_column, format_memory_column
from trellis.core.recommend.capping import compile_policy_bounds
from trellis.core.recommend.explanations import describe_vpa
from trellis.core.recommend.state.governed_pods import read_vpa_target
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history.hours import HOUR, MAXIMUM

USAGE_SERIES: Final = "series"
USAGE_HOURS: Final = "hours"
USAGE_HISTOGRAM: Final = "histogram"

# As many as fit a line of a terminal, with the name and the ends beside them.
_POINTS: Final = 48
_IN_MILLI: Final = (MILLICORES_PER_CORE, 1.0)


def build_usage_curves(evidence: Evidence, row: int, pods: frozenset[str]) -> Iterator[UsageCurvePart]:
    """The usage of both resources of a row, by its position in the view; `pods` are its sources."""
    key = evidence.recommended.view.keys[row]
    histories = [
        history
        for history in evidence.collected.history
        if (history.namespace, history.container) == (key.namespace, key.container)
        and history.pod in pods
        and len(history)
    ]
    for resource in range(len(RESOURCES)):
        curve = _series(histories, resource) or _hours(evidence, row, resource) or _histogram(evidence, row, resource)
        if curve is not None:
            yield curve


def _series(histories: Sequence[ContainerHistory], resource: int) -> UsageCurvePart | None:
    """The highest of all pods in each part of the time."""
    if not histories:
        return None
    times = np.concatenate([history.times for history in histories])
    values = np.concatenate([history.memory if resource else history.cpu for history in histories])
    is_measured = np.isfinite(values) & np.isfinite(times)
    if not is_measured.any():
        return None
    return _over_time(times[is_measured], values[is_measured], resource, USAGE_SERIES)


def _hours(evidence: Evidence, row: int, resource: int) -> UsageCurvePart | None:
    """The highest of each hour, as far as hours are kept."""
    view = evidence.recommended.view
    number = int(view.history_rows[row])
    if number < 0:
        return None
    rings = view.history.read_summaries(np.array([number]), evidence.now)[0, resource, MAXIMUM].astype(np.float64)
    hours = np.flatnonzero(np.isfinite(rings))
    if not len(hours):
        return None
    last = (evidence.now // HOUR - 1) * HOUR
    times = np.asarray(last - (len(rings) - 1 - hours) * HOUR, dtype=np.float64)
    return _over_time(times, rings[hours], resource, USAGE_HOURS)


def _over_time(times: FloatColumn, values: FloatColumn, resource: int, source: str) -> UsageCurvePart:
    first, last = float(times.min()), float(times.max())
    width = (last - first) / _POINTS or 1.0
    part = np.minimum(((times - first) / width).astype(np.int64), _POINTS - 1)
    highest = np.full(int(part.max()) + 1, -np.inf)
    np.maximum.at(highest, part, values)
    return UsageCurvePart(
        RESOURCES[resource],
        source,
        tuple(float(value) if np.isfinite(value) else None for value in highest),
        *_ends(values, resource),
        format_timestamp(first),
        format_timestamp(last),
    )


def _histogram(evidence: Evidence, row: int, resource: int) -> UsageCurvePart | None:
    """The distribution of the samples' weight, between the lowest and the highest bin that is not empty."""
    view = evidence.recommended.view
    bank = view.memory if resource else view.cpu
    at = view.rows[row : row + 1]
    if bank.is_empty(at)[0]:
        return None
    weights = bank.weights(at)[:, 0]
    used = np.flatnonzero(weights > 0)
    starts = bank.layout.starts
    weight = weights[used[0] : used[-1] + 1]
    # A bucket is 5 % wider than the one before it, so that a few of them make up most parts.
    parts = np.array_split(weight, min(_POINTS, len(weight)))
    return UsageCurvePart(
        RESOURCES[resource],
        USAGE_HISTOGRAM,
        tuple(float(part.sum() / weights.sum()) for part in parts),
        *_ends(np.array([starts[used[0]], starts[used[-1] + 1]]), resource),
    )


def _ends(values: FloatColumn, resource: int) -> tuple[str, str]:
    ends = (float(values.min()) * _IN_MILLI[resource], float(values.max()) * _IN_MILLI[resource])
    least, most = (format_amount(RESOURCES[resource], end) for end in ends)
    return least, most


HISTORY_FROM_CHECKPOINT: Final = "checkpoint"
HISTORY_FROM_SERIES: Final = "series"
HISTORY_FROM_NOW: Final = "now"


def build_vpa_part(
    evidence: Evidence, vpa: VerticalPodAutoscaler
) -> tuple[VpaPart, tuple[ContainerRecommendationPart, ...]]:
    """The part about a VPA, and the parts about its containers."""
    last = evidence.recommended.last
    number = last.find(*key_of(vpa))
    stored = tuple(_list_stored_conditions(vpa))
    target = read_vpa_target(vpa)
    target_text = f"{target.kind} {target.name}"
    if number < 0:
        return _build_unserved_part(evidence, vpa, target_text, stored), ()
    document = describe_vpa(last, number)
    state = last.entries[number].state
    part = VpaPart(
        name=vpa.metadata.name,
        target=target_text,
        mode=document["updateMode"],
        recommender=document["recommender"],
        pods=state.pods if state is not None else 0,
        conditions=tuple(document["conditions"]),
        stored_conditions=stored,
        problem=state.problem if state is not None else "",
        rivals=state.rivals if state is not None else (),
        parameters=document["parameters"],
        failure=document.get("failure", ""),
        shadows_not_running=tuple(document.get("shadowsNotRunning", ())),
    )
    return part, tuple(_containers(evidence, vpa, number, document["containers"]))


def _build_unserved_part(
    evidence: Evidence, vpa: VerticalPodAutoscaler, target: str, stored: tuple[dict[str, Any], ...]
) -> VpaPart:
    """A VPA whose recommender does not run here."""
    governance, name = evidence.recommended.namespace_governance, vpa.metadata.name
    effective = _effective(evidence, vpa)
    problem = governance.problems.get(name)
    return VpaPart(
        name=name,
        target=target,
        mode=str(effective.mode),
        recommender=effective.recommender,
        pods=governance.governance.matched.get(name, 0),
        is_answered=False,
        stored_conditions=stored,
        problem=problem.message if problem is not None else "",
        rivals=governance.governance.rivals.get(name, ()),
    )


def _containers(
    evidence: Evidence, vpa: VerticalPodAutoscaler, number: int, documents: list[dict[str, Any]]
) -> Iterator[ContainerRecommendationPart]:
    recommended = evidence.recommended
    columns = recommended.last.result.columns
    pods = frozenset(
        pod
        for pod, governor in recommended.namespace_governance.governance.governor.items()
        if governor == vpa.metadata.name
    )
    collected = {(history.namespace, history.pod) for history in evidence.collected.history}
    for row, document in zip(recommended.last.find_rows(number), documents, strict=True):
        key = columns.keys[row]
        history = HISTORY_FROM_CHECKPOINT if key in recommended.checkpointed else HISTORY_FROM_NOW
        if history is HISTORY_FROM_NOW and any((key.namespace, pod) in collected for pod in pods):
            history = HISTORY_FROM_SERIES
        place = int(columns.container_numbers[row])
        yield ContainerRecommendationPart(
            document["name"],
            document,
            tuple(_steps(evidence, place, vpa, key.container)) if place >= 0 else (),
            tuple(build_usage_curves(evidence, row, pods)),
            history,
        )


def _steps(evidence: Evidence, place: int, vpa: VerticalPodAutoscaler, container: str) -> Iterator[AmountChangePart]:
    """The stages that changed a target, with amounts as a status has them: a bound as its policy spells it."""
    spelled = compile_policy_bounds(_effective(evidence, vpa).get_container(container)).texts
    for step in evidence.recommended.trace.steps(place):
        yield AmountChangePart(
            step.resource, step.reason, *(_text(step.resource, value, spelled) for value in (step.before, step.after))
        )


def _text(resource: str, amount: float, spelled: Mapping[tuple[str, float], str]) -> str:
    if math.isnan(amount):
        return ""
    written = format_cpu_column if resource == RESOURCES[CPU] else format_memory_column
    return spelled.get((resource, amount)) or written(np.array([amount]))[0]


def _effective(evidence: Evidence, vpa: VerticalPodAutoscaler) -> EffectiveVpa:
    return evidence.recommended.namespace_governance.effective.get(vpa.metadata.name) or resolve_vpa(vpa)


def _list_stored_conditions(vpa: VerticalPodAutoscaler) -> Iterator[dict[str, Any]]:
    """The conditions in the status of the object."""
    for condition in (vpa.status.conditions if vpa.status is not None else None) or ():
        yield {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason or "",
            "message": condition.message or "",
        }
