"""Conditions of VerticalPodAutoscalers: which hold, for all VPAs at once as bits, and the documents to write.

The types, their reasons and messages are in `trellis.core.recommend.state.condition_types`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from trellis.base.durations import Duration
from trellis.core.recommend.amounts import TARGET
from trellis.core.recommend.estimation import PassEstimates
from trellis.core.recommend.state.condition_types import (
    CONDITION_TYPES,
    HISTORY_LOADING,
    HISTORY_SOURCE_DOWN,
    NO_PODS_MATCHED,
    NO_SAMPLES,
    NOTHING_TO_SIZE,
    RECOMMENDER_FAILED,
    SHORT_HISTORY,
    ConditionBit,
    ConditionMessages,
    ConditionTransition,
)
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.state.vpa_table import NO_GROUP
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_SORTED_TYPES = sorted((type_, bit) for bit, type_ in CONDITION_TYPES.items())


class HistoryShortage(NamedTuple):
    """The container that is least known: its samples, and over how many seconds."""

    container: str
    samples: int
    span: float

    def __str__(self) -> str:
        over = Duration.from_seconds(int(self.span))
        return f"container {self.container} has a history of {self.samples} samples over {over}"


class ConditionSubject(Protocol):
    """The object that conditions are about."""

    @property
    def generation(self) -> int:
        """Which one the conditions are made from."""

    @property
    def texts(self) -> ConditionMessages:
        """What there is to say."""

    @property
    def transitions(self) -> Mapping[str, ConditionTransition]:
        """What is published."""


def build_conditions(
    about: ConditionSubject, truth: int, shortage: HistoryShortage | None, now: str, *, sizes_any: bool = True
) -> list[dict[str, Any]]:
    """The list as it is written, sorted by type. The time of a transition moves only with the status.

    `sizes_any` is whether any of its containers is to be sized.
    """
    documents = []
    for type_, bit in _SORTED_TYPES:
        holds = bool(truth & bit)
        if not holds and bit is not ConditionBit.PROVIDED:
            continue
        status = "True" if holds else "False"
        was = about.transitions.get(type_)
        since = was.since if was is not None and was.status == status and was.since else now
        document: dict[str, Any] = {
            "type": type_,
            "status": status,
            "observedGeneration": about.generation,
            "lastTransitionTime": since,
        }
        reason, message = _find_reason_and_message(bit, truth, about.texts, shortage, sizes_any)
        if reason:
            document["reason"] = reason
        if message:
            document["message"] = message
        documents.append(document)
    return documents


def _find_reason_and_message(
    bit: ConditionBit, truth: int, texts: ConditionMessages, shortage: HistoryShortage | None, sizes_any: bool
) -> tuple[str, str]:
    """The reason and the message of a condition; the one that always is there says why it is false."""
    match bit:
        case ConditionBit.PROVIDED if truth & ConditionBit.PROVIDED:
            return "", ""
        case ConditionBit.PROVIDED if not truth & ConditionBit.NO_PODS and not sizes_any:
            return NOTHING_TO_SIZE.code, "All containers have policies of mode Off, or such as control no resource"
        case ConditionBit.PROVIDED if not truth & ConditionBit.NO_PODS:
            return NO_SAMPLES.code, "No container that is to be sized has usage samples yet"
        case ConditionBit.PROVIDED | ConditionBit.NO_PODS:
            return NO_PODS_MATCHED.code, "No pods match this VPA object"
        case ConditionBit.UNSUPPORTED_CONFIG:
            return texts.config_reason, texts.config
        case ConditionBit.LOW_CONFIDENCE:
            return SHORT_HISTORY.code, str(shortage) if shortage is not None else SHORT_HISTORY.meaning
        case ConditionBit.FETCHING:
            return HISTORY_LOADING.code, "Past usage is still being fetched"
        case ConditionBit.NO_HISTORY:
            return HISTORY_SOURCE_DOWN.code, texts.history
        case ConditionBit.NO_BOOST:
            return texts.boost_reason, texts.boost
        case ConditionBit.CONFLICTING:
            return texts.conflict_reason, texts.conflict
        case ConditionBit.FAILED:
            return RECOMMENDER_FAILED.code, texts.failure


def find_conditions(amounts: FloatColumn, answers: PassEstimates, board: VpaStore) -> IntColumn:
    """The bits of every VPA number. Whose recommender was not asked, or failed, is as sure as it was before."""
    vpas, containers = board.vpas, board.containers
    reach, owners = vpas.reach, containers.vpa[: containers.reach]
    low = _mark_owners(find_low_confidence(answers), owners, reach)
    not_asked = vpas.failed[:reach] | (vpas.group[:reach] == NO_GROUP)
    low = np.where(not_asked, (vpas.truth[:reach] > 0) & (vpas.truth[:reach] & ConditionBit.LOW_CONFIDENCE > 0), low)
    found = np.zeros(reach, dtype=np.int64)
    for bit, holds in (
        (ConditionBit.PROVIDED, _mark_owners(~np.isnan(amounts[TARGET]).all(axis=0), owners, reach)),
        (ConditionBit.NO_PODS, vpas.pods[:reach] == 0),
        (ConditionBit.UNSUPPORTED_CONFIG, vpas.problem[:reach] | (vpas.group[:reach] == NO_GROUP)),
        (ConditionBit.LOW_CONFIDENCE, low),
        (ConditionBit.FETCHING, vpas.fetching[:reach]),
        (ConditionBit.CONFLICTING, vpas.rivals[:reach]),
        (ConditionBit.FAILED, vpas.failed[:reach]),
        (ConditionBit.NO_HISTORY, vpas.unwarmed[:reach]),
        (ConditionBit.NO_BOOST, vpas.unboosted[:reach]),
    ):
        found[holds] |= bit
    return found


def find_low_confidence(answers: PassEstimates) -> BoolColumn:
    """Containers that were recommended for with less than full confidence."""
    answered = ~np.isnan(answers.bounds).all(axis=(0, 1))
    found: BoolColumn = answered & (answers.confidence < 1)
    return found


def _mark_owners(containers: BoolColumn, owners: IntColumn, reach: int) -> BoolColumn:
    found = np.zeros(reach, dtype=np.bool_)
    found[owners[containers]] = True
    return found
