"""Translates the Buffers of a namespace as the Buffer controller would, within quotas, from the collected state.

The facts are a Buffer's target, its nodes, and the pods that fill it. Two facts are never collected: what the API
server would make of a pod of a template, which is taken as written, and what other packages know of kinds of their
own.
"""

from __future__ import annotations

import math

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.workloads import Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, NodeClassTotals, PercentOfReplicas, resolve_buffer
from trellis.api.rules.buffer import WORKLOAD_KINDS
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import Selector, selector_from_object
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.admission.starting_cpu import compute_starting_boosts, remove_boost
from trellis.core.buffers import (
    DetailedReason,
    TargetFacts,
    Translation,
    TranslationFacts,
    apply_quotas,
    find_class_labels,
    find_newest_live,
    find_skip_reason,
    read_last_shape,
    sum_filling_pods,
    translate,
)
from trellis.core.buffers.target_kinds import (
    build_not_scalable,
    check_target_selector,
    count_target_pods,
    read_scale_selector,
)
from trellis.core.buffers.template_defaults import with_namespace_defaults
from trellis.core.cluster.owners import TargetRef, describe_missing
from trellis.core.cluster.store import BY_NAMESPACE, key_of
from trellis.core.cluster.target_problems import (
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_UNREACHABLE,
    TargetProblem,
    build_target_problem,
)
from trellis.core.cluster.target_selectors import convert_selector
from trellis.core.explain.buffer_headroom import BufferHeadroom
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.component_decisions.label_index import ObjectLabelIndex
from trellis.core.explain.component_decisions.new_pods import find_pod_template, list_governors
from trellis.core.recommend.capping import read_limit_ranges
from trellis.core.sizing.governors import Governor

_PodCount = tuple[int | None, Selector]


class BufferFactsBuilder:
    """The facts about the Buffers of one namespace."""

    def __init__(self, evidence: Evidence, headroom: BufferHeadroom) -> None:
        self._evidence = evidence
        self._headroom = headroom
        collected, namespace = evidence.collected, evidence.namespace
        self._owners = collected.owners
        self._pods = ObjectLabelIndex(collected.pods.by_index(BY_NAMESPACE, namespace))
        self._ranges = collected.limit_ranges.by_index(BY_NAMESPACE, namespace)
        self._limits = read_limit_ranges(self._ranges)
        self._governors = GovernorIndex()
        for kind, name, governor in list_governors(collected, namespace):
            self._governors.put(kind, namespace, name, governor)

    def build_facts(self, buffer: Buffer, meaning: EffectiveBuffer) -> TranslationFacts:
        """The facts about the target, the nodes and the filling pods of a Buffer."""
        filled = sum_filling_pods(self._pods.select(meaning.filled_by)) if meaning.filled_by is not None else {}
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                return TranslationFacts(
                    self._observe_target(buffer, find_buffer_target(buffer, meaning)), filled=filled
                )
            case NodeClassTotals():
                labels = find_class_labels(meaning, self._evidence.components.buffers)
                if not isinstance(labels, DetailedReason):
                    return TranslationFacts(nodes=self._headroom.observe_class(labels), filled=filled)
        return TranslationFacts(filled=filled)

    def _observe_target(self, buffer: Buffer, target: TargetRef | None) -> TargetFacts | TargetProblem | None:
        if target is None:
            return None
        try:
            counted = self._count_pods(target)
        except InvalidSelector as error:
            return build_target_problem(TARGET_SELECTOR_UNREADABLE, f"the selector of {target}: {error}")
        if isinstance(counted, TargetProblem):
            return counted
        replicas, selector = counted
        problem = check_target_selector(target, selector)
        if problem is not None:
            return problem
        pod = find_newest_live(self._pods.select(selector))
        if pod is not None:
            unboosted = remove_boost(pod)
            return self._add_sizing(target, unboosted.spec, unboosted.metadata, TargetFacts(replicas, pod=unboosted))
        written = find_pod_template(self._owners.find(target))
        if written is not None:
            template = msgspec.structs.replace(written, spec=with_namespace_defaults(written.spec, self._ranges))
            return self._add_sizing(target, template.spec, template.metadata, TargetFacts(replicas, template=template))
        last = read_last_shape(buffer)
        if last is None:
            return TargetFacts(replicas)
        return self._add_sizing(target, last.spec, last.metadata, TargetFacts(replicas, last=last))

    def _add_sizing(self, target: TargetRef, spec: PodSpec, metadata: ObjectMeta, facts: TargetFacts) -> TargetFacts:
        """Add the governor and the boosts of new pods of the target."""
        topmost = self._owners.follow(target).topmost or target
        governor = self._governors.find(topmost, metadata.labels, self._owners)
        if not isinstance(governor, Governor):
            return facts
        boosts = compute_starting_boosts(spec, governor, self._limits, self._evidence.components.boosts)
        return msgspec.structs.replace(facts, governor=governor, limits=self._limits, boosts=boosts)

    def _count_pods(self, target: TargetRef) -> _PodCount | TargetProblem:
        """The replicas of a target and the selector of its pods, whether or not it is the topmost controller."""
        if not target.is_well_known:
            return self._read_scale(target)
        workload = self._owners.find(target)
        if target.kind not in WORKLOAD_KINDS:
            return build_not_scalable(target.kind)
        match workload:
            case Job():
                count = count_target_pods(target.kind, None, workload.spec.parallelism)
                return count, convert_selector(workload.spec.selector)
            case ReplicationController():
                return workload.status.replicas, selector_from_object(workload.spec.selector)
            case Deployment() | ReplicaSet() | StatefulSet():
                return workload.status.replicas, convert_selector(workload.spec.selector)
            case _:
                return build_target_problem(TARGET_NOT_FOUND, describe_missing(target))

    def _read_scale(self, target: TargetRef) -> _PodCount | TargetProblem:
        scale = self._owners.scale(target)
        if scale is None:
            return build_target_problem(TARGET_UNREACHABLE, f"the scale subresource of {target} has not been read")
        if scale.problem is not None:
            return build_not_scalable(target.kind) if scale.problem.reason is TARGET_NOT_SCALABLE else scale.problem
        return self._evidence.collected.replicas.get(target), read_scale_selector(scale.selector)


