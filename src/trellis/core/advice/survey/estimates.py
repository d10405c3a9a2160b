"""Estimates the needs of workloads: by a recommender, or from the statuses of existing VPAs.

The pipeline is the recommender's own, with a VPA in mode Off for every workload, and without policies. The limits that
a user has set on advice apply later.

A published status has no history beside it: its condition says whether there was enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import PodUpdatePolicy, RecommenderSelector, VerticalPodAutoscaler, VerticalPodAutoscalerSpec
from trellis.api.kube.meta import ObjectMeta
from trellis.api.resolve import resolve_vpa
from trellis.core.advice.survey.model import Estimate, ResourceAmount, SurveyedContainer, SurveyedWorkload
from trellis.core.advice.survey.usage import SurveyedUsage, SurveySettings
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import LOWER_BOUND, TARGET, UPPER_BOUND
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.recommendation_pass import RECOMMENDED, ContainerExplanation, run_pass
from trellis.core.recommend.state.condition_types import CONDITION_TYPES, ConditionBit, VpaState
from trellis.core.recommend.state.tables import ServedVpa, list_recommendations, read_published_amounts
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.validation import needs_runs
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

ESTIMATES: Final = "recommendations"
HISTORY: Final = "history"
# As many as `adaptive` chooses for in one pass: each batch is a single pass.
_ROWS_AT_ONCE: Final = 32


class EstimatedWorkloads(msgspec.Struct, frozen=True):
    """Workloads with what is recommended for them, and what is missing because history or recommender failed."""

    workloads: tuple[SurveyedWorkload, ...]
    missing: tuple[MissingData, ...] = ()


def estimate_workloads(
    workloads: Mapping[ObjectKey, SurveyedWorkload], used: Sequence[SurveyedUsage], settings: SurveySettings, now: float
) -> EstimatedWorkloads:
    """The same workloads with estimates, and with containers that only the past shows where nothing else is known."""
    rows = {usage.row.key: usage for usage in used}
    complete = _add_past_containers(workloads, rows)
    parts = [_estimate_batch(batch, rows, settings, now) for batch in _split_into_batches(complete)]
    return EstimatedWorkloads(
        tuple(workload for part in parts for workload in part.workloads),
        tuple(missing for part in parts for missing in part.missing),
    )


def _split_into_batches(workloads: Mapping[ObjectKey, SurveyedWorkload]) -> Iterator[dict[ObjectKey, SurveyedWorkload]]:
    """Batches of workloads: the history that a recommender reads is large."""
    batch: dict[ObjectKey, SurveyedWorkload] = {}
    size = 0
    for key, workload in workloads.items():
        if batch and size + len(workload.containers) > _ROWS_AT_ONCE:
            yield batch
            batch, size = {}, 0
        batch[key] = workload
        size += len(workload.containers)
    if batch:
        yield batch


def _estimate_batch(
    workloads: Mapping[ObjectKey, SurveyedWorkload],
    rows: Mapping[RowKey, SurveyedUsage],
    settings: SurveySettings,
    now: float,
) -> EstimatedWorkloads:
    recommender = settings.recommender
    model = UsageModel(settings.usage)
    if recommender.needs_history:
        model.keep_history(workloads.keys())
    if needs_runs(recommender):
        model.keep_runs(workloads.keys())
    places = [RowKey(*key, container.name) for key, workload in workloads.items() for container in workload.containers]
    refused = model.restore_all([rows[place].row for place in places if place in rows])
    pods: dict[str, list[TrackedPod]] = {}
    for key, workload in workloads.items():
        pods.setdefault(key[0], []).append(_build_pod(key, workload))
    for namespace, namespace_pods in pods.items():
        model.track_pods(namespace, namespace_pods, now)
    store = _build_store(workloads, recommender)
    result = run_pass(model.view(), store, {recommender.name: recommender}, settings.pipeline, now)
    explanations = {explanation.key: explanation for explanation in result.explain_all()}
    missing = [
        *(
            MissingData(HISTORY, key.namespace, f"{key.vpa}, {key.container}: {error}")
            for key, error in refused.items()
        ),
        *(
            MissingData(ESTIMATES, failure.namespace, f"{failure.vpa}: {failure.message}")
            for failure in result.failures
        ),
    ]
    return EstimatedWorkloads(
        tuple(_complete_workload(workload, key, rows, explanations) for key, workload in workloads.items()),
        tuple(missing),
    )


def _add_past_containers(
    workloads: Mapping[ObjectKey, SurveyedWorkload], rows: Iterable[RowKey]
) -> dict[ObjectKey, SurveyedWorkload]:
    past: dict[ObjectKey, list[SurveyedContainer]] = {}
    for row in sorted(rows):
        past.setdefault((row.namespace, row.vpa), []).append(SurveyedContainer(row.container))
    return {
        key: workload
        if workload.containers
        else msgspec.structs.replace(workload, containers=tuple(past.get(key, ())), is_sized=False)
        for key, workload in workloads.items()
    }


def _build_pod(key: ObjectKey, workload: SurveyedWorkload) -> TrackedPod:
    """One pod that stands for all; the recommender reads its requests."""
    containers = tuple(
        TrackedContainer(container.name, container.request.memory, container.request.cpu)
        for container in workload.containers
    )
    return TrackedPod(key[0], key[1], key[1], key[1], True, containers)


def _build_store(workloads: Mapping[ObjectKey, SurveyedWorkload], recommender: Recommender) -> VpaStore:
    store = VpaStore()
    effective = resolve_vpa(
        VerticalPodAutoscaler(
            metadata=ObjectMeta(name="any"),
            spec=VerticalPodAutoscalerSpec(
                target_ref=TargetReference(kind="Deployment", name="any"),
                update_policy=PodUpdatePolicy(update_mode="Off"),
                recommenders=[RecommenderSelector(name=recommender.name)],
            ),
        )
    )
    for (namespace, name), workload in workloads.items():
        store.put(ServedVpa(namespace, name, f"{namespace}/{name}", "1", 1, 0.0, effective, recommender.name))
        store.set_state(namespace, name, VpaState(max(1, workload.pods)))
    return store


def _complete_workload(
    workload: SurveyedWorkload,
    key: ObjectKey,
    rows: Mapping[RowKey, SurveyedUsage],
    explanations: Mapping[RowKey, ContainerExplanation],
) -> SurveyedWorkload:
    places = [RowKey(*key, container.name) for container in workload.containers]
    containers = tuple(
        _complete_container(container, rows.get(place), explanations.get(place))
        for container, place in zip(workload.containers, places, strict=True)
    )
    return msgspec.structs.replace(workload, containers=containers)


def _complete_container(
    container: SurveyedContainer, used: SurveyedUsage | None, explanation: ContainerExplanation | None
) -> SurveyedContainer:
    fields: dict[str, Any] = {"estimate": _read_estimate(explanation)} if explanation is not None else {}
    if used is not None:
        row = used.row
        fields |= {"highest": used.highest, "samples": row.count, "first": row.first, "last": row.last}
        fields |= {"kills": used.kills, "last_kill": used.last_kill, "usage": used.summary}
    return msgspec.structs.replace(container, **fields)


def _read_estimate(explanation: ContainerExplanation) -> Estimate:
    target, lower, upper = (
        ResourceAmount(*explanation.amounts[bound].tolist()) for bound in (TARGET, LOWER_BOUND, UPPER_BOUND)
    )
    return Estimate(
        target, lower, upper, explanation.confidence, explanation.reason.code, dict(explanation.explanation)
    )


def estimate_from_vpas(
    workloads: Iterable[SurveyedWorkload], vpas: Iterable[VerticalPodAutoscaler]
) -> tuple[SurveyedWorkload, ...]:
    """The workloads that have a VPA, each with what the first of its VPAs recommends."""
    by_name = {(vpa.metadata.namespace, vpa.metadata.name): vpa for vpa in vpas}
    return tuple(_estimate_from_vpa(workload, by_name) for workload in workloads if workload.vpas)


def _estimate_from_vpa(workload: SurveyedWorkload, vpas: Mapping[ObjectKey, VerticalPodAutoscaler]) -> SurveyedWorkload:
    vpa = vpas.get((workload.namespace, workload.vpas[0]))
    if vpa is None:
        return workload
    entries = list_recommendations(vpa.status)
    amounts = read_published_amounts(entries)
    confidence = 0.0 if _has_low_confidence(vpa) else 1.0
    estimates = {}
    for number, entry in enumerate(entries):
        bounds = [ResourceAmount(*amounts[bound, :, number].tolist()) for bound in (TARGET, LOWER_BOUND, UPPER_BOUND)]
        estimates[entry.container_name] = Estimate(bounds[0], bounds[1], bounds[2], confidence, RECOMMENDED.code)
    return replace(workload, containers=_complete_containers(workload.containers, estimates))


def _complete_containers(
    containers: Sequence[SurveyedContainer], estimates: Mapping[str, Estimate]
) -> tuple[SurveyedContainer, ...]:
    return tuple(
        replace(container, estimate=estimates.get(container.name, container.estimate)) for container in containers
    )


def _has_low_confidence(vpa: VerticalPodAutoscaler) -> bool:
    conditions = (vpa.status.conditions if vpa.status is not None else None) or ()
    return any(
        condition.type == CONDITION_TYPES[ConditionBit.LOW_CONFIDENCE] and condition.status == "True"
        for condition in conditions
    )
