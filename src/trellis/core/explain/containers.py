"""How does the recommendation for a container come about? What the pass decided, and the stages it went through."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from trellis.api.resolve import EffectiveVpa, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.explain.curves import curves_of
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Container, Step, VpaPart
from trellis.core.model.keys import key_of
from trellis.core.recommend.amounts import CPU, RESOURCES
from trellis.core.recommend.capping import compile_caps
from trellis.core.recommend.quantity_column import cpu_texts, memory_texts
from trellis.core.recommend.roster import target_of_vpa
from trellis.core.recommend.why import vpa_document

CHECKPOINT: Final = "checkpoint"
SERIES: Final = "series"
NOW: Final = "now"


def vpa_part(evidence: Evidence, vpa: VerticalPodAutoscaler) -> tuple[VpaPart, tuple[Container, ...]]:
    """What is said of a VPA, and of each of its containers."""
    last = evidence.recommended.last
    number = last.find(*key_of(vpa))
    stored = tuple(_stored(vpa))
    target = target_of_vpa(vpa)
    about = f"{target.kind} {target.name}"
    if number < 0:
        return _unanswered(evidence, vpa, about, stored), ()
    document = vpa_document(last, number)
    state = last.entries[number].state
    part = VpaPart(
        name=vpa.metadata.name,
        target=about,
        mode=document["updateMode"],
        recommender=document["recommender"],
        pods=state.pods if state is not None else 0,
        conditions=tuple(document["conditions"]),
        stored_conditions=stored,
        problem=state.problem if state is not None else "",
        rivals=state.rivals if state is not None else (),
        parameters=document["parameters"],
        failure=document.get("failure", ""),
        shadows_not_running=tuple(document.get("shadowsNotRunning", ())),
    )
    return part, tuple(_containers(evidence, vpa, number, document["containers"]))


def _unanswered(
    evidence: Evidence, vpa: VerticalPodAutoscaler, target: str, stored: tuple[dict[str, Any], ...]
) -> VpaPart:
    """A VPA whose recommender nobody here can ask."""
    roster, name = evidence.recommended.roster, vpa.metadata.name
    effective = _effective(evidence, vpa)
    problem = roster.problems.get(name)
    return VpaPart(
        name=name,
        target=target,
        mode=str(effective.mode),
        recommender=effective.recommender,
        pods=roster.governance.matched.get(name, 0),
        is_answered=False,
        stored_conditions=stored,
        problem=problem.message if problem is not None else "",
        rivals=roster.governance.rivals.get(name, ()),
    )


def _containers(
    evidence: Evidence, vpa: VerticalPodAutoscaler, number: int, documents: list[dict[str, Any]]
) -> Iterator[Container]:
    recommended = evidence.recommended
    columns = recommended.last.result.columns
    pods = frozenset(
        pod for pod, governor in recommended.roster.governance.governor.items() if governor == vpa.metadata.name
    )
    collected = {(each.namespace, each.pod) for each in evidence.collected.history}
    for row, document in zip(recommended.last.rows(number), documents, strict=True):
        key = columns.keys[row]
        history = CHECKPOINT if key in recommended.checkpointed else NOW
        if history is NOW and any((key.namespace, pod) in collected for pod in pods):
            history = SERIES
        place = int(columns.places[row])
        yield Container(
            document["name"],
            document,
            tuple(_steps(evidence, place, vpa, key.container)) if place >= 0 else (),
            tuple(curves_of(evidence, row, pods)),
            history,
        )


def _steps(evidence: Evidence, place: int, vpa: VerticalPodAutoscaler, container: str) -> Iterator[Step]:
    """The stages that changed a target, with amounts as a status has them: a bound as its policy spells it."""
    spelled = compile_caps(_effective(evidence, vpa).container(container)).spelled
    for step in evidence.recommended.trace.steps(place):
        yield Step(
            step.resource, step.reason, *(_text(step.resource, each, spelled) for each in (step.before, step.after))
        )


def _text(resource: str, amount: float, spelled: Mapping[tuple[str, float], str]) -> str:
    if math.isnan(amount):
        return ""
    written = cpu_texts if resource == RESOURCES[CPU] else memory_texts
    return spelled.get((resource, amount)) or written(np.array([amount]))[0]


def _effective(evidence: Evidence, vpa: VerticalPodAutoscaler) -> EffectiveVpa:
    return evidence.recommended.roster.effective.get(vpa.metadata.name) or resolve_vpa(vpa)


def _stored(vpa: VerticalPodAutoscaler) -> Iterator[dict[str, Any]]:
    """The conditions that the object has, whoever wrote them."""
    for each in (vpa.status.conditions if vpa.status is not None else None) or ():
        yield {"type": each.type, "status": each.status, "reason": each.reason or "", "message": each.message or ""}
