"""Builds the view that a CapacityBuffer is translated from: a workload as Buffers have it, or a PodTemplate."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer, ScalableReference
from trellis.api.kube.pods import PodTemplateSpec
from trellis.controllers.buffers.admitted_templates import AdmittedTemplates
from trellis.controllers.buffers.capacity_buffers.informers import CapacityBufferInformers, capacity_key
from trellis.controllers.buffers.capacity_buffers.owned_objects import is_owned
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferState, observed_generation
from trellis.controllers.buffers.state import TargetState
from trellis.controllers.buffers.view import BufferViewBuilder
from trellis.core.buffers import TargetFacts, TranslationFacts, managed_template_name
from trellis.core.buffers.pods import select_scheduling_fields
from trellis.core.cluster.owners import TargetRef, describe_missing
from trellis.core.cluster.store import key_of
from trellis.core.cluster.target_problems import TARGET_NOT_FOUND, TargetProblem
from trellis.kube.client import Client
from trellis.kube.resources import POD_TEMPLATES
from trellis.kube.transport.requests import build_get

# How upstream's documents name the group that has no name.
_CORE: Final = "core"


class CapacityBufferViewBuilder:
    """Builds the facts that CapacityBuffers are translated from, one after the other for each of them."""

    def __init__(
        self,
        client: Client,
        informers: CapacityBufferInformers,
        workloads: BufferViewBuilder,
        templates: AdmittedTemplates,
    ) -> None:
        self._client = client
        self._informers = informers
        self._workloads = workloads
        self._templates = templates

    async def facts(self, buffer: CapacityBuffer, state: CapacityBufferState) -> TranslationFacts:
        """The facts about one CapacityBuffer. Raises `KubeError` if a request failed."""
        spec, namespace = buffer.spec, buffer.metadata.namespace
        if spec.pod_template_ref is not None:
            return TranslationFacts(
                await self._template(TargetRef(namespace, "v1", "PodTemplate", spec.pod_template_ref.name), state)
            )
        if spec.scalable_ref is not None:
            target = workload_reference(namespace, spec.scalable_ref)
            key = capacity_key(key_of(buffer))
            return TranslationFacts(
                await self._workloads.target(key, target, state, lambda: self._find_last_shape(buffer, state))
            )
        return TranslationFacts()

    async def _template(self, target: TargetRef, state: TargetState) -> TargetFacts | TargetProblem:
        """The referenced template, read with all of its fields, so that the dry run covers each of them."""
        template = self._informers.templates.get(target.namespace, target.name)
        if template is None:
            return TargetProblem(TARGET_NOT_FOUND, describe_missing(target))
        source = (template.metadata.uid, template.metadata.generation)
        previous = state.template
        if previous is None or previous.source != source or asyncio.get_running_loop().time() >= previous.until:
            response = await self._client.send(build_get(POD_TEMPLATES, target.name, target.namespace))
            document = msgspec.json.decode(response.body, type=dict[str, Any])
            previous = await self._templates.admit_template(state, document.get("template"), target, source)
        return TargetFacts() if previous is None else TargetFacts(template=previous.template, refusal=previous.refusal)

    def _find_last_shape(self, buffer: CapacityBuffer, state: CapacityBufferState) -> PodTemplateSpec | None:
        """The shape in the managed template, if it is that of the present spec, or is known to be of its workload."""
        metadata, status = buffer.metadata, buffer.status
        is_present = observed_generation(buffer) == metadata.generation or state.target_stays
        # A template that the status does not refer to any more is that of an earlier workload.
        if status.pod_template_ref is None or not is_present:
            return None
        template = self._informers.templates.get(metadata.namespace, managed_template_name(metadata.name))
        if template is None or not is_owned(template, metadata.uid):
            return None
        # Its limits are only for the API server.
        return msgspec.structs.replace(template.template, spec=select_scheduling_fields(template.template.spec))


def workload_reference(namespace: str, reference: ScalableReference) -> TargetRef:
    """The referenced workload: of this group, in any version."""
    group = "" if reference.api_group == _CORE else reference.api_group
    return TargetRef(namespace, f"{group}/" if group else "", reference.kind, reference.name)
