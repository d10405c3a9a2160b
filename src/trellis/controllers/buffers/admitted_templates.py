"""Templates as the API server would store a pod of them.

Webhooks, LimitRanges and priority classes change a pod when it is created. Without dry runs a template gets the
defaults of LimitRanges, and is otherwise used as it is written. With dry runs, which need the right to create pods, all
of admission takes part. If the API server refuses the pod, the template is used as without a dry run: capacity for a
pod that is not quite right is worth more than none, and the condition says what was refused. An answer is valid for a
while, because all of them may change; until then the same template is not tried again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.kube.policies import LimitRange
from trellis.base.errors import ServerFault, Throttled, Unreachable, UnreadableObject
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.state import ShapeTemplate, TargetState
from trellis.core.buffers import template_in
from trellis.core.buffers.template_defaults import with_namespace_defaults
from trellis.core.cluster.owners import TargetRef
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import build_get
from trellis.kube.write.dry_run import dry_run_pod
from trellis.runtime.telemetry.metrics import Metrics

_FRESH_SECONDS: Final = 600.0
_REFUSED_SECONDS: Final = 60.0
# Errors that say nothing about the pod: the previous result stays.
_RETRIABLE: Final = (Throttled, Unreachable, ServerFault)


class AdmittedTemplates:
    """Reads templates, and creates pods of them as dry runs if these are `enabled`."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        *,
        enabled: bool,
        list_limit_ranges: Callable[[str], Iterable[LimitRange]],
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._enabled = enabled
        self._list_limit_ranges = list_limit_ranges

    async def read_workload_template(
        self, state: TargetState, resource: Resource[Any], target: TargetRef, source: tuple[str, int]
    ) -> ShapeTemplate | None:
        """The template of a well-known workload; `source` is its UID and generation."""
        previous = state.template
        if previous is not None and previous.source == source and _read_clock() < previous.until:
            return previous
        response = await self._client.send(build_get(resource, target.name, target.namespace))
        document = msgspec.json.decode(response.body, type=dict[str, Any])
        return await self.admit_template(state, template_in(document), target, source)

    async def admit_template(
        self, state: TargetState, template: Mapping[str, Any] | None, target: TargetRef, source: tuple[str, int]
    ) -> ShapeTemplate | None:
        """The result for a template that has been read."""
        if template is None:
            state.template = None
            return None
        written = msgspec.json.encode(template, order="deterministic")
        digest = blake2b(written, digest_size=16).digest()
        previous = state.template
        if previous is not None and previous.digest == digest and _read_clock() < previous.until:
            # Only another field of the workload has changed, such as its replicas.
            state.template = msgspec.structs.replace(previous, source=source)
        elif self._enabled:
            state.template = await self._dry_run(template, target, source, digest, previous)
        else:
            as_written = self._read_as_written(template, target.namespace)
            state.template = ShapeTemplate(source, digest, math.inf, as_written)
        return state.template

    async def _dry_run(
        self,
        template: Mapping[str, Any],
        target: TargetRef,
        source: tuple[str, int],
        digest: bytes,
        before: ShapeTemplate | None,
    ) -> ShapeTemplate:
        metadata = template.get("metadata") or {}
        pod_metadata = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": f"{target.name[:200]}-", "namespace": target.namespace, **pod_metadata},
            "spec": template.get("spec") or {},
        }
        result = await dry_run_pod(self._client, document, target.namespace)
        self._metrics.add(named.DRY_RUNS, 1, named.MADE if isinstance(result, Pod) else named.REFUSED)
        if isinstance(result, Pod):
            admitted = PodTemplateSpec(ObjectMeta(labels=result.metadata.labels), result.spec)
            return ShapeTemplate(source, digest, _read_clock() + _FRESH_SECONDS, admitted)
        if isinstance(result, _RETRIABLE) and before is not None and before.digest == digest:
            return msgspec.structs.replace(before, source=source, until=_read_clock() + _REFUSED_SECONDS)
        refusal = f"the API server would refuse a pod of the template, which is used as it is: {result}"
        as_written = self._read_as_written(template, target.namespace)
        return ShapeTemplate(source, digest, _read_clock() + _REFUSED_SECONDS, as_written, refusal)

    def _read_as_written(self, template: Mapping[str, Any], namespace: str) -> PodTemplateSpec:
        """The template with the defaults of its namespace."""
        try:
            written = convert_object(dict(template), PodTemplateSpec)
        except UnreadableObject:
            # A pod without containers is translated to the reason that it is unreadable.
            return PodTemplateSpec()
        spec = with_namespace_defaults(written.spec, self._list_limit_ranges(namespace))
        return msgspec.structs.replace(written, spec=spec)


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
