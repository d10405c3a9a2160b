"""One pass: what every VerticalPodAutoscaler should recommend now, and which statuses have to be written.

One call for all VPAs: recommenders estimate, estimates are post-processed, conditions are found, and what differs
enough from what is published becomes a write. Only what is written costs more than its places in the columns.

`PassResult` holds the statuses to write, the figures to count, and an explanation for any container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.api.resolve import COUNTED_MODES, NO_MODE, WRITTEN_MODES, UpdateMode
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import MIDDLE, STATUS_FIELDS, TARGET, UNCAPPED
from trellis.core.recommend.estimation import NO_ORIGIN, EstimateOrigin, PassEstimates, estimate_all
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.post_processing import RECOMMENDATION_KEPT, AmountsObserver, post_process
from trellis.core.recommend.protocol import Recommender, read_row_explanation
from trellis.core.recommend.publish.status import (
    DesiredStatuses,
    HistoryShortage,
    build_status_writes,
    find_conditions,
    find_low_confidence,
    find_write_reasons,
)
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.condition_types import NO_SAMPLES, ConditionBit
from trellis.core.recommend.state.shadows import MissingShadow, ShadowEstimates
from trellis.core.recommend.state.tables import NO_GROUP, VpaStatusWrite
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey
from trellis.core.usage.view import RowsView

RECOMMENDED = Reason("Recommended", "The recommendation follows from the usage of this container.")


CONTAINER_OFF = Reason("ContainerOff", "The policy of this container has mode Off.")
CONTAINER_GONE = Reason("ContainerGone", "No pod has this container any more.")
NOT_SERVED_HERE = Reason("NotServedHere", "The VerticalPodAutoscaler is gone, or another recommender serves it.")


class VpaCountLabels(NamedTuple):
    """What VPAs are counted by."""

    update_mode: str
    has_recommendation: bool
    matches_pods: bool
    unsupported_config: bool


class VpaProblem(NamedTuple):
    """A VPA and what is wrong with it, or what its recommender did."""

    namespace: str
    vpa: str
    message: str


class ShadowExplanation(msgspec.Struct, frozen=True):
    """What another recommender would have found, (bound, resource), and why; or what went wrong with it."""

    found: FloatColumn
    said: Mapping[str, float | str]
    failure: str = ""


class ContainerExplanation(msgspec.Struct, frozen=True):
    """One container: what was found, (bound, resource), what became of it, (what, resource), and why.

    `said` is what the recommender says of it, in its own words, and `values` the parameters it was asked with;
    `shadows` is what others would have found, by their names.
    """

    key: RowKey
    reason: Reason
    found: FloatColumn
    amounts: FloatColumn
    confidence: float
    recommender: str = ""
    values: ParameterValues = {}
    said: Mapping[str, float | str] = {}
    shadows: Mapping[str, ShadowExplanation] = {}


class PassColumns(msgspec.Struct, frozen=True):
    """The recommendations of a pass. `places` leads from rows to container numbers, by which amounts and the like go.

    `owners` are the numbers of the containers' VPAs, `modes` and `pods` what those have. `previous` is the uncapped
    target that was published before. Of each row, `count` is how many samples there were, `first` and `last` when.
    """

    keys: Sequence[RowKey]
    rows: IntColumn
    places: IntColumn
    owners: IntColumn
    count: IntColumn
    first: FloatColumn
    last: FloatColumn
    amounts: FloatColumn
    previous: FloatColumn
    modes: IntColumn
    pods: IntColumn
    sized: BoolColumn

    def uncapped(self) -> FloatColumn:
        """Of every row, (resource, row); NaN where nothing is recommended."""
        return _gather_rows(self.amounts[UNCAPPED], self.places)

    def previously(self) -> FloatColumn:
        """What was published of every row before this pass."""
        return _gather_rows(self.previous, self.places)

    def previously_of(self, rows: IntColumn) -> FloatColumn:
        """The same of some rows of the usage model, (resource, row), in millicores and bytes."""
        return _gather_rows(self.previous, self._places_of(rows))

    def modes_of(self, rows: IntColumn) -> IntColumn:
        """The update mode of their VPAs, as a number in `WRITTEN_MODES`.

        -1 for those of VPAs that are not served, and for containers that are not to be sized.
        """
        places = self._places_of(rows)
        return np.where((places >= 0) & self.sized[places], self.modes[places], -1) if len(self.modes) else places

    def _places_of(self, rows: IntColumn) -> IntColumn:
        places = np.full(int(max(self.rows.max(initial=-1), rows.max(initial=-1))) + 1, -1, dtype=np.int64)
        places[self.rows] = self.places
        return places[rows]


class PassResult(msgspec.Struct, frozen=True):
    """Everything a pass decided. `truth` has the conditions that hold, as bits by VPA number."""

    writes: list[VpaStatusWrite]
    columns: PassColumns
    answers: PassEstimates
    truth: IntColumn
    counts: Mapping[VpaCountLabels, int]
    failures: tuple[VpaProblem, ...]
    bad_parameters: tuple[VpaProblem, ...]
    unhosted: tuple[MissingShadow, ...] = ()

    @property
    def vpas(self) -> int:
        """How many are served."""
        return sum(self.counts.values())

    def totals(self) -> FloatColumn:
        """For all replicas together, (resource, row), of rows that keep such a history, published or not."""
        return _gather_rows(self.answers.totals, self.columns.places)

    def containers(self) -> Iterator[ContainerExplanation]:
        """Every container that has a row: an object for each, so nothing for a pass."""
        return map(self.explained, range(len(self.columns.keys)))

    def for_vpa(self, namespace: str, vpa: str) -> list[ContainerExplanation]:
        """The containers of one VPA that have a row."""
        keys = enumerate(self.columns.keys)
        return [self.explained(at) for at, key in keys if key.vpa == vpa and key.namespace == namespace]

    def explained(self, position: int) -> ContainerExplanation:
        """One container, by the position of its row."""
        columns, answers = self.columns, self.answers
        key, place = columns.keys[position], int(columns.places[position])
        if place < 0:
            nothing = np.full((3, 2), np.nan), np.full((len(STATUS_FIELDS), 2), np.nan)
            return ContainerExplanation(key, NOT_SERVED_HERE, *nothing, confidence=float("nan"))
        bounds, amounts = answers.bounds[:, :, place], columns.amounts[:, :, place]
        origin, explanation = self._read_origin(place)
        return ContainerExplanation(
            key=key,
            reason=self._reason(place, bounds, amounts),
            found=bounds,
            amounts=amounts,
            confidence=float(answers.confidence[place]),
            recommender=origin.recommender,
            values=origin.values,
            said=explanation,
            shadows=self._shadows(place),
        )

    def _read_origin(self, place: int) -> tuple[EstimateOrigin, dict[str, float | str]]:
        """The recommender that estimated a container, and its explanation."""
        number = int(self.answers.asked[place])
        if number < 0:
            return NO_ORIGIN, {}
        origin = self.answers.told[number]
        return origin, read_row_explanation(origin.explanation, int(self.answers.nth[place]))

    def _shadows(self, place: int) -> dict[str, ShadowExplanation]:
        owner = int(self.columns.owners[place])
        explanations = {name: _explain_shadow(shadow, place, owner) for name, shadow in self.answers.shadows.items()}
        return {name: would_be for name, would_be in explanations.items() if would_be is not None}

    def _reason(self, place: int, bounds: FloatColumn, amounts: FloatColumn) -> Reason:
        if not self.columns.sized[place]:
            return CONTAINER_OFF
        if not np.isnan(bounds[MIDDLE]).all():
            return RECOMMENDED
        if not np.isnan(amounts[TARGET]).all():
            return RECOMMENDATION_KEPT
        return NO_SAMPLES if self.answers.positions[place] >= 0 else CONTAINER_GONE


def _explain_shadow(shadow: ShadowEstimates, place: int, owner: int) -> ShadowExplanation | None:
    at = np.flatnonzero(shadow.numbers == place)
    if not len(at):
        return None
    explanation = read_row_explanation(shadow.explanation, int(at[0]))
    return ShadowExplanation(shadow.bounds[:, :, at[0]], explanation, shadow.failures.get(owner, ""))


def _gather_rows(by_container: FloatColumn, places: IntColumn) -> FloatColumn:
    gathered = np.full((*by_container.shape[:-1], len(places)), np.nan)
    placed = places >= 0
    gathered[..., placed] = by_container[..., places[placed]]
    return gathered


def find_shortages(of: IntColumn, answers: PassEstimates, columns: PassColumns) -> dict[int, HistoryShortage]:
    """Of each of these VPA numbers: the container with the least confidence, if it is too little."""
    numbers = np.flatnonzero(find_low_confidence(answers))
    owners = columns.owners[numbers]
    is_asked = np.zeros(max(int(columns.owners.max(initial=-1)), int(of.max(initial=-1))) + 1, dtype=np.bool_)
    is_asked[of] = True
    numbers, owners = numbers[is_asked[owners]], owners[is_asked[owners]]
    order = np.lexsort((answers.confidence[numbers], owners))
    vpa_numbers, first = np.unique(owners[order], return_index=True)
    at = answers.positions[numbers[order][first]]
    spans = np.nan_to_num(columns.last[at] - columns.first[at])
    names = [columns.keys[position].container for position in at.tolist()]
    shortages = map(HistoryShortage, names, columns.count[at].tolist(), spans.tolist())
    return dict(zip(vpa_numbers.tolist(), shortages, strict=True))


__all__ = ["PassResult", "run_pass"]


def run_pass(
    view: RowsView,
    store: VpaStore,
    recommenders: Mapping[str, Recommender],
    settings: PipelineSettings,
    now: float,
    *,
    watch: AmountsObserver | None = None,
) -> PassResult:
    """One pass over all rows; the store learns of the writes when they are applied. `watch` sees answers finished."""
    store.settle(recommenders)
    places = store.places(view.keys)
    answers = estimate_all(view, places, store, recommenders, now)
    store.fail(answers.failures)
    amounts = post_process(answers, store, settings, watch)
    truth = find_conditions(amounts, answers, store)
    reasons = find_write_reasons(amounts, truth, store, settings, now)
    due = np.flatnonzero(reasons)
    columns = _build_columns(view, places, amounts, store)
    desired = DesiredStatuses(amounts, truth, reasons, find_shortages(due, answers, columns))
    return PassResult(
        writes=list(build_status_writes(due.tolist(), desired, store, now)),
        columns=columns,
        answers=answers,
        truth=truth,
        counts=_count_vpas(truth, store),
        failures=_list_problems(store, np.flatnonzero(store.vpas.failed)),
        bad_parameters=_list_problems(store, np.flatnonzero(store.vpas.group == NO_GROUP)),
        unhosted=tuple(store.shadows.unhosted(recommenders)),
    )


def _build_columns(view: RowsView, places: IntColumn, amounts: FloatColumn, store: VpaStore) -> PassColumns:
    containers, vpas = store.containers, store.vpas
    owners = containers.vpa[: containers.reach]
    return PassColumns(
        keys=view.keys,
        rows=view.rows,
        places=places,
        owners=owners.copy(),
        count=view.count,
        first=view.first,
        last=view.last,
        amounts=amounts,
        previous=containers.published[UNCAPPED, :, : containers.reach].copy(),
        modes=vpas.mode[owners],
        pods=vpas.pods[owners],
        sized=containers.scaled[: containers.reach].copy(),
    )


def _count_vpas(truth: IntColumn, store: VpaStore) -> dict[VpaCountLabels, int]:
    served = np.flatnonzero(store.vpas.active())
    bits = truth[served]
    has, lacks, wrong = (
        (bits & bit > 0).astype(np.int64)
        for bit in (ConditionBit.PROVIDED, ConditionBit.NO_PODS, ConditionBit.UNSUPPORTED_CONFIG)
    )
    modes = store.vpas.mode[served]
    # Only quality is told apart by whether a mode was written.
    modes = np.where(modes == WRITTEN_MODES.index(NO_MODE), COUNTED_MODES.index(UpdateMode.RECREATE), modes)
    codes, counts = np.unique(modes * 8 + has * 4 + lacks * 2 + wrong, return_counts=True)
    return {
        VpaCountLabels(COUNTED_MODES[code // 8], bool(code & 4), not code & 2, bool(code & 1)): count
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    }


def _list_problems(store: VpaStore, numbers: IntColumn) -> tuple[VpaProblem, ...]:
    entries = [store.vpas.entries[number] for number in numbers.tolist()]
    return tuple(
        VpaProblem(entry.vpa.namespace, entry.vpa.name, entry.failure or entry.parameter_problem) for entry in entries
    )
