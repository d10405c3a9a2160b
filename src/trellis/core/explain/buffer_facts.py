"""What is a Buffer translated from, as far as it was collected? Its target, its nodes, and the pods that fill it.

Two things nobody could collect: what the API server would make of a pod of a template, which is taken as written, and
what other packages know of kinds of their own.
"""

from __future__ import annotations

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.buffer_rules import WORKLOAD_KINDS
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.workloads import Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, NodeClassTotals, PercentOfReplicas
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import Selector, parse_selector, selector_from_object
from trellis.core.admission.governors import Governors
from trellis.core.admission.starting import starting_boosts, unboosted
from trellis.core.buffers import Facts, FoundTarget, Said, class_labels, filled_by, last_shape, newest_live
from trellis.core.buffers.target_kinds import not_scalable
from trellis.core.explain.arriving import governors_in, template_of
from trellis.core.explain.buffer_rooms import Rooms
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.labelled import ByLabels
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import TargetRef, missing
from trellis.core.model.selection import selector_of
from trellis.core.model.target_problems import (
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_SELECTS_NOTHING,
    TARGET_UNREACHABLE,
    TargetProblem,
    unread,
)
from trellis.core.recommend.capping import read_limit_ranges
from trellis.core.sizing.governors import Governor

_Counted = tuple[int | None, Selector]


class Gathering:
    """The facts about the Buffers of one namespace."""

    def __init__(self, evidence: Evidence, rooms: Rooms) -> None:
        self._evidence = evidence
        self._rooms = rooms
        collected, namespace = evidence.collected, evidence.namespace
        self._owners = collected.owners
        self._pods = ByLabels(collected.pods.by(BY_NAMESPACE, namespace))
        self._limits = read_limit_ranges(collected.limit_ranges.by(BY_NAMESPACE, namespace))
        self._governors = Governors()
        for kind, name, governor in governors_in(collected, namespace):
            self._governors.put(kind, namespace, name, governor)

    def facts(self, buffer: Buffer, meaning: EffectiveBuffer) -> Facts:
        """All that is known of what a Buffer is about."""
        filled = filled_by(self._pods.matching(meaning.filled_by)) if meaning.filled_by is not None else {}
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                return Facts(self._target(buffer, target_of(buffer, meaning)), filled=filled)
            case NodeClassTotals():
                labels = class_labels(meaning, self._evidence.components.buffers)
                if not isinstance(labels, Said):
                    return Facts(nodes=self._rooms.of_class(labels), filled=filled)
        return Facts(filled=filled)

    def _target(self, buffer: Buffer, target: TargetRef | None) -> FoundTarget | TargetProblem | None:
        if target is None:
            return None
        try:
            counted = self._counted(target)
        except InvalidSelector as error:
            return unread(TARGET_SELECTOR_UNREADABLE, f"the selector of {target}: {error}")
        if isinstance(counted, TargetProblem):
            return counted
        replicas, selector = counted
        if selector.selects_nothing or not selector.requirements:
            return unread(TARGET_SELECTS_NOTHING, f"{target} has no selector, or an empty one")
        pod = newest_live(self._pods.matching(selector))
        if pod is not None:
            whole = unboosted(pod)
            return self._found(target, whole.spec, whole.metadata, FoundTarget(replicas, pod=whole))
        template = template_of(self._owners.find(target))
        if template is not None:
            return self._found(target, template.spec, template.metadata, FoundTarget(replicas, template=template))
        last = last_shape(buffer)
        if last is None:
            return FoundTarget(replicas)
        return self._found(target, last.spec, last.metadata, FoundTarget(replicas, last=last))

    def _found(self, target: TargetRef, spec: PodSpec, metadata: ObjectMeta, found: FoundTarget) -> FoundTarget:
        """With what sizes and boosts new pods of the target."""
        topmost = self._owners.follow(target).topmost or target
        governor = self._governors.find(topmost, metadata.labels, self._owners)
        if not isinstance(governor, Governor):
            return found
        boosts = starting_boosts(spec, governor, self._limits, self._evidence.components.boosts)
        return msgspec.structs.replace(found, governor=governor, limits=self._limits, boosts=boosts)

    def _counted(self, target: TargetRef) -> _Counted | TargetProblem:
        """How many pods a target has and which they are; the topmost controller or not."""
        if not target.is_well_known:
            return self._scaled(target)
        workload = self._owners.find(target)
        if target.kind not in WORKLOAD_KINDS:
            return not_scalable(target.kind)
        match workload:
            case Job():
                count = workload.spec.parallelism
                return (1 if count is None else count), selector_of(workload.spec.selector)
            case ReplicationController():
                return workload.status.replicas, selector_from_object(workload.spec.selector)
            case Deployment() | ReplicaSet() | StatefulSet():
                return workload.status.replicas, selector_of(workload.spec.selector)
            case _:
                return unread(TARGET_NOT_FOUND, missing(target))

    def _scaled(self, target: TargetRef) -> _Counted | TargetProblem:
        answer = self._owners.scale(target)
        if answer is None:
            return unread(TARGET_UNREACHABLE, f"the scale sub-resource of {target} has not been read")
        if answer.problem is not None:
            return not_scalable(target.kind) if answer.problem.reason is TARGET_NOT_SCALABLE else answer.problem
        selector = parse_selector(answer.selector) if answer.selector else Selector.nothing()
        return self._evidence.collected.replicas.get(target), selector


def target_of(buffer: Buffer, meaning: EffectiveBuffer) -> TargetRef | None:
    """What a Buffer is about, if it is a workload."""
    reference = meaning.target
    if reference is None or isinstance(meaning.capacity, NodeClassTotals):
        return None
    return TargetRef(buffer.metadata.namespace, reference.api_version or "", reference.kind or "", reference.name or "")
