"""What is a Buffer translated from at this moment? All that the watch and the API server say, as facts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.parts import TargetReference
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, NodeClassTotals, PercentOfReplicas
from trellis.base.errors import NotFound
from trellis.base.selectors import Selector
from trellis.controllers.buffers.classes import Classes
from trellis.controllers.buffers.counting import Counted, Counting
from trellis.controllers.buffers.governing import Governing
from trellis.controllers.buffers.keeping import Keeping, Known, Shown, ShownPod, ShownTemplate
from trellis.controllers.buffers.slimming import SeenPod
from trellis.controllers.buffers.templates import Templates
from trellis.controllers.buffers.watching import Watching
from trellis.core.admission.starting import starting_boosts, unboosted
from trellis.core.boost.raising import BoostSettings
from trellis.core.buffers import (
    BufferSettings,
    Facts,
    FoundTarget,
    Said,
    class_labels,
    filled_with,
    is_live,
    last_shape,
    newest_live,
)
from trellis.core.model.keys import Key, key_of
from trellis.core.model.owners import TargetRef
from trellis.core.model.target_problems import TargetProblem
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.kube.client import Client
from trellis.kube.resources import PODS
from trellis.runtime.labelled import candidates


class Gathering:
    """Gathers facts about Buffers, one at a time each."""

    def __init__(
        self,
        client: Client,
        watching: Watching,
        keeping: Keeping,
        *,
        counting: Counting,
        templates: Templates,
        classes: Classes,
        governing: Governing,
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

    async def facts(self, buffer: Buffer, known: Known) -> Facts:
        """All that is known of what a Buffer is about. Raises `KubeError` if something could not be asked."""
        meaning, namespace = known.meaning, buffer.metadata.namespace
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                target = await self._target(buffer, known, meaning.target)
                return Facts(target, filled=self._filled(namespace, meaning))
            case NodeClassTotals():
                labels = class_labels(meaning, self._figures)
                if not isinstance(labels, Said):
                    return Facts(nodes=self._classes.of(labels), filled=self._filled(namespace, meaning))
        return Facts(filled=self._filled(namespace, meaning))

    async def _target(self, buffer: Buffer, known: Known, reference: TargetReference) -> FoundTarget | TargetProblem:
        target = TargetRef(buffer.metadata.namespace, reference.api_version, reference.kind, reference.name)
        return await self.target(
            key_of(buffer), target, known, lambda: last_shape(buffer, target_stays=known.target_stays)
        )

    async def target(
        self, key: Key, target: TargetRef, known: Shown, last_known: Callable[[], PodTemplateSpec | None]
    ) -> FoundTarget | TargetProblem:
        """A target as it is now, for whoever has this key; `last_known` is the shape that it had until now."""
        counted = await self._counting.count(target, known)
        if isinstance(counted, TargetProblem):
            return counted
        self._keeping.selecting.put(key, counted.selector)
        pod = await self._newest(target.namespace, counted.selector, known)
        if pod is not None:
            return await self._sized(target, counted, pod, FoundTarget(counted.replicas, pod=pod))
        shown = await self._template(target, counted, known)
        if shown is not None:
            found = FoundTarget(counted.replicas, template=shown.template, refusal=shown.refusal)
            return await self._sized(target, counted, shown.template, found)
        last = last_known()
        if last is None:
            return FoundTarget(counted.replicas)
        return await self._sized(target, counted, last, FoundTarget(counted.replicas, last=last))

    async def _sized(
        self, target: TargetRef, counted: Counted, shape: Pod | PodTemplateSpec, found: FoundTarget
    ) -> FoundTarget:
        """With what sizes and boosts new pods of the target."""
        governor = await self._governing.find(target, shape.metadata.labels, counted.scale)
        limits = self._watching.limits(target.namespace)
        boosts = starting_boosts(shape.spec, governor, limits, self._boosts)
        return msgspec.structs.replace(found, governor=governor, limits=limits, boosts=boosts)

    async def _newest(self, namespace: str, selector: Selector, known: Shown) -> Pod | None:
        """The newest live pod as a whole; asked for if it is not the one that is known, or no longer the same."""
        seen = newest_live(
            pod for pod in candidates(self._watching.pods, namespace, selector) if selector.matches(pod.metadata.labels)
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
            known.pod = ShownPod(mark, unboosted(pod))
        return known.pod.pod

    async def _template(self, target: TargetRef, counted: Counted, known: Shown) -> ShownTemplate | None:
        if counted.resource is not None:
            return await self._templates.of_workload(known, counted.resource, target, counted.read)
        return await self._templates.of_document(known, counted.template, target, counted.read)

    def _filled(self, namespace: str, meaning: EffectiveBuffer) -> Counts:
        selector = meaning.filled_by
        if selector is None:
            return {}
        return filled_with(
            pod.held
            for pod in candidates(self._watching.pods, namespace, selector)
            if isinstance(pod, SeenPod) and is_live(pod) and selector.matches(pod.metadata.labels)
        )
