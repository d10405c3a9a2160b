"""Lines of a recording with both plans of a pass: actions, and decisions that differ from the last ones.

Reasons are written as codes: another wording is no other decision. In most passes most nodes, pods and Buffers get the
decision that they had: only changed ones are written, and None for those without a decision any more. Memory is not
written; where it differs, so does what is decided from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from trellis.api.kube.nodes import Taint
from trellis.base.reasons import DetailedReason, Reason
from trellis.core.nodes.autoscaler_pass import PassPlans
from trellis.core.nodes.scale_down.decisions import DrainPod, NodeDecision
from trellis.core.nodes.scale_up.decisions import (
    BufferDecision,
    GroupsRefusal,
    NodeOrder,
    PendingPodsDecision,
    ReleaseFailedInstance,
)
from trellis.core.recording.format import encoded_fields

_SEPARATE_FIELDS: Final = frozenset({"memory", "notes", "nodes", "pods", "buffers", "requests", "resizes"})

# Kinds are written under the names they had in the first recordings.
_RECORDED_KINDS: Final[Mapping[type, str]] = {
    NodeOrder: "Order",
    ReleaseFailedInstance: "GiveBack",
    GroupsRefusal: "GroupsRefused",
    DrainPod: "EvictPod",
    PendingPodsDecision: "PodsVerdict",
    BufferDecision: "BufferVerdict",
    NodeDecision: "NodeVerdict",
}

EntriesByName = Mapping[str, Any]


class PlansLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Both plans. `pods` has the code of each decision, `alike` the rest of it, by the first of equivalent pods.

    `resizes` has the decisions about pods whose resizes do not fit on their nodes.
    """

    up: EntriesByName
    down: EntriesByName
    nodes: EntriesByName = {}
    pods: EntriesByName = {}
    alike: EntriesByName = {}
    buffers: EntriesByName = {}
    notes: EntriesByName = {}
    problems: EntriesByName = {}
    requests: EntriesByName = {}
    resizes: EntriesByName = {}


class PlansRecorder:
    """Builds the lines of plans: the decisions that changed since the last line."""

    def __init__(self) -> None:
        self._written: dict[str, EntriesByName] = {}

    def build_line(self, plans: PassPlans, now: float) -> PlansLine:
        """The line of both plans of a pass."""
        up, down = plans.up, plans.down
        codes = {"/".join(key): decision.reason.reason.code for decision in up.pods for key in decision.pods}
        problems = {f"{kind} {'/'.join(key)}": problem for (kind, key), problem in plans.problems.items()}
        return PlansLine(
            up=_plan_actions(up),
            down=_plan_actions(down),
            nodes=self._changed_entries("nodes", {decision.node: decision for decision in down.nodes}),
            pods=self._changed_entries("pods", codes),
            alike=self._changed_entries(
                "alike", {"/".join(decision.pods[0]): _with_pod_count(decision) for decision in up.pods}
            ),
            buffers=self._changed_entries(
                "buffers", {"/".join(decision.key): without_current_time(decision, now) for decision in up.buffers}
            ),
            notes=self._changed_entries("notes", up.notes),
            problems=self._changed_entries("problems", problems),
            requests=self._changed_entries("requests", {"/".join(decision.key): decision for decision in up.requests}),
            resizes=self._changed_entries(
                "resizes",
                {"/".join(key): _with_pod_count(decision) for decision in up.resizes for key in decision.pods},
            ),
        )

    def _changed_entries(self, kind: str, entries: EntriesByName) -> EntriesByName:
        before, self._written[kind] = self._written.get(kind, {}), entries
        return changed_entries(before, entries)


def changed_entries(before: EntriesByName, entries: EntriesByName) -> EntriesByName:
    """The entries that changed, with reasons by their codes; None for those that are gone."""
    new = {about: _encode_by_code(entry) for about, entry in entries.items() if before.get(about) != entry}
    return new | {about: None for about in before if about not in entries}


def _plan_actions(plan: msgspec.Struct) -> EntriesByName:
    """The fields of a plan that are not recorded separately."""
    return {name: _encode_by_code(value) for name, value in encoded_fields(plan) if name not in _SEPARATE_FIELDS}


def _with_pod_count(decision: PendingPodsDecision) -> EntriesByName:
    """A decision with the number of its pods; the pods themselves have entries of their own."""
    return {**_encode_by_code(replace(decision, pods=())), "pods": len(decision.pods)}


def without_current_time(decision: BufferDecision, now: float) -> BufferDecision:
    """The decision without `provisioned_at` if that is now: it would be a change in every pass."""
    return replace(decision, provisioned_at=None) if decision.provisioned_at == now else decision


def _encode_by_code(value: Any) -> Any:
    match value:
        case DetailedReason(reason=reason, details=details):
            return [reason.code, details]
        case Reason():
            return value.code
        case Taint():
            # Recorded under the names of its attributes; the API's differ.
            return {"kind": "Taint", **msgspec.structs.asdict(value)}
        case msgspec.Struct():
            # Its kind, because actions of several kinds stand in one list.
            fields = {name: _encode_by_code(field) for name, field in encoded_fields(value)}
            kind = type(value)
            return {"kind": _RECORDED_KINDS.get(kind, kind.__name__), **fields}
        case tuple() | list():
            return [_encode_by_code(item) for item in value]
        case Mapping():
            return {name: _encode_by_code(item) for name, item in value.items()}
        case _:
            return value
