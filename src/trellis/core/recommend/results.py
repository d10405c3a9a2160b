"""What came out of a pass? Statuses to write, figures to count, and an answer to "why" for any container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reason import Reason
from trellis.core.recommend.amounts import MIDDLE, PUBLISHED_AS, TARGET, UNCAPPED
from trellis.core.recommend.asking import NOBODY, Answers, Told
from trellis.core.recommend.conditions import NO_SAMPLES
from trellis.core.recommend.explaining import of_row
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.served import StatusWrite
from trellis.core.recommend.shadows import Shadow, Unhosted
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey

RECOMMENDED = Reason("Recommended", "The recommendation follows from the usage of this container.")
RECOMMENDATION_KEPT = Reason("RecommendationKept", "There is nothing newer, so the recommendation of before stays.")
CONTAINER_OFF = Reason("ContainerOff", "The policy of this container has mode Off.")
CONTAINER_GONE = Reason("ContainerGone", "No pod has this container any more.")
NOT_SERVED_HERE = Reason("NotServedHere", "The VerticalPodAutoscaler is gone, or another recommender serves it.")


class Counted(NamedTuple):
    """What VPAs are counted by."""

    update_mode: str
    has_recommendation: bool
    matches_pods: bool
    unsupported_config: bool


class Complaint(NamedTuple):
    """A VPA and what is wrong with it, or what its recommender did."""

    namespace: str
    vpa: str
    message: str


class WouldBe(msgspec.Struct, frozen=True):
    """What another recommender would have found, (bound, resource), and why; or what went wrong with it."""

    found: FloatColumn
    said: Mapping[str, float | str]
    failure: str = ""


class Explanation(msgspec.Struct, frozen=True):
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
    shadows: Mapping[str, WouldBe] = {}


class Columns(msgspec.Struct, frozen=True):
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
        return _gathered(self.amounts[UNCAPPED], self.places)

    def previously(self) -> FloatColumn:
        """What was published of every row before this pass."""
        return _gathered(self.previous, self.places)

    def previously_of(self, rows: IntColumn) -> FloatColumn:
        """The same of some rows of the usage model, (resource, row), in millicores and bytes."""
        return _gathered(self.previous, self._places_of(rows))

    def modes_of(self, rows: IntColumn) -> IntColumn:
        """The update mode of their VPAs, as a number in `WRITTEN_MODES`.

        -1 for those of nobody on the board, and for containers that are not to be sized.
        """
        places = self._places_of(rows)
        return np.where((places >= 0) & self.sized[places], self.modes[places], -1) if len(self.modes) else places

    def _places_of(self, rows: IntColumn) -> IntColumn:
        places = np.full(int(max(self.rows.max(initial=-1), rows.max(initial=-1))) + 1, -1, dtype=np.int64)
        places[self.rows] = self.places
        return places[rows]


class PassResult(msgspec.Struct, frozen=True):
    """Everything a pass decided. `truth` has the conditions that hold, as bits by VPA number."""

    writes: list[StatusWrite]
    columns: Columns
    answers: Answers
    truth: IntColumn
    counts: Mapping[Counted, int]
    failures: tuple[Complaint, ...]
    bad_parameters: tuple[Complaint, ...]
    unhosted: tuple[Unhosted, ...] = ()

    @property
    def vpas(self) -> int:
        """How many are served."""
        return sum(self.counts.values())

    def totals(self) -> FloatColumn:
        """For all replicas together, (resource, row), of rows that keep such a history, published or not."""
        return _gathered(self.answers.totals, self.columns.places)

    def containers(self) -> Iterator[Explanation]:
        """Every container that has a row: an object for each, so nothing for a pass."""
        return map(self.explained, range(len(self.columns.keys)))

    def for_vpa(self, namespace: str, vpa: str) -> list[Explanation]:
        """The containers of one VPA that have a row."""
        keys = enumerate(self.columns.keys)
        return [self.explained(at) for at, key in keys if key.vpa == vpa and key.namespace == namespace]

    def explained(self, position: int) -> Explanation:
        """One container, by the position of its row."""
        columns, answers = self.columns, self.answers
        key, place = columns.keys[position], int(columns.places[position])
        if place < 0:
            nothing = np.full((3, 2), np.nan), np.full((len(PUBLISHED_AS), 2), np.nan)
            return Explanation(key, NOT_SERVED_HERE, *nothing, confidence=float("nan"))
        found, amounts = answers.bounds[:, :, place], columns.amounts[:, :, place]
        told, said = self._said(place)
        return Explanation(
            key=key,
            reason=self._reason(place, found, amounts),
            found=found,
            amounts=amounts,
            confidence=float(answers.confidence[place]),
            recommender=told.recommender,
            values=told.values,
            said=said,
            shadows=self._shadows(place),
        )

    def _said(self, place: int) -> tuple[Told, dict[str, float | str]]:
        """Who answered for a container, and why so."""
        number = int(self.answers.asked[place])
        if number < 0:
            return NOBODY, {}
        told = self.answers.told[number]
        return told, of_row(told.explanation, int(self.answers.nth[place]))

    def _shadows(self, place: int) -> dict[str, WouldBe]:
        owner = int(self.columns.owners[place])
        found = {name: _would_be(shadow, place, owner) for name, shadow in self.answers.shadows.items()}
        return {name: would_be for name, would_be in found.items() if would_be is not None}

    def _reason(self, place: int, found: FloatColumn, amounts: FloatColumn) -> Reason:
        if not self.columns.sized[place]:
            return CONTAINER_OFF
        if not np.isnan(found[MIDDLE]).all():
            return RECOMMENDED
        if not np.isnan(amounts[TARGET]).all():
            return RECOMMENDATION_KEPT
        return NO_SAMPLES if self.answers.positions[place] >= 0 else CONTAINER_GONE


def _would_be(shadow: Shadow, place: int, owner: int) -> WouldBe | None:
    at = np.flatnonzero(shadow.numbers == place)
    if not len(at):
        return None
    said = of_row(shadow.explanation, int(at[0]))
    return WouldBe(shadow.bounds[:, :, at[0]], said, shadow.failures.get(owner, ""))


def _gathered(by_container: FloatColumn, places: IntColumn) -> FloatColumn:
    gathered = np.full((*by_container.shape[:-1], len(places)), np.nan)
    known = places >= 0
    gathered[..., known] = by_container[..., places[known]]
    return gathered
