"""The condition types of a VerticalPodAutoscaler as bits, with reasons and messages; reads stored conditions.

Upstream's types, of which those that do not hold are left out but for `RecommendationProvided`, and four of ours:

- `ConflictingVPA`, where another object governs the same pods;
- `RecommenderFailed`, where its recommender did, and the last recommendation stands;
- `HistoryUnavailable`, where past usage could not be fetched;
- `StartupBoostUnavailable`, where containers are not boosted because the boost could not be taken back, or only by a
  restart.

`ConfigDeprecated` is never set. The list is ours alone, as a status has one writer: conditions that others put there
are dropped with the next write, but are no cause for one.

A pass works with bits, one per type; `trellis.core.recommend.publish.status` makes the documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from trellis.api.kinds.parts import StatusCondition
from trellis.base.reasons import Reason, Severity


class VpaState(msgspec.Struct, frozen=True, gc=False):
    """The observed state of a VPA's target.

    `pods` is how many it governs. `problem` is why its target cannot be used, empty if it can, and `problem_reason`
    the same in one word. `rivals` are objects that govern pods it matches too: older ones, or where it `is_outranked`
    such as act while it does not. While `fetching_history` what is published stays; `history_problem` is why past usage
    could not be fetched, `boost_problem` why containers are not boosted although it asks for that, and `boost_reason`
    the same in one word. `publishes_totals` is set where an Hvpa reads the status.
    """

    pods: int
    problem: str = ""
    problem_reason: str = ""
    rivals: tuple[str, ...] = ()
    is_outranked: bool = False
    fetching_history: bool = False
    history_problem: str = ""
    boost_problem: str = ""
    boost_reason: str = ""
    publishes_totals: bool = False


class ConditionBit(IntEnum):
    """One bit for each type of condition."""

    PROVIDED = 1
    NO_PODS = 2
    UNSUPPORTED_CONFIG = 4
    LOW_CONFIDENCE = 8
    FETCHING = 16
    CONFLICTING = 32
    FAILED = 64
    NO_HISTORY = 128
    NO_BOOST = 256


CONDITION_TYPES: Final = {
    ConditionBit.PROVIDED: "RecommendationProvided",
    ConditionBit.NO_PODS: "NoPodsMatched",
    ConditionBit.UNSUPPORTED_CONFIG: "ConfigUnsupported",
    ConditionBit.LOW_CONFIDENCE: "LowConfidence",
    ConditionBit.FETCHING: "FetchingHistory",
    ConditionBit.CONFLICTING: "ConflictingVPA",
    ConditionBit.FAILED: "RecommenderFailed",
    ConditionBit.NO_HISTORY: "HistoryUnavailable",
    ConditionBit.NO_BOOST: "StartupBoostUnavailable",
}
_BITS = {type_: int(bit) for bit, type_ in CONDITION_TYPES.items()}


NO_PODS_MATCHED = Reason("NoPodsMatched", "No pods match this VPA object.", Severity.WARNING)
NO_SAMPLES = Reason("NoSamples", "There are no usage samples of the containers yet.")
NOTHING_TO_SIZE = Reason(
    "NothingToSize", "No container is sized: their policies have mode Off, or control no resource."
)
BAD_PARAMETERS = Reason(
    "BadParameters", "A parameter is unknown to the recommender, or has an invalid value.", Severity.WARNING
)
TARGET_UNUSABLE = Reason(
    "TargetUnusable", "The target cannot be read, or is of a kind that cannot be sized.", Severity.WARNING
)
SHORT_HISTORY = Reason("ShortHistory", "The history is too short for full confidence, so the bounds are wide.")
HISTORY_LOADING = Reason("HistoryLoading", "Usage history is being read.")
HISTORY_SOURCE_DOWN = Reason(
    "HistorySourceDown", "Usage history could not be read, so it starts with checkpoints.", Severity.WARNING
)
RESIZE_NOT_SERVED = Reason(
    "ResizeNotServed",
    "The API server cannot resize pods in place, so no pod is boosted: its boost could not be ended.",
    Severity.WARNING,
)
RESIZE_RESTARTS = Reason(
    "ResizeRestarts",
    "Containers are not boosted, because a change of their CPU restarts them, also at the end of a boost.",
    Severity.WARNING,
)
OLDER_VPA_GOVERNS = Reason("OlderVPAGoverns", "An older VPA governs pods that this one matches.", Severity.WARNING)
ACTING_VPA_GOVERNS = Reason(
    "ActingVPAGoverns",
    "Another VPA governs pods that this one matches, because this one is in mode Off.",
)
RECOMMENDER_FAILED = Reason(
    "RecommenderFailed",
    "The recommender raised an exception or returned an invalid recommendation; the last recommendation is kept.",
    Severity.ERROR,
)


class ConditionMessages(msgspec.Struct, frozen=True, gc=False):
    """Messages of which a change is worth a write, each with its reason; empty where there is none."""

    config: str = ""
    conflict: str = ""
    failure: str = ""
    config_reason: str = ""
    history: str = ""
    boost: str = ""
    conflict_reason: str = ""
    boost_reason: str = ""

    @classmethod
    def build(cls, state: VpaState, parameter_problem: str, failure: str) -> ConditionMessages:
        """The messages for a VPA; those about an unusable target come first."""
        config = "; ".join(text for text in (state.problem, parameter_problem) if text)
        reason = (state.problem_reason or TARGET_UNUSABLE.code) if state.problem else BAD_PARAMETERS.code
        conflict, conflict_reason = _describe_conflict(state)
        return cls(
            config,
            conflict,
            failure,
            reason,
            state.history_problem,
            state.boost_problem,
            conflict_reason,
            state.boost_reason,
        )

    def digest(self) -> int:
        """A number that changes with the messages."""
        return hash((self.config, self.conflict, self.failure, self.history, self.boost))


def _describe_conflict(state: VpaState) -> tuple[str, str]:
    if not state.rivals:
        return "", ""
    rival = (
        "a VerticalPodAutoscaler that is not in mode Off" if state.is_outranked else "an older VerticalPodAutoscaler"
    )
    reason = ACTING_VPA_GOVERNS if state.is_outranked else OLDER_VPA_GOVERNS
    return f"pods that this object matches are governed by {rival}: {', '.join(state.rivals)}", reason.code


class ConditionTransition(msgspec.Struct, frozen=True, gc=False):
    """The status of a published condition and since when it has that."""

    status: str
    since: str


class StoredConditions(NamedTuple):
    """Published conditions as a pass compares them."""

    conditions: int
    messages_digest: int
    transitions: dict[str, ConditionTransition]


def read_conditions(conditions: Iterable[StatusCondition]) -> StoredConditions:
    """The conditions of a stored status; a list without `RecommendationProvided` is by another writer."""
    bits, texts = 0, {}
    transitions = {}
    for condition in conditions:
        transitions[condition.type] = ConditionTransition(condition.status, condition.last_transition_time or "")
        if condition.status == "True":
            bits |= _BITS.get(condition.type, 0)
            texts[condition.type] = condition.message
    messages = ConditionMessages(
        texts.get(CONDITION_TYPES[ConditionBit.UNSUPPORTED_CONFIG], ""),
        texts.get(CONDITION_TYPES[ConditionBit.CONFLICTING], ""),
        texts.get(CONDITION_TYPES[ConditionBit.FAILED], ""),
        history=texts.get(CONDITION_TYPES[ConditionBit.NO_HISTORY], ""),
        boost=texts.get(CONDITION_TYPES[ConditionBit.NO_BOOST], ""),
    )
    return StoredConditions(
        bits if CONDITION_TYPES[ConditionBit.PROVIDED] in transitions else -1, messages.digest(), transitions
    )


def read_transitions(documents: Iterable[Mapping[str, Any]]) -> dict[str, ConditionTransition]:
    """The same of conditions that were written just now."""
    return {
        document["type"]: ConditionTransition(document["status"], document["lastTransitionTime"])
        for document in documents
    }
