"""Explains what the last pass decided about a VerticalPodAutoscaler, as a document whose keys are an interface.

`LastPass` is retained until the next pass is over. It refers to the columns of the pass and to the entries of the VPA
store: no object is made for each container, and hardly any for each VPA. The document of one VPA is built on request
from the decisions, without computing anything again: its recommender, the estimates and their explanation, the amounts
after post-processing, the published amounts, the conditions, and the estimates of shadow recommenders.

`TargetTrace` observes a pass and records every post-processor that changed a target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import numpy as np

from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.core.recommend.amounts import LOWER, MIDDLE, RESOURCES, TARGET, UPPER
from trellis.core.recommend.capping.policy import compile_policy_bounds
from trellis.core.recommend.publish.conditions import HistoryShortage, build_conditions
from trellis.core.recommend.publish.status import build_container_recommendations, format_resources
from trellis.core.recommend.recommendation_pass import ContainerExplanation, PassResult, find_shortages
from trellis.core.recommend.state.condition_types import (
    CONDITION_TYPES,
    ConditionBit,
    ConditionMessages,
    ConditionTransition,
)
from trellis.core.recommend.state.tables import (
    NO_GROUP,
    VpaEntry,
    VpaStatusWrite,
    list_recommendations,
    read_shadow_names,
)
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.columns import BoolColumn, FloatColumn
from trellis.core.usage.state import VpaKey

_NO_MESSAGES = ConditionMessages()


class PassConditionSubject(msgspec.Struct, frozen=True):
    """A VPA as the pass read it: the input of its conditions."""

    generation: int
    messages: ConditionMessages
    transitions: Mapping[str, ConditionTransition]


class LastPass(msgspec.Struct, frozen=True):
    """The result of a pass without its writes, and the VPAs by number.

    `messages` are those of VPAs with a problem. `written` are the VPAs whose status was written in this pass.
    """

    time: float
    result: PassResult
    entries: Mapping[int, VpaEntry]
    messages: Mapping[int, ConditionMessages]
    written: BoolColumn

    @classmethod
    def build(cls, result: PassResult, store: VpaStore, writes: Iterable[VpaStatusWrite], now: float) -> LastPass:
        """The pass as the store has it after these writes."""
        vpas = store.vpas
        written = np.zeros(vpas.numbers_end, dtype=np.bool_)
        written[[vpas.find((write.namespace, write.name)) for write in writes]] = True
        has_message = (
            vpas.problem
            | vpas.rivals
            | vpas.failed
            | vpas.history_unavailable
            | vpas.boost_unavailable
            | (vpas.group == NO_GROUP)
        )
        entries = dict(vpas.entries)
        messages = {number: entries[number].messages for number in np.flatnonzero(has_message).tolist()}
        return cls(now, msgspec.structs.replace(result, writes=[]), entries, messages, written)

    def find(self, namespace: str, name: str) -> int:
        """The number of a VPA; -1 if it was not served."""
        for number, entry in self.entries.items():
            if entry.vpa.name == name and entry.vpa.namespace == namespace:
                return number
        return -1

    def list_vpas(self, namespace: str = "") -> list[tuple[VpaKey, int]]:
        """Namespace, name and number of all VPAs, or of those of one namespace, sorted."""
        vpas = ((entry.vpa, number) for number, entry in self.entries.items())
        return sorted(((vpa.namespace, vpa.name), number) for vpa, number in vpas if namespace in ("", vpa.namespace))

    def find_rows(self, number: int) -> Sequence[int]:
        """The positions of the rows of a VPA's containers, in the order of their names."""
        columns = self.result.columns
        is_of_vpa = np.isin(columns.container_numbers, np.flatnonzero(columns.owners == number))
        positions: list[int] = np.flatnonzero(is_of_vpa).tolist()
        return sorted(positions, key=lambda position: columns.keys[position].container)

    def get_condition_subject(self, number: int) -> PassConditionSubject:
        """The input of a VPA's conditions."""
        entry = self.entries[number]
        return PassConditionSubject(entry.generation, self.messages.get(number, _NO_MESSAGES), entry.transitions)

    def find_shortage(self, number: int) -> HistoryShortage | None:
        """The container of a VPA with the least history, if its confidence is low."""
        return find_shortages(np.array([number]), self.result.estimates, self.result.columns).get(number)


_BOUND_FIELDS: Final = (("lowerBound", LOWER), ("target", MIDDLE), ("upperBound", UPPER))


def describe_vpa(last: LastPass, number: int) -> dict[str, Any]:
    """The full document of one VPA."""
    entry, messages = last.entries[number], last.get_condition_subject(number).messages
    vpa = entry.vpa
    rows = last.find_rows(number)
    explained = [last.result.explain_row(row) for row in rows]
    document: dict[str, Any] = {
        "namespace": vpa.namespace,
        "name": vpa.name,
        "generation": vpa.generation,
        "recommender": vpa.recommender,
        "given": dict(vpa.effective.parameters),
        "parameters": next((dict(container.values) for container in explained if container.values), {}),
        "updateMode": str(vpa.effective.mode),
        "time": _format_time(last.time),
        "conditions": _build_condition_documents(last, number, rows),
        "containers": _build_container_documents(last, number, rows, explained),
    }
    if messages.failure:
        document["failure"] = messages.failure
    missing_shadows = [
        shadow.recommender
        for shadow in last.result.missing_shadows
        if (shadow.namespace, shadow.vpa) == _get_vpa_key(entry)
    ]
    return document | ({"shadowsNotRunning": missing_shadows} if missing_shadows else {})


