"""One pass: the recommendation of every VerticalPodAutoscaler, and the statuses to write.

One call for all VPAs: recommenders estimate, estimates are post-processed, conditions are computed, and a status that
differs enough from the published one is written. Only written statuses cost more than their entries in columns.

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
from trellis.core.recommend.estimation import NO_ORIGIN, EstimateOrigin, PassEstimates, ShadowEstimates, estimate_all
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.post_processing import RECOMMENDATION_KEPT, AmountsObserver, post_process
from trellis.core.recommend.protocol import Recommender, read_row_explanation
from trellis.core.recommend.publish.conditions import HistoryShortage, find_conditions, find_low_confidence
from trellis.core.recommend.publish.status import DesiredStatuses, build_status_writes, find_write_reasons
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.state.condition_types import NO_SAMPLES, ConditionBit
from trellis.core.recommend.state.tables import NO_GROUP, VpaStatusWrite
from trellis.core.recommend.state.vpa_store import MissingShadow, VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey
from trellis.core.usage.view import RowsView

RECOMMENDED = Reason("Recommended", "The recommendation follows from the usage of this container.")


CONTAINER_OFF = Reason("ContainerOff", "The policy of this container has mode Off.")
CONTAINER_GONE = Reason("ContainerGone", "No pod has this container any more.")
NOT_SERVED_HERE = Reason("NotServedHere", "The VerticalPodAutoscaler was deleted, or another recommender serves it.")


class VpaCountLabels(NamedTuple):
    """The labels by which VPAs are counted."""

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
    """The estimates of a shadow recommender, (bound, resource), and its explanation, or its failure."""

    estimates: FloatColumn
    explanation: Mapping[str, float | str]
    failure: str = ""


class ContainerExplanation(msgspec.Struct, frozen=True):
    """One container: its estimates, (bound, resource), the amounts after post-processing, (what, resource), and why.

    `explanation` is the recommender's own, `values` are its parameters; `shadows` has the estimates of shadow
    recommenders, by name.
    """

    key: RowKey
    reason: Reason
    estimates: FloatColumn
    amounts: FloatColumn
    confidence: float
    recommender: str = ""
    values: ParameterValues = {}
    explanation: Mapping[str, float | str] = {}
    shadows: Mapping[str, ShadowExplanation] = {}


class PassColumns(msgspec.Struct, frozen=True):
    """The recommendations of a pass: usage rows, and columns by container number.

    `container_numbers` are those of the rows, -1 without. By container number, `owners` are the numbers of the VPAs,
    `modes` and `pods` those of the VPAs, and `previous` is the uncapped target that was published before. By row,
    `count` is how many samples there were, `first` and `last` when.
    """

    keys: Sequence[RowKey]
    rows: IntColumn
    container_numbers: IntColumn
    owners: IntColumn
    count: IntColumn
    first: FloatColumn
    last: FloatColumn
    amounts: FloatColumn
    previous: FloatColumn
    modes: IntColumn
    pods: IntColumn
    sized: BoolColumn

    def get_uncapped_targets(self) -> FloatColumn:
        """The uncapped target of every row, (resource, row); NaN without a recommendation."""
        return _gather_rows(self.amounts[UNCAPPED], self.container_numbers)

    def get_previous_targets(self) -> FloatColumn:
        """The published target of every row before this pass."""
        return _gather_rows(self.previous, self.container_numbers)

    def find_previous_targets(self, rows: IntColumn) -> FloatColumn:
        """The same of some rows of the usage model, (resource, row), in millicores and bytes."""
        return _gather_rows(self.previous, self._find_container_numbers(rows))

    def find_modes(self, rows: IntColumn) -> IntColumn:
        """The update mode of their VPAs, as a number in `WRITTEN_MODES`.

        -1 for those of VPAs that are not served, and for containers that are not to be sized.
        """
        container_numbers = self._find_container_numbers(rows)
        return (
            np.where((container_numbers >= 0) & self.sized[container_numbers], self.modes[container_numbers], -1)
            if len(self.modes)
            else container_numbers
        )

    def _find_container_numbers(self, rows: IntColumn) -> IntColumn:
        container_numbers = np.full(int(max(self.rows.max(initial=-1), rows.max(initial=-1))) + 1, -1, dtype=np.int64)
        container_numbers[self.rows] = self.container_numbers
        return container_numbers[rows]


class PassResult(msgspec.Struct, frozen=True):
    """The decisions of a pass. `conditions` has the true conditions, as bits by VPA number."""

    writes: list[VpaStatusWrite]
    columns: PassColumns
    estimates: PassEstimates
    conditions: IntColumn
    counts: Mapping[VpaCountLabels, int]
    failures: tuple[VpaProblem, ...]
    bad_parameters: tuple[VpaProblem, ...]
    missing_shadows: tuple[MissingShadow, ...] = ()

    @property
    def vpas(self) -> int:
        """The number of served VPAs."""
        return sum(self.counts.values())

    def totals(self) -> FloatColumn:
        """The totals of all replicas, (resource, row), of rows with such a history, published or not."""
        return _gather_rows(self.estimates.totals, self.columns.container_numbers)

    def explain_all(self) -> Iterator[ContainerExplanation]:
        """The explanations of all containers with a row. One object for each: too slow for every pass."""
        return map(self.explain_row, range(len(self.columns.keys)))

    def explain_vpa(self, namespace: str, vpa: str) -> list[ContainerExplanation]:
        """The containers of one VPA that have a row."""
        keys = enumerate(self.columns.keys)
        return [self.explain_row(at) for at, key in keys if key.vpa == vpa and key.namespace == namespace]

    def explain_row(self, position: int) -> ContainerExplanation:
        """The explanation of one container, by the position of its row."""
        columns, estimates = self.columns, self.estimates
        key, container = columns.keys[position], int(columns.container_numbers[position])
        if container < 0:
            unknown = np.full((3, 2), np.nan), np.full((len(STATUS_FIELDS), 2), np.nan)
            return ContainerExplanation(key, NOT_SERVED_HERE, *unknown, confidence=float("nan"))
        bounds, amounts = estimates.bounds[:, :, container], columns.amounts[:, :, container]
        origin, explanation = self._read_origin(container)
        return ContainerExplanation(
            key=key,
            reason=self._find_reason(container, bounds, amounts),
            estimates=bounds,
            amounts=amounts,
            confidence=float(estimates.confidence[container]),
            recommender=origin.recommender,
            values=origin.values,
            explanation=explanation,
            shadows=self._explain_shadows(container),
        )

    def _read_origin(self, container: int) -> tuple[EstimateOrigin, dict[str, float | str]]:
        """The recommender that estimated a container, and its explanation."""
        number = int(self.estimates.origin_numbers[container])
        if number < 0:
            return NO_ORIGIN, {}
        origin = self.estimates.origins[number]
        return origin, read_row_explanation(origin.explanation, int(self.estimates.origin_rows[container]))

    def _explain_shadows(self, container: int) -> dict[str, ShadowExplanation]:
        owner = int(self.columns.owners[container])
        explanations = {
            name: _explain_shadow(shadow, container, owner) for name, shadow in self.estimates.shadows.items()
        }
        return {name: explanation for name, explanation in explanations.items() if explanation is not None}

    def _find_reason(self, container: int, bounds: FloatColumn, amounts: FloatColumn) -> Reason:
        if not self.columns.sized[container]:
            return CONTAINER_OFF
        if not np.isnan(bounds[MIDDLE]).all():
            return RECOMMENDED
        if not np.isnan(amounts[TARGET]).all():
            return RECOMMENDATION_KEPT
        return NO_SAMPLES if self.estimates.positions[container] >= 0 else CONTAINER_GONE


def _explain_shadow(shadow: ShadowEstimates, container: int, owner: int) -> ShadowExplanation | None:
    at = np.flatnonzero(shadow.numbers == container)
    if not len(at):
        return None
    explanation = read_row_explanation(shadow.explanation, int(at[0]))
    return ShadowExplanation(shadow.bounds[:, :, at[0]], explanation, shadow.failures.get(owner, ""))


def _gather_rows(by_container: FloatColumn, container_numbers: IntColumn) -> FloatColumn:
    columns = np.full((*by_container.shape[:-1], len(container_numbers)), np.nan)
    has_container = container_numbers >= 0
    columns[..., has_container] = by_container[..., container_numbers[has_container]]
    return columns


def find_shortages(vpas: IntColumn, estimates: PassEstimates, columns: PassColumns) -> dict[int, HistoryShortage]:
    """By VPA number, the container with the lowest confidence, where confidence is low."""
    numbers = np.flatnonzero(find_low_confidence(estimates))
    owners = columns.owners[numbers]
    is_selected = np.zeros(max(int(columns.owners.max(initial=-1)), int(vpas.max(initial=-1))) + 1, dtype=np.bool_)
    is_selected[vpas] = True
    numbers, owners = numbers[is_selected[owners]], owners[is_selected[owners]]
    order = np.lexsort((estimates.confidence[numbers], owners))
    vpa_numbers, first = np.unique(owners[order], return_index=True)
    at = estimates.positions[numbers[order][first]]
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
    observer: AmountsObserver | None = None,
) -> PassResult:
    """Run a pass over all rows; the store records writes once they are applied. `observer` follows post-processing."""
    store.apply_changes(recommenders)
    container_numbers = store.find_container_numbers(view.keys)
    estimates = estimate_all(view, container_numbers, store, recommenders, now)
    store.record_failures(estimates.failures)
    amounts = post_process(estimates, store, settings, observer)
    conditions = find_conditions(amounts, estimates, store)
    reasons = find_write_reasons(amounts, conditions, store, settings, now)
    to_write = np.flatnonzero(reasons)
    columns = _build_columns(view, container_numbers, amounts, store)
    desired = DesiredStatuses(amounts, conditions, reasons, find_shortages(to_write, estimates, columns))
    return PassResult(
        writes=list(build_status_writes(to_write.tolist(), desired, store, now)),
        columns=columns,
        estimates=estimates,
        conditions=conditions,
        counts=_count_vpas(conditions, store),
        failures=_list_problems(store, np.flatnonzero(store.vpas.failed)),
        bad_parameters=_list_problems(store, np.flatnonzero(store.vpas.group == NO_GROUP)),
        missing_shadows=tuple(store.shadows.find_missing(recommenders)),
    )


def _build_columns(view: RowsView, container_numbers: IntColumn, amounts: FloatColumn, store: VpaStore) -> PassColumns:
    containers, vpas = store.containers, store.vpas
    owners = containers.vpa[: containers.numbers_end]
    return PassColumns(
        keys=view.keys,
        rows=view.rows,
        container_numbers=container_numbers,
        owners=owners.copy(),
        count=view.count,
        first=view.first,
        last=view.last,
        amounts=amounts,
        previous=containers.published[UNCAPPED, :, : containers.numbers_end].copy(),
        modes=vpas.mode[owners],
        pods=vpas.pods[owners],
        sized=containers.scaled[: containers.numbers_end].copy(),
    )


def _count_vpas(conditions: IntColumn, store: VpaStore) -> dict[VpaCountLabels, int]:
    served = np.flatnonzero(store.vpas.find_active())
    bits = conditions[served]
    has_recommendation, has_no_pods, is_unsupported = (
        (bits & bit > 0).astype(np.int64)
        for bit in (ConditionBit.PROVIDED, ConditionBit.NO_PODS, ConditionBit.UNSUPPORTED_CONFIG)
    )
    modes = store.vpas.mode[served]
    # Metrics of quality alone distinguish whether a mode was written.
    modes = np.where(modes == WRITTEN_MODES.index(NO_MODE), COUNTED_MODES.index(UpdateMode.RECREATE), modes)
    codes, counts = np.unique(modes * 8 + has_recommendation * 4 + has_no_pods * 2 + is_unsupported, return_counts=True)
    return {
        VpaCountLabels(COUNTED_MODES[code // 8], bool(code & 4), not code & 2, bool(code & 1)): count
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
    }


def _list_problems(store: VpaStore, numbers: IntColumn) -> tuple[VpaProblem, ...]:
    entries = [store.vpas.entries[number] for number in numbers.tolist()]
    return tuple(
        VpaProblem(entry.vpa.namespace, entry.vpa.name, entry.failure or entry.parameter_problem) for entry in entries
    )