def find_buffer_target(buffer: Buffer, meaning: EffectiveBuffer) -> TargetRef | None:
    """The target of a Buffer, if it is a workload."""
    reference = meaning.target
    if reference is None or isinstance(meaning.capacity, NodeClassTotals):
        return None
    return TargetRef(buffer.metadata.namespace, reference.api_version or "", reference.kind or "", reference.name or "")


class BufferEvidence(msgspec.Struct, frozen=True):
    """One Buffer and what is made of it; without a translation it is not ours, and `skip_reason` says why."""

    buffer: Buffer
    meaning: EffectiveBuffer
    skip_reason: DetailedReason | None = None
    facts: TranslationFacts = TranslationFacts()
    translation: Translation | None = None


def translate_buffers(evidence: Evidence, headroom: BufferHeadroom) -> dict[str, BufferEvidence]:
    """Translations of all Buffers of a namespace, which share its quotas, by name."""
    collected, namespace = evidence.collected, evidence.namespace
    builder, settings = BufferFactsBuilder(evidence, headroom), evidence.components.buffers
    translated: dict[str, BufferEvidence] = {}
    translations: dict[tuple[str, ...], tuple[float, Translation]] = {}
    for buffer in collected.buffers.by_index(BY_NAMESPACE, namespace):
        meaning = resolve_buffer(buffer)
        name, skip_reason = buffer.metadata.name, find_skip_reason(meaning, settings)
        if skip_reason is not None:
            translated[name] = BufferEvidence(buffer, meaning, skip_reason)
            continue
        facts = builder.build_facts(buffer, meaning)
        translation = translate(meaning, facts, evidence.now, settings)
        translated[name] = BufferEvidence(buffer, meaning, None, facts, translation)
        translations[key_of(buffer)] = (read_creation_time(buffer), translation)
    shared = apply_quotas(translations, collected.quotas.by_index(BY_NAMESPACE, namespace))
    for key, translation in shared.items():
        name = key[-1]
        translated[name] = msgspec.structs.replace(translated[name], translation=translation)
    return translated


def read_creation_time(buffer: Buffer) -> float:
    """When a Buffer was created, in seconds since 1970; NaN if that is unknown."""
    moment = buffer.metadata.creation_timestamp
    return moment.timestamp() if moment is not None else math.nan
