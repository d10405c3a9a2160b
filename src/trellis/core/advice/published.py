"""What do VerticalPodAutoscalers already say of these workloads? Their statuses as estimates, whoever wrote them.

A status has no history to look at: whether there was enough of it, its condition says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.advice.surveyed import Amount, Estimate, SurveyedContainer, SurveyedWorkload
from trellis.core.model.keys import Key
from trellis.core.recommend.amounts import LOWER_BOUND, TARGET, UPPER_BOUND
from trellis.core.recommend.conditions import TYPES, Holds
from trellis.core.recommend.published import read_amounts, recommendations_in
from trellis.core.recommend.results import RECOMMENDED


def with_published(
    workloads: Iterable[SurveyedWorkload], vpas: Iterable[VerticalPodAutoscaler]
) -> tuple[SurveyedWorkload, ...]:
    """The workloads that have a VPA, each with what the first of its VPAs recommends."""
    by_name = {(vpa.metadata.namespace, vpa.metadata.name): vpa for vpa in vpas}
    return tuple(_estimated(each, by_name) for each in workloads if each.vpas)


def _estimated(workload: SurveyedWorkload, vpas: Mapping[Key, VerticalPodAutoscaler]) -> SurveyedWorkload:
    vpa = vpas.get((workload.namespace, workload.vpas[0]))
    if vpa is None:
        return workload
    entries = recommendations_in(vpa.status)
    amounts = read_amounts(entries)
    confidence = 0.0 if _is_doubtful(vpa) else 1.0
    found = {}
    for number, entry in enumerate(entries):
        bounds = [Amount(*amounts[what, :, number].tolist()) for what in (TARGET, LOWER_BOUND, UPPER_BOUND)]
        found[entry.container_name] = Estimate(bounds[0], bounds[1], bounds[2], confidence, RECOMMENDED.code)
    return replace(workload, containers=_completed(workload.containers, found))


def _completed(containers: Sequence[SurveyedContainer], found: Mapping[str, Estimate]) -> tuple[SurveyedContainer, ...]:
    return tuple(replace(each, estimate=found.get(each.name, each.estimate)) for each in containers)


def _is_doubtful(vpa: VerticalPodAutoscaler) -> bool:
    conditions = (vpa.status.conditions if vpa.status is not None else None) or ()
    return any(each.type == TYPES[Holds.LOW_CONFIDENCE] and each.status == "True" for each in conditions)
