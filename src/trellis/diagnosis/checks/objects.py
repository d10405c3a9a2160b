"""Checks VPAs, Hvpas and Buffers by their conditions, and whether the components that serve them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.installation import ComponentState, find_state
from trellis.diagnosis.unread import Unread
from trellis.runtime.manager.settings import ADMISSION, BUFFERS, HVPA, RECOMMENDER, UPDATER

COMPONENT_MISSING = Reason(
    "ComponentMissing", "Objects exist whose component does not run, so that they have no effect.", Severity.WARNING
)
VPAS_WITHOUT_RECOMMENDATION = Reason("VpasWithoutRecommendation", "VPAs have no recommendation.", Severity.WARNING)
VPAS_UNSUPPORTED = Reason("VpasUnsupported", "The configuration of VPAs cannot be used.", Severity.WARNING)
VPAS_CONFLICT = Reason("VpasConflict", "Other objects govern the same pods as these VPAs.", Severity.WARNING)
VPAS_FAILED = Reason("VpasFailed", "A recommender failed, so that VPAs keep their last recommendation.", Severity.ERROR)
HVPAS_INACTIVE = Reason("HvpasInactive", "Hvpas do not change their targets.", Severity.WARNING)
BUFFERS_NOT_TRANSLATED = Reason("BuffersNotTranslated", "Buffers are not ready for provisioning.", Severity.WARNING)
BUFFERS_NOT_PROVISIONED = Reason(
    "BuffersNotProvisioned", "The spare capacity of Buffers is not fully provisioned.", Severity.WARNING
)

VPA: Final = "VerticalPodAutoscaler"
HVPA_KIND: Final = "Hvpa"
BUFFER: Final = "Buffer"
KINDS: Final = (VPA, HVPA_KIND, BUFFER)
PLURALS: Final = {VPA: "VPAs", HVPA_KIND: "Hvpas", BUFFER: "Buffers"}
_COMMAND_KINDS: Final = {VPA: "vpa", HVPA_KIND: "hvpa", BUFFER: "buffer"}
_OFF: Final = "Off"


class ConditionFact(msgspec.Struct, frozen=True, gc=False):
    """A condition of an object."""

    status: str
    reason: str = ""
    message: str = ""


class ObjectFact(msgspec.Struct, frozen=True, gc=False):
    """An autoscaling object with its conditions by type; `mode` is the update mode of a VPA."""

    namespace: str
    name: str
    conditions: Mapping[str, ConditionFact] = {}
    mode: str = ""
    is_frozen: bool = False
    age: float = 0.0


# Objects by kind; None where the cluster has no such kind.
ObjectsByKind = Mapping[str, tuple[ObjectFact, ...] | Unread | None]


class BadCondition(msgspec.Struct, frozen=True):
    """A condition that needs attention: its type, the status that is bad, and how to say it of several objects."""

    kind: str
    type: str
    status: str
    reason: Reason
    words: str
    action: str = ""


_BAD: Final = (
    BadCondition(VPA, "RecommenderFailed", "True", VPAS_FAILED, "have a recommender that failed"),
    BadCondition(VPA, "ConfigUnsupported", "True", VPAS_UNSUPPORTED, "have a configuration that cannot be used"),
    BadCondition(VPA, "ConflictingVPA", "True", VPAS_CONFLICT, "share pods with another object"),
    BadCondition(VPA, "RecommendationProvided", "False", VPAS_WITHOUT_RECOMMENDATION, "have no recommendation"),
    BadCondition(HVPA_KIND, "Active", "False", HVPAS_INACTIVE, "do not change their targets"),
    BadCondition(BUFFER, "ReadyForProvisioning", "False", BUFFERS_NOT_TRANSLATED, "are not ready for provisioning"),
    BadCondition(BUFFER, "Provisioned", "False", BUFFERS_NOT_PROVISIONED, "are not fully provisioned"),
)
# A VPA without pods gets no recommendation, and a new one has to wait for usage: neither needs attention.
_NO_PODS: Final = "NoPodsMatched"
_YOUNG_SECONDS: Final = 600.0


def check_objects(
    objects: ObjectsByKind, states: Sequence[ComponentState], *, is_known: bool, unlisted: Sequence[Unread] = ()
) -> ClusterCheck:
    """All objects. `is_known` is whether a component that was not found does not run.

    `unlisted` are kinds of which only the objects of one namespace are known.
    """
    findings: list[ClusterFinding] = []
    unknown = [listed.to_unknown(is_essential=True) for listed in objects.values() if isinstance(listed, Unread)]
    unknown += [unread.to_unknown() for unread in unlisted]
    for kind in KINDS:
        listed = objects.get(kind)
        if isinstance(listed, Unread) or not listed:
            continue
        if is_known and any(state.is_running for state in states):
            findings += _check_components(kind, listed, states)
        findings += _check_conditions(kind, listed)
    counts = (
        pluralize(len(listed), _singular(kind))
        for kind in KINDS
        if (listed := objects.get(kind)) is not None and not isinstance(listed, Unread)
    )
    return ClusterCheck("objects", ", ".join(counts) or "no kind of Trellis is served", tuple(findings), tuple(unknown))


def count_conditions(kind: str, listed: Iterable[ObjectFact]) -> dict[str, int]:
    """How many objects are in which state, each counted once: the first word that fits."""
    counts = Counter(_describe_state(kind, item) for item in listed)
    return {word: counts[word] for word in _STATE_WORDS[kind] if counts[word]}


_STATE_WORDS: Final = {
    VPA: ("recommended", "waiting", "no pods", "unsupported", "conflicting", "failed"),
    HVPA_KIND: ("active", "inactive", "waiting"),
    BUFFER: ("provisioned", "not provisioned", "ready", "not ready", "waiting"),
}


def _describe_state(kind: str, item: ObjectFact) -> str:
    status = {name: condition.status for name, condition in item.conditions.items()}
    if kind == VPA:
        bad = {"RecommenderFailed": "failed", "ConfigUnsupported": "unsupported", "ConflictingVPA": "conflicting"}
        for name, word in (*bad.items(), (_NO_PODS, "no pods")):
            if status.get(name) == "True":
                return word
        return "recommended" if status.get("RecommendationProvided") == "True" else "waiting"
    if kind == HVPA_KIND:
        return {"True": "active", "False": "inactive"}.get(status.get("Active", ""), "waiting")
    if status.get("Provisioned") in ("True", "False"):
        return "provisioned" if status["Provisioned"] == "True" else "not provisioned"
    return {"True": "ready", "False": "not ready"}.get(status.get("ReadyForProvisioning", ""), "waiting")


def _check_conditions(kind: str, listed: Iterable[ObjectFact]) -> Iterator[ClusterFinding]:
    remaining = list(listed)
    for bad in _BAD:
        if bad.kind != kind:
            continue
        affected = [item for item in remaining if _is_bad(item, bad)]
        if affected:
            yield _describe_bad(bad, affected)
            # One finding for an object: the worse one, which is listed first.
            taken = {(item.namespace, item.name) for item in affected}
            remaining = [item for item in remaining if (item.namespace, item.name) not in taken]


def _is_bad(item: ObjectFact, bad: BadCondition) -> bool:
    condition = item.conditions.get(bad.type)
    if condition is None or condition.status != bad.status:
        return False
    if bad.reason is not VPAS_WITHOUT_RECOMMENDATION:
        return True
    waits = _NO_PODS in item.conditions and item.conditions[_NO_PODS].status == "True"
    return not waits and item.age > _YOUNG_SECONDS


def _describe_bad(bad: BadCondition, affected: Sequence[ObjectFact]) -> ClusterFinding:
    first = affected[0]
    condition = first.conditions[bad.type]
    detail = condition.message or condition.reason
    words = bad.words if len(affected) > 1 else _make_singular(bad.words)
    count = f"{len(affected)} {PLURALS[bad.kind]}" if len(affected) > 1 else f"{_COMMAND_KINDS[bad.kind]}/{first.name}"
    example = f", such as {first.namespace}/{first.name}" if len(affected) > 1 else ""
    return ClusterFinding(
        bad.reason,
        f"{bad.kind} {first.namespace}/{first.name}",
        f"{count} {words}{example}{f': {detail}' if detail else ''}",
        f"trellis explain {_COMMAND_KINDS[bad.kind]}/{first.name} -n {first.namespace}",
    )


def _make_singular(words: str) -> str:
    verb, _, rest = words.partition(" ")
    forms = {"have": "has", "share": "shares", "do": "does", "are": "is"}
    return f"{forms[verb]} {rest.replace('their targets', 'its target')}"


def _check_components(
    kind: str, listed: Sequence[ObjectFact], states: Sequence[ComponentState]
) -> Iterator[ClusterFinding]:
    """What does not run although objects need it."""
    acting = [item for item in listed if item.mode != _OFF]
    needed = {
        VPA: ((RECOMMENDER, listed, "without a recommendation"), (ADMISSION, acting, "without effect on new pods")),
        HVPA_KIND: ((HVPA, listed, "without effect"),),
        BUFFER: ((BUFFERS, listed, "without a translation"),),
    }[kind]
    resizing = [item for item in acting if item.mode != "Initial"] if kind == VPA else []
    # An installation that is to change nothing needs no admission controller.
    spared = (ADMISSION,) if find_state(states, UPDATER).is_idle else ()
    for component, users, effect in (*needed, (UPDATER, resizing, "without a change of running pods")):
        if users and component not in spared and not find_state(states, component).is_running:
            yield ClusterFinding(
                COMPONENT_MISSING,
                component,
                f"does not run: {pluralize(len(users), _singular(kind))} {effect}",
                f"install it, as with trellis install --preset full; its command is trellis {_get_command(component)}",
            )


def _singular(kind: str) -> str:
    return PLURALS[kind].removesuffix("s")


def _get_command(component: str) -> str:
    return "admission-controller" if component == ADMISSION else component
