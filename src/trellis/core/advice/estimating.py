"""What would a recommender say of these workloads?

What it says of any VPA: the pipeline is the recommender's own, with a VPA in mode Off for every workload, and without
policies. What limits a user has set on advice comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.parts import TargetReference
from trellis.api.resolve import resolve_vpa
from trellis.api.vpa import PodUpdatePolicy, RecommenderSelector, VerticalPodAutoscaler, VerticalPodAutoscalerSpec
from trellis.core.advice.asked import Asked
from trellis.core.advice.counting import UsedRow
from trellis.core.advice.surveyed import Amount, Estimate, SurveyedContainer, SurveyedWorkload
from trellis.core.model.dump_lines import Missing
from trellis.core.model.keys import Key
from trellis.core.model.pods import FollowedContainer, FollowedPod
from trellis.core.recommend.amounts import LOWER_BOUND, TARGET, UPPER_BOUND
from trellis.core.recommend.board import Board
from trellis.core.recommend.declaration import needs_runs
from trellis.core.recommend.pipeline import recommend
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.results import Explanation
from trellis.core.recommend.served import ServedVpa, VpaState
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel

ESTIMATES: Final = "recommendations"
HISTORY: Final = "history"
# As many as `adaptive` chooses for in one pass: nobody asks it a second time.
_ROWS_AT_ONCE: Final = 32


class Estimated(msgspec.Struct, frozen=True):
    """Workloads with what is recommended for them, and what is missing because history or recommender failed."""

    workloads: tuple[SurveyedWorkload, ...]
    missing: tuple[Missing, ...] = ()


def estimated(
    workloads: Mapping[Key, SurveyedWorkload], used: Sequence[UsedRow], asked: Asked, now: float
) -> Estimated:
    """The same workloads with estimates, and with containers that only the past shows where nothing else is known."""
    rows = {each.row.key: each for each in used}
    complete = _with_past(workloads, rows)
    found = [_of_some(some, rows, asked, now) for some in _batches(complete)]
    return Estimated(
        tuple(each for part in found for each in part.workloads),
        tuple(each for part in found for each in part.missing),
    )


def _batches(workloads: Mapping[Key, SurveyedWorkload]) -> Iterator[dict[Key, SurveyedWorkload]]:
    """Some at a time: what a recommender looks back at is large."""
    batch: dict[Key, SurveyedWorkload] = {}
    size = 0
    for key, workload in workloads.items():
        if batch and size + len(workload.containers) > _ROWS_AT_ONCE:
            yield batch
            batch, size = {}, 0
        batch[key] = workload
        size += len(workload.containers)
    if batch:
        yield batch


def _of_some(
    workloads: Mapping[Key, SurveyedWorkload], rows: Mapping[RowKey, UsedRow], asked: Asked, now: float
) -> Estimated:
    recommender = asked.recommender
    model = UsageModel(asked.usage)
    if recommender.needs_history:
        model.keep_history(workloads.keys())
    if needs_runs(recommender):
        model.keep_runs(workloads.keys())
    places = [RowKey(*key, each.name) for key, workload in workloads.items() for each in workload.containers]
    refused = model.restore_all([rows[place].row for place in places if place in rows])
    pods: dict[str, list[FollowedPod]] = {}
    for key, workload in workloads.items():
        pods.setdefault(key[0], []).append(_pod(key, workload))
    for namespace, here in pods.items():
        model.follow(namespace, here, now)
    board = _board(workloads, recommender)
    result = recommend(model.view(), board, {recommender.name: recommender}, asked.pipeline, now)
    said = {each.key: each for each in result.containers()}
    missing = [
        *(Missing(HISTORY, key.namespace, f"{key.vpa}, {key.container}: {why}") for key, why in refused.items()),
        *(Missing(ESTIMATES, each.namespace, f"{each.vpa}: {each.message}") for each in result.failures),
    ]
    return Estimated(tuple(_finished(each, key, rows, said) for key, each in workloads.items()), tuple(missing))


def _with_past(workloads: Mapping[Key, SurveyedWorkload], rows: Iterable[RowKey]) -> dict[Key, SurveyedWorkload]:
    past: dict[Key, list[SurveyedContainer]] = {}
    for row in sorted(rows):
        past.setdefault((row.namespace, row.vpa), []).append(SurveyedContainer(row.container))
    return {
        key: each
        if each.containers
        else msgspec.structs.replace(each, containers=tuple(past.get(key, ())), is_sized=False)
        for key, each in workloads.items()
    }


def _pod(key: Key, workload: SurveyedWorkload) -> FollowedPod:
    """One pod that stands for all: what it asks for is what the recommender sees of requests."""
    containers = tuple(
        FollowedContainer(each.name, each.request.memory, each.request.cpu) for each in workload.containers
    )
    return FollowedPod(key[0], key[1], key[1], key[1], True, containers)


def _board(workloads: Mapping[Key, SurveyedWorkload], recommender: Recommender) -> Board:
    board = Board()
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
        board.put(ServedVpa(namespace, name, f"{namespace}/{name}", "1", 1, 0.0, effective, recommender.name))
        board.state(namespace, name, VpaState(max(1, workload.pods)))
    return board


def _finished(
    workload: SurveyedWorkload, key: Key, rows: Mapping[RowKey, UsedRow], said: Mapping[RowKey, Explanation]
) -> SurveyedWorkload:
    places = [RowKey(*key, each.name) for each in workload.containers]
    containers = tuple(
        _completed(each, rows.get(place), said.get(place))
        for each, place in zip(workload.containers, places, strict=True)
    )
    return msgspec.structs.replace(workload, containers=containers)


def _completed(container: SurveyedContainer, used: UsedRow | None, why: Explanation | None) -> SurveyedContainer:
    found: dict[str, Any] = {"estimate": _estimate(why)} if why is not None else {}
    if used is not None:
        row = used.row
        found |= {"highest": used.highest, "samples": row.count, "first": row.first, "last": row.last}
        found |= {"kills": used.kills, "last_kill": used.last_kill}
    return msgspec.structs.replace(container, **found)


def _estimate(why: Explanation) -> Estimate:
    target, lower, upper = (Amount(*why.amounts[what].tolist()) for what in (TARGET, LOWER_BOUND, UPPER_BOUND))
    return Estimate(target, lower, upper, why.confidence, why.reason.code, dict(why.said))
