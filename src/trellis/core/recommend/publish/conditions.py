"""Sets the conditions of VerticalPodAutoscalers: for all of them at once, as bits, and then each as it is written.

The types, reasons and messages are in `trellis.core.recommend.state.condition_types`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from trellis.base.durations import Duration
from trellis.core.recommend.amounts import (
    TARGET,
)
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
from trellis.core.recommend.state.tables import NO_GROUP
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_SORTED_TYPES = sorted((type_, bit) for bit, type_ in CONDITION_TYPES.items())


class HistoryShortage(NamedTuple):
    """The container with the least history: its samples, and over how many seconds."""

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
        """The generation that the conditions are about."""

    @property
    def messages(self) -> ConditionMessages:
        """Messages and reasons of the conditions."""

    @property
    def transitions(self) -> Mapping[str, ConditionTransition]:
        """The published conditions."""


def build_conditions(
    subject: ConditionSubject, conditions: int, shortage: HistoryShortage | None, now: str, *, sizes_any: bool = True
) -> list[dict[str, Any]]:
    """The list as it is written, sorted by type. The time of a transition moves only with the status.

    `sizes_any` is whether any of its containers is to be sized.
    """
    documents = []
    for type_, bit in _SORTED_TYPES:
        holds = bool(conditions & bit)
        if not holds and bit is not ConditionBit.PROVIDED:
            continue
        status = "True" if holds else "False"
        previous = subject.transitions.get(type_)
        since = previous.since if previous is not None and previous.status == status and previous.since else now
        document: dict[str, Any] = {
            "type": type_,
            "status": status,
            "observedGeneration": subject.generation,
            "lastTransitionTime": since,
        }
        reason, message = _find_reason_and_message(bit, conditions, subject.messages, shortage, sizes_any)
        if reason:
            document["reason"] = reason
        if message:
            document["message"] = message
        documents.append(document)
    return documents


def _find_reason_and_message(
    bit: ConditionBit, conditions: int, messages: ConditionMessages, shortage: HistoryShortage | None, sizes_any: bool
) -> tuple[str, str]:
    """The reason and the message of a condition. `RecommendationProvided` is always listed, with a reason if false."""
    match bit:
        case ConditionBit.PROVIDED if conditions & ConditionBit.PROVIDED:
            return "", ""
        case ConditionBit.PROVIDED if not conditions & ConditionBit.NO_PODS and not sizes_any:
            return NOTHING_TO_SIZE.code, "The policies of all containers have mode Off or control no resource"
        case ConditionBit.PROVIDED if not conditions & ConditionBit.NO_PODS:
            return NO_SAMPLES.code, "No container has usage samples yet"
        case ConditionBit.PROVIDED | ConditionBit.NO_PODS:
            return NO_PODS_MATCHED.code, "No pods match this VPA object"
        case ConditionBit.UNSUPPORTED_CONFIG:
            return messages.config_reason, messages.config
        case ConditionBit.LOW_CONFIDENCE:
            return SHORT_HISTORY.code, str(shortage) if shortage is not None else SHORT_HISTORY.meaning
        case ConditionBit.FETCHING:
            return HISTORY_LOADING.code, "Usage history is still being read"
        case ConditionBit.NO_HISTORY:
            return HISTORY_SOURCE_DOWN.code, messages.history
        case ConditionBit.NO_BOOST:
            return messages.boost_reason, messages.boost
        case ConditionBit.CONFLICTING:
            return messages.conflict_reason, messages.conflict
        case ConditionBit.FAILED:
            return RECOMMENDER_FAILED.code, messages.failure


def find_conditions(amounts: FloatColumn, estimates: PassEstimates, store: VpaStore) -> IntColumn:
    """The bits of all VPA numbers. Where the recommender did not run, or failed, `LowConfidence` stays as published."""
    vpas, containers = store.vpas, store.containers
    reach, owners = vpas.numbers_end, containers.vpa[: containers.numbers_end]
    low = mark_owners(find_low_confidence(estimates), owners, reach)
    not_estimated = vpas.failed[:reach] | (vpas.group[:reach] == NO_GROUP)
    low = np.where(
        not_estimated,
        (vpas.published_conditions[:reach] > 0) & (vpas.published_conditions[:reach] & ConditionBit.LOW_CONFIDENCE > 0),
        low,
    )
    conditions = np.zeros(reach, dtype=np.int64)
    for bit, holds in (
        (ConditionBit.PROVIDED, mark_owners(~np.isnan(amounts[TARGET]).all(axis=0), owners, reach)),
        (ConditionBit.NO_PODS, vpas.pods[:reach] == 0),
        (ConditionBit.UNSUPPORTED_CONFIG, vpas.problem[:reach] | (vpas.group[:reach] == NO_GROUP)),
        (ConditionBit.LOW_CONFIDENCE, low),
        (ConditionBit.FETCHING, vpas.fetching[:reach]),
        (ConditionBit.CONFLICTING, vpas.rivals[:reach]),
        (ConditionBit.FAILED, vpas.failed[:reach]),
        (ConditionBit.NO_HISTORY, vpas.history_unavailable[:reach]),
        (ConditionBit.NO_BOOST, vpas.boost_unavailable[:reach]),
    ):
        conditions[holds] |= bit
    return conditions


def find_low_confidence(estimates: PassEstimates) -> BoolColumn:
    """Containers whose estimates have less than full confidence."""
    is_estimated = ~np.isnan(estimates.bounds).all(axis=(0, 1))
    is_low: BoolColumn = is_estimated & (estimates.confidence < 1)
    return is_low


def mark_owners(containers: BoolColumn, owners: IntColumn, reach: int) -> BoolColumn:
    """Mask of the VPA numbers that have any of these containers."""
    marked = np.zeros(reach + 1, dtype=np.bool_)  # the last is for numbers that no VPA has
    marked[owners[containers]] = True
    return marked[:-1]
