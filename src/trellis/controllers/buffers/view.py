"""Builds the view that a Buffer is translated from: its target, the shape of a pod, governor, limits and nodes.

The governor is the VPA or Hvpa of the target's topmost controller. A custom resource may own a Deployment; whether it
can be a target itself is read from its scale. Where no object sizes pods in a namespace, nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.parts import TargetReference
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.kube.slices import Labels
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, NodeClassTotals, PercentOfReplicas
from trellis.base.errors import NotFound
from trellis.base.selectors import Selector
from trellis.controllers.buffers.admitted_templates import AdmittedTemplates
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.state import BufferState, BufferStates, ShapePod, ShapeTemplate, TargetState
from trellis.controllers.buffers.targets import TargetDescription, TargetReader
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.admission.starting_cpu import compute_starting_boosts, remove_boost
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.buffers import (
    BufferSettings,
    DetailedReason,
    TargetFacts,
    TranslationFacts,
    find_class_labels,
    find_newest_live,
    is_live,
    read_last_shape,
    sum_filling_amounts,
)
from trellis.core.cluster.owners import ObjectLookup, Owners, ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.sizing.governors import Governor
from trellis.kube.client import Client
from trellis.kube.resources import PODS
from trellis.kube.scales import ScaleLookups
from trellis.runtime.label_index import candidate_pods


class GovernorLookup:
    """Finds governors. `workloads` are the kinds with an informer; of others the scale is read, and cached."""

    def __init__(self, governors: GovernorIndex, workloads: Mapping[str, ObjectLookup], scales: ScaleLookups) -> None:
        self._governors = governors
        self._workloads = workloads
        self._scales = scales

    async def find(self, target: TargetRef, labels: Labels, scale: ScaleInfo | None) -> Governor | None:
        """The governor of the pods of a target with these labels. `scale` is that of a target without an informer."""
        if not self._governors.governs_namespace(target.namespace):
            return None
        scales = {target: scale} if scale is not None else {}
        owners = Owners(self._workloads, scales)
        while (unread := owners.follow(target).unread_scale) is not None:
            scales[unread] = await self._scales.find(unread)
        governor = self._governors.find(owners.follow(target).topmost or target, labels, owners)
        return governor if isinstance(governor, Governor) else None


class BufferViewBuilder:
    """Builds the facts that Buffers are translated from. Facts of one Buffer are built one after the other."""

    def __init__(
        self,
        client: Client,
        informers: BufferInformers,
        states: BufferStates,
        *,
        target_reader: TargetReader,
        templates: AdmittedTemplates,
        classes: NodeClasses,
        governor_lookup: GovernorLookup,
        figures: BufferSettings,
        boosts: BoostSettings,
    ) -> None:
        self._client = client
        self._informers = informers
        self._states = states
        self._targets = target_reader
        self._templates = templates
        self._classes = classes
        self._governors = governor_lookup
        self._figures = figures
        self._boosts = boosts

    async def facts(self, buffer: Buffer, state: BufferState) -> TranslationFacts:
        """The facts about one Buffer. Raises `KubeError` if a request failed."""
        meaning, namespace = state.meaning, buffer.metadata.namespace
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                target = await self._target(buffer, state, meaning.target)
                return TranslationFacts(target, filled=self._sum_filled(namespace, meaning))
            case NodeClassTotals():
                labels = find_class_labels(meaning, self._figures)
                if not isinstance(labels, DetailedReason):
                    return TranslationFacts(
                        nodes=self._classes.find_facts(labels), filled=self._sum_filled(namespace, meaning)
                    )
        return TranslationFacts(filled=self._sum_filled(namespace, meaning))

    async def _target(
        self, buffer: Buffer, state: BufferState, reference: TargetReference
    ) -> TargetFacts | TargetProblem:
        target = TargetRef(buffer.metadata.namespace, reference.api_version, reference.kind, reference.name)
        return await self.target(
            key_of(buffer), target, state, lambda: read_last_shape(buffer, target_stays=state.target_stays)
        )

    async def target(
        self,
        key: ObjectKey,
        target: TargetRef,
        state: TargetState,
        find_last_shape: Callable[[], PodTemplateSpec | None],
    ) -> TargetFacts | TargetProblem:
        """The facts about the target of the Buffer with this key; `find_last_shape` returns its previous shape."""
        description = await self._targets.count(target, state)
        if isinstance(description, TargetProblem):
            return description
        self._states.selecting.put(key, description.selector)
        pod = await self._find_newest(target.namespace, description.selector, state)
        if pod is not None:
            return await self._add_sizing(target, description, pod, TargetFacts(description.replicas, pod=pod))
        shown = await self._template(target, description, state)
        if shown is not None:
            facts = TargetFacts(description.replicas, template=shown.template, refusal=shown.refusal)
            return await self._add_sizing(target, description, shown.template, facts)
        last = find_last_shape()
        if last is None:
            return TargetFacts(description.replicas)
        return await self._add_sizing(target, description, last, TargetFacts(description.replicas, last=last))

    async def _add_sizing(
        self, target: TargetRef, description: TargetDescription, shape: Pod | PodTemplateSpec, facts: TargetFacts
    ) -> TargetFacts:
        """Add the governor, the limits and the boosts of new pods of the target."""
        governor = await self._governors.find(target, shape.metadata.labels, description.scale)
        limits = self._informers.limits(target.namespace)
        boosts = compute_starting_boosts(shape.spec, governor, limits, self._boosts)
        return msgspec.structs.replace(facts, governor=governor, limits=limits, boosts=boosts)

    async def _find_newest(self, namespace: str, selector: Selector, state: TargetState) -> Pod | None:
        """The newest live pod with all of its fields; read if it is not the one in the state, or has changed."""
        newest = find_newest_live(
            pod
            for pod in candidate_pods(self._informers.pods, namespace, selector)
            if selector.matches(pod.metadata.labels)
        )
        if newest is None:
            state.pod = None
            return None
        metadata = newest.metadata
        # Before Kubernetes 1.33 pods have no generation.
        version = metadata.generation or metadata.resource_version
        identity = (metadata.uid, version, metadata.labels, metadata.annotations)
        if state.pod is None or state.pod.version != identity:
            try:
                pod = await self._client.get(PODS, metadata.name, namespace)
            except NotFound:
                # The watch is about to report that it was deleted.
                return state.pod.pod if state.pod is not None else None
            state.pod = ShapePod(identity, remove_boost(pod))
        return state.pod.pod

    async def _template(
        self, target: TargetRef, description: TargetDescription, state: TargetState
    ) -> ShapeTemplate | None:
        if description.resource is not None:
            return await self._templates.read_workload_template(state, description.resource, target, description.source)
        return await self._templates.admit_template(state, description.template, target, description.source)

    def _sum_filled(self, namespace: str, meaning: EffectiveBuffer) -> ResourceAmounts:
        selector = meaning.filled_by
        if selector is None:
            return {}
        return sum_filling_amounts(
            self._informers.demands.find(pod)
            for pod in candidate_pods(self._informers.pods, namespace, selector)
            if is_live(pod) and selector.matches(pod.metadata.labels)
        )
