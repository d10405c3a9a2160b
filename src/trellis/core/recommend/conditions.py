"""What is said about a VerticalPodAutoscaler in its conditions?

Upstream's types, of which those that do not hold are left out but for `RecommendationProvided`, and four of ours:

- `ConflictingVPA`, where another object governs the same pods;
- `RecommenderFailed`, where its recommender did, and the last recommendation stands;
- `HistoryUnavailable`, where past usage could not be fetched;
- `StartupBoostUnavailable`, where containers are not boosted because the boost could not be taken back, or only by a
  restart.

`ConfigDeprecated` is never set. The list is ours alone, as a status has one writer: what others put there is dropped
with the next write, but it is no cause for one.

A pass works with bits, one per type; documents are made only for what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from trellis.api.parts import Condition
from trellis.base.durations import Duration
from trellis.base.reason import Reason, Severity
from trellis.core.recommend.served import VpaState


class Holds(IntEnum):
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


TYPES: Final = {
    Holds.PROVIDED: "RecommendationProvided",
    Holds.NO_PODS: "NoPodsMatched",
    Holds.UNSUPPORTED_CONFIG: "ConfigUnsupported",
    Holds.LOW_CONFIDENCE: "LowConfidence",
    Holds.FETCHING: "FetchingHistory",
    Holds.CONFLICTING: "ConflictingVPA",
    Holds.FAILED: "RecommenderFailed",
    Holds.NO_HISTORY: "HistoryUnavailable",
    Holds.NO_BOOST: "StartupBoostUnavailable",
}
_BITS = {type_: int(bit) for bit, type_ in TYPES.items()}
_SORTED = sorted((type_, bit) for bit, type_ in TYPES.items())

NO_PODS_MATCHED = Reason("NoPodsMatched", "No pods match this VPA object.", Severity.WARNING)
NO_SAMPLES = Reason("NoSamples", "There are no usage samples of what is to be sized yet.")
NOTHING_TO_SIZE = Reason(
    "NothingToSize", "No container is to be sized: their policies have the mode Off, or control no resource."
)
BAD_PARAMETERS = Reason(
    "BadParameters", "A parameter is unknown to the recommender, or its value breaks a rule.", Severity.WARNING
)
TARGET_UNUSABLE = Reason("TargetUnusable", "The target cannot be read, or cannot be sized.", Severity.WARNING)
SHORT_HISTORY = Reason("ShortHistory", "There is less history than full confidence takes, so the bounds are wide.")
HISTORY_LOADING = Reason("HistoryLoading", "Past usage is still being fetched.")
SOURCE_DOWN = Reason(
    "HistorySourceDown", "Past usage could not be fetched, so that history begins with checkpoints.", Severity.WARNING
)
RESIZE_NOT_SERVED = Reason(
    "ResizeNotServed",
    "The API server cannot resize pods in place, so that no pod is boosted: its boost would last for its life.",
    Severity.WARNING,
)
RESIZE_RESTARTS = Reason(
    "ResizeRestarts",
    "Containers are not boosted because a change of their CPU restarts them, also at the end of a boost.",
    Severity.WARNING,
)
OLDER_VPA_GOVERNS = Reason(
    "OlderVPAGoverns", "Pods that the object matches are governed by an older one.", Severity.WARNING
)
ACTING_VPA_GOVERNS = Reason(
    "ActingVPAGoverns",
    "Pods that the object matches are governed by one that acts, and this one is in mode Off.",
)
RECOMMENDER_FAILED = Reason(
    "RecommenderFailed",
    "The recommender raised an error or gave an impossible answer; the last recommendation stands.",
    Severity.ERROR,
)


class Texts(msgspec.Struct, frozen=True, gc=False):
    """Messages of which a change is worth a write, each with the reason it goes with; empty where nothing is said."""

    config: str = ""
    conflict: str = ""
    failure: str = ""
    config_reason: str = ""
    history: str = ""
    boost: str = ""
    conflict_reason: str = ""
    boost_reason: str = ""

    @classmethod
    def about(cls, state: VpaState, parameter_problem: str, failure: str) -> Texts:
        """What there is to say; a target that cannot be used comes first."""
        config = "; ".join(text for text in (state.problem, parameter_problem) if text)
        reason = (state.problem_reason or TARGET_UNUSABLE.code) if state.problem else BAD_PARAMETERS.code
        conflict, conflict_reason = _conflict(state)
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


def _conflict(state: VpaState) -> tuple[str, str]:
    if not state.rivals:
        return "", ""
    who = "a VerticalPodAutoscaler that acts" if state.is_outranked else "an older VerticalPodAutoscaler"
    reason = ACTING_VPA_GOVERNS if state.is_outranked else OLDER_VPA_GOVERNS
    return f"pods that this object matches are governed by {who}: {', '.join(state.rivals)}", reason.code


class Transition(msgspec.Struct, frozen=True, gc=False):
    """The status of a published condition and since when it has that."""

    status: str
    since: str


class Stored(NamedTuple):
    """Published conditions as a pass compares them."""

    truth: int
    told: int
    transitions: dict[str, Transition]


class Shortage(NamedTuple):
    """The container that is least known: its samples, and over how many seconds."""

    container: str
    samples: int
    span: float

    def __str__(self) -> str:
        over = Duration.from_seconds(int(self.span))
        return f"container {self.container} has a history of {self.samples} samples over {over}"


class Spoken(Protocol):
    """The object that conditions are about."""

    @property
    def generation(self) -> int:
        """Which one the conditions are made from."""

    @property
    def texts(self) -> Texts:
        """What there is to say."""

    @property
    def transitions(self) -> Mapping[str, Transition]:
        """What is published."""


def read_conditions(conditions: Iterable[Condition]) -> Stored:
    """What a status says; a list without `RecommendationProvided` is not one of ours and says nothing."""
    truth, texts = 0, {}
    transitions = {}
    for condition in conditions:
        transitions[condition.type] = Transition(condition.status, condition.last_transition_time or "")
        if condition.status == "True":
            truth |= _BITS.get(condition.type, 0)
            texts[condition.type] = condition.message
    told = Texts(
        texts.get(TYPES[Holds.UNSUPPORTED_CONFIG], ""),
        texts.get(TYPES[Holds.CONFLICTING], ""),
        texts.get(TYPES[Holds.FAILED], ""),
        history=texts.get(TYPES[Holds.NO_HISTORY], ""),
        boost=texts.get(TYPES[Holds.NO_BOOST], ""),
    )
    return Stored(truth if TYPES[Holds.PROVIDED] in transitions else -1, told.digest(), transitions)


def transitions_in(documents: Iterable[Mapping[str, Any]]) -> dict[str, Transition]:
    """The same of conditions that were written just now."""
    return {each["type"]: Transition(each["status"], each["lastTransitionTime"]) for each in documents}


def condition_documents(
    about: Spoken, truth: int, shortage: Shortage | None, now: str, *, sizes_any: bool = True
) -> list[dict[str, Any]]:
    """The list as it is written, sorted by type. The time of a transition moves only with the status.

    `sizes_any` is whether any of its containers is to be sized.
    """
    documents = []
    for type_, bit in _SORTED:
        holds = bool(truth & bit)
        if not holds and bit is not Holds.PROVIDED:
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
        reason, message = _explained(bit, truth, about.texts, shortage, sizes_any)
        if reason:
            document["reason"] = reason
        if message:
            document["message"] = message
        documents.append(document)
    return documents


def _explained(bit: Holds, truth: int, texts: Texts, shortage: Shortage | None, sizes_any: bool) -> tuple[str, str]:
    """The reason and the message of a condition; the one that always is there says why it is false."""
    match bit:
        case Holds.PROVIDED if truth & Holds.PROVIDED:
            return "", ""
        case Holds.PROVIDED if not truth & Holds.NO_PODS and not sizes_any:
            return NOTHING_TO_SIZE.code, "All containers have policies of mode Off, or such as control no resource"
        case Holds.PROVIDED if not truth & Holds.NO_PODS:
            return NO_SAMPLES.code, "No container that is to be sized has usage samples yet"
        case Holds.PROVIDED | Holds.NO_PODS:
            return NO_PODS_MATCHED.code, "No pods match this VPA object"
        case Holds.UNSUPPORTED_CONFIG:
            return texts.config_reason, texts.config
        case Holds.LOW_CONFIDENCE:
            return SHORT_HISTORY.code, str(shortage) if shortage is not None else SHORT_HISTORY.meaning
        case Holds.FETCHING:
            return HISTORY_LOADING.code, "Past usage is still being fetched"
        case Holds.NO_HISTORY:
            return SOURCE_DOWN.code, texts.history
        case Holds.NO_BOOST:
            return texts.boost_reason, texts.boost
        case Holds.CONFLICTING:
            return texts.conflict_reason, texts.conflict
        case Holds.FAILED:
            return RECOMMENDER_FAILED.code, texts.failure
