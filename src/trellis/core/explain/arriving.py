"""What would a new pod of a workload get now? The admission controller's own answer about its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject, PodMeta
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.kube.workloads import CronJob
from trellis.base.reason import Reason
from trellis.core.admission.ceilings import cpu_ceiling
from trellis.core.admission.decisions import Decisions
from trellis.core.admission.governors import Governors
from trellis.core.admission.pods import SIZED, PodVerdict
from trellis.core.explain.settings import Components
from trellis.core.fit import NodeTable
from trellis.core.model.collected import Collected
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import Chain, TargetRef
from trellis.core.model.patches import escaped
from trellis.core.recommend.capping import read_limit_ranges
from trellis.core.sizing.governors import Governor, hvpa_governor, vpa_governor

_ACCOUNT: Final = f"/metadata/annotations/{escaped(SIZED)}"


class Arrived(msgspec.Struct, frozen=True):
    """The verdict on a new pod, and the account that it is given of its size, as the pod's annotation has it."""

    target: TargetRef
    reason: Reason
    warnings: tuple[str, ...]
    account: Mapping[str, Any]


def arrivals_in(collected: Collected, namespace: str, components: Components) -> dict[TargetRef, Arrived]:
    """One new pod of every workload that something claims as its target and that has a template."""
    governors = Governors()
    targets: dict[TargetRef, None] = {}
    for kind, name, governor in governors_in(collected, namespace):
        governors.put(kind, namespace, name, governor)
        if governor is not None:
            targets[governor.claim.target] = None
    limits = read_limit_ranges(collected.limit_ranges.by(BY_NAMESPACE, namespace))
    table = NodeTable(collected.nodes)
    decisions = Decisions(
        governors,
        lambda _namespace: limits,
        components.boosts,
        lambda pod: cpu_ceiling(table, pod, must_fit=components.updates.require_fit),
    )
    found: dict[TargetRef, Arrived] = {}
    for target in targets:
        template = template_of(collected.owners.find(target))
        if template is not None:
            pod = Pod(metadata=_metadata(template, target), spec=template.spec)
            found[target] = _arrived(target, decisions.decide(pod, namespace, Chain(target), collected.owners))
    return found


def governors_in(collected: Collected, namespace: str) -> Iterator[tuple[str, str, Governor | None]]:
    """All that may size or boost pods of a namespace, by kind and name."""
    for vpa in collected.vpas.by(BY_NAMESPACE, namespace):
        yield vpa.kind, vpa.metadata.name, vpa_governor(vpa)
    for hvpa in collected.hvpas.by(BY_NAMESPACE, namespace):
        yield hvpa.kind, hvpa.metadata.name, hvpa_governor(hvpa)


def template_of(workload: object) -> PodTemplateSpec | None:
    """What a workload makes pods from."""
    if isinstance(workload, CronJob):
        return workload.spec.job_template.spec.template
    template = getattr(getattr(workload, "spec", None), "template", None) if isinstance(workload, KubeObject) else None
    return template if isinstance(template, PodTemplateSpec) else None


def _metadata(template: PodTemplateSpec, target: TargetRef) -> PodMeta:
    own = template.metadata
    return PodMeta(namespace=target.namespace, labels=own.labels, annotations=own.annotations)


def _arrived(target: TargetRef, verdict: PodVerdict) -> Arrived:
    text = next((op.value for op in verdict.patch if op.path == _ACCOUNT), None)
    account = msgspec.json.decode(text, type=dict[str, Any]) if isinstance(text, str) else {}
    return Arrived(target, verdict.reason, verdict.warnings, account)