def summarize_vpa(last: LastPass, number: int) -> dict[str, Any]:
    """A VPA in a list: its recommender, and which conditions hold."""
    entry, conditions = last.entries[number], int(last.result.conditions[number])
    vpa = entry.vpa
    document: dict[str, Any] = {
        "namespace": vpa.namespace,
        "name": vpa.name,
        "recommender": vpa.recommender,
        "conditions": sorted(type_ for bit, type_ in CONDITION_TYPES.items() if conditions & bit),
    }
    shadows = read_shadow_names(vpa.annotations, vpa.recommender)
    return document | ({"shadows": list(shadows)} if shadows else {})


def _build_condition_documents(last: LastPass, number: int, rows: Iterable[int]) -> list[dict[str, Any]]:
    if last.entries[number].state is None:
        return []  # its target has not been read yet
    conditions = int(last.result.conditions[number])
    shortage = last.find_shortage(number) if conditions & ConditionBit.LOW_CONFIDENCE else None
    sizes_any = last.entries[number].vpa.sizes_any_container(last.result.columns.keys[row].container for row in rows)
    return build_conditions(
        last.get_condition_subject(number), conditions, shortage, _format_time(last.time), sizes_any=sizes_any
    )


def _build_container_documents(
    last: LastPass, number: int, rows: Sequence[int], explained: Sequence[ContainerExplanation]
) -> list[dict[str, Any]]:
    recommended = _build_recommended_documents(last.entries[number], explained)
    published = recommended if last.written[number] else _build_published_documents(last.entries[number])
    columns = last.result.columns
    return [
        {
            "name": container.key.container,
            "reason": container.reason.code,
            "meaning": container.reason.meaning,
            "recommender": container.recommender,
            "explanation": _build_explanation_document(container.explanation),
            "confidence": _replace_non_finite(container.confidence),
            "samples": int(columns.count[row]),
            "firstSample": _format_optional_time(columns.first[row]),
            "lastSample": _format_optional_time(columns.last[row]),
            "found": _build_bounds_document(container.estimates),
            "recommended": recommended.get(container.key.container, {}),
            "published": published.get(container.key.container, {}),
            "shadows": {
                name: {
                    "found": _build_bounds_document(shadow.estimates),
                    "explanation": _build_explanation_document(shadow.explanation),
                    "failure": shadow.failure,
                }
                for name, shadow in sorted(container.shadows.items())
            },
        }
        for row, container in zip(rows, explained, strict=True)
    ]


def _build_recommended_documents(
    entry: VpaEntry, explained: Sequence[ContainerExplanation]
) -> dict[str, dict[str, Any]]:
    """The entries of a status that is written now, by container."""
    if not explained:
        return {}
    names = [container.key.container for container in explained]
    amounts = np.stack([container.amounts for container in explained], axis=-1)
    bound_texts = [compile_policy_bounds(entry.vpa.effective.get_container(name)).texts for name in names]
    documents = build_container_recommendations(
        names, amounts, {at: texts for at, texts in enumerate(bound_texts) if texts}
    )
    return {
        document.pop("containerName"): {key: value for key, value in document.items() if value}
        for document in documents
    }


def _build_published_documents(entry: VpaEntry) -> dict[str, dict[str, Any]]:
    """The entries of the stored status, by container."""
    documents = map(msgspec.to_builtins, list_recommendations(entry.vpa.status))
    return {document.pop("containerName"): document for document in documents}


def _build_bounds_document(bounds: FloatColumn) -> dict[str, dict[str, str]]:
    """Lower bound, target and upper bound, (bound, resource); nothing where there is none."""
    texts = {name: format_resources(bounds[bound][:, None])[0] for name, bound in _BOUND_FIELDS}
    return {name: amounts for name, amounts in texts.items() if amounts}


def _build_explanation_document(explanation: Mapping[str, float | str]) -> dict[str, float | str | None]:
    return {
        name: value if isinstance(value, str) else _replace_non_finite(value) for name, value in explanation.items()
    }


def _replace_non_finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _format_optional_time(seconds: float) -> str | None:
    return _format_time(seconds) if np.isfinite(seconds) else None


def _format_time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(float(seconds), UTC))


def _get_vpa_key(entry: VpaEntry) -> tuple[str, str]:
    return entry.vpa.namespace, entry.vpa.name


class TargetStep(msgspec.Struct, frozen=True):
    """A change of a resource's target by one stage, in millicores or bytes; NaN is none."""

    resource: str
    reason: Reason
    before: float
    after: float


class TargetTrace:
    """The targets after every stage, (resource, container number)."""

    def __init__(self) -> None:
        self._stages: list[tuple[Reason | None, FloatColumn]] = []

    def __call__(self, reason: Reason | None, amounts: FloatColumn) -> None:
        """Record the targets after a stage; without a reason, before the first."""
        self._stages.append((reason, amounts[TARGET].copy()))

    def steps(self, container: int) -> Iterator[TargetStep]:
        """The changes of one container's targets, by its number: resource after resource, in the order of stages."""
        for number, resource in enumerate(RESOURCES):
            before = np.nan
            for reason, targets in self._stages:
                after = float(targets[number, container])
                if reason is not None and after != before and not (np.isnan(after) and np.isnan(before)):
                    yield TargetStep(resource, reason, float(before), after)
                before = after
