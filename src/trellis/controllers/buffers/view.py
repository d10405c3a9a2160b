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
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.state import BufferState, BufferStates, ShapePod, ShapeTemplate, TargetState
from trellis.controllers.buffers.targets import TargetDescription, TargetReader
from trellis.controllers.buffers.template_dry_runs import TemplateDryRuns
from trellis.core.admission.governor_index import GovernorIndex
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
    """Finds governors. `workloads` are the kinds that are followed; of others the scale is asked, and remembered."""

    def __init__(self, governors: GovernorIndex, workloads: Mapping[str, ObjectLookup], scales: ScaleLookups) -> None:
        self._governors = governors
        self._workloads = workloads
        self._scales = scales

    async def find(self, target: TargetRef, labels: Labels, scale: ScaleInfo | None) -> Governor | None:
        """What sizes the pods of a target that have these labels; its own scale is needed if it is not followed."""
        if not self._governors.rules_in(target.namespace):
            return None
        answers = {target: scale} if scale is not None else {}
        owners = Owners(self._workloads, answers)
        while (unasked := owners.follow(target).unasked) is not None:
            answers[unasked] = await self._scales.find(unasked)
        found = self._governors.find(owners.follow(target).topmost or target, labels, owners)
        return found if isinstance(found, Governor) else None


class BufferViewBuilder:
    """Gathers facts about Buffers, one at a time each."""

    def __init__(
        self,
        client: Client,
        watching: BufferInformers,
        keeping: BufferStates,
        *,
        counting: TargetReader,
        templates: TemplateDryRuns,
        classes: NodeClasses,
        governing: GovernorLookup,
        figures: BufferSettings,
        boosts: BoostSettings,
    ) -> None:
        self._client = client
        self._watching = watching
        self._keeping = keeping
        self._counting = counting
        self._templates = templates
        self._classes = classes
        self._governing = governing
        self._figures = figures
        self._boosts = boosts

    async def facts(self, buffer: Buffer, known: BufferState) -> TranslationFacts:
        """All that is known of what a Buffer is about. Raises `KubeError` if something could not be asked."""
        meaning, namespace = known.meaning, buffer.metadata.namespace
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                target = await self._target(buffer, known, meaning.target)
                return TranslationFacts(target, filled=self._filled(namespace, meaning))
            case NodeClassTotals():
                labels = find_class_labels(meaning, self._figures)
                if not isinstance(labels, DetailedReason):
                    return TranslationFacts(nodes=self._classes.of(labels), filled=self._filled(namespace, meaning))
        return TranslationFacts(filled=self._filled(namespace, meaning))

    async def _target(
        self, buffer: Buffer, known: BufferState, reference: TargetReference
    ) -> TargetFacts | TargetProblem:
        target = TargetRef(buffer.metadata.namespace, reference.api_version, reference.kind, reference.name)
        return await self.target(
            key_of(buffer), target, known, lambda: read_last_shape(buffer, target_stays=known.target_stays)
        )

    async def target(
        self, key: ObjectKey, target: TargetRef, known: TargetState, last_known: Callable[[], PodTemplateSpec | None]
    ) -> TargetFacts | TargetProblem:
        """A target as it is now, for whoever has this key; `last_known` is the shape that it had until now."""
        counted = await self._counting.count(target, known)
        if isinstance(counted, TargetProblem):
            return counted
        self._keeping.selecting.put(key, counted.selector)
        pod = await self._newest(target.namespace, counted.selector, known)
        if pod is not None:
            return await self._sized(target, counted, pod, TargetFacts(counted.replicas, pod=pod))
        shown = await self._template(target, counted, known)
        if shown is not None:
            found = TargetFacts(counted.replicas, template=shown.template, refusal=shown.refusal)
            return await self._sized(target, counted, shown.template, found)
        last = last_known()
        if last is None:
            return TargetFacts(counted.replicas)
        return await self._sized(target, counted, last, TargetFacts(counted.replicas, last=last))

    async def _sized(
        self, target: TargetRef, counted: TargetDescription, shape: Pod | PodTemplateSpec, found: TargetFacts
    ) -> TargetFacts:
        """With what sizes and boosts new pods of the target."""
        governor = await self._governing.find(target, shape.metadata.labels, counted.scale)
        limits = self._watching.limits(target.namespace)
        boosts = compute_starting_boosts(shape.spec, governor, limits, self._boosts)
        return msgspec.structs.replace(found, governor=governor, limits=limits, boosts=boosts)

    async def _newest(self, namespace: str, selector: Selector, known: TargetState) -> Pod | None:
        """The newest live pod as a whole; asked for if it is not the one that is known, or no longer the same."""
        seen = find_newest_live(
            pod
            for pod in candidate_pods(self._watching.pods, namespace, selector)
            if selector.matches(pod.metadata.labels)
        )
        if seen is None:
            known.pod = None
            return None
        metadata = seen.metadata
        # Before Kubernetes 1.33 pods have no generation.
        version = metadata.generation or metadata.resource_version
        mark = (metadata.uid, version, metadata.labels, metadata.annotations)
        if known.pod is None or known.pod.mark != mark:
            try:
                pod = await self._client.get(PODS, metadata.name, namespace)
            except NotFound:
                # It has just gone; that it has is about to be told.
                return known.pod.pod if known.pod is not None else None
            known.pod = ShapePod(mark, remove_boost(pod))
        return known.pod.pod

    async def _template(
        self, target: TargetRef, counted: TargetDescription, known: TargetState
    ) -> ShapeTemplate | None:
        if counted.resource is not None:
            return await self._templates.of_workload(known, counted.resource, target, counted.read)
        return await self._templates.of_document(known, counted.template, target, counted.read)

    def _filled(self, namespace: str, meaning: EffectiveBuffer) -> ResourceAmounts:
        selector = meaning.filled_by
        if selector is None:
            return {}
        return sum_filling_amounts(
            self._watching.demands.find(pod)
            for pod in candidate_pods(self._watching.pods, namespace, selector)
            if is_live(pod) and selector.matches(pod.metadata.labels)
        )
