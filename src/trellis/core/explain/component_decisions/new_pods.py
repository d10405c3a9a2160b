"""What a new pod of each workload would get now: the admission controller's decision about its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject, PodMeta
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.kube.workloads import CronJob
from trellis.base.reasons import Reason
from trellis.core.admission.decisions import GovernorIndex, PodAdmitter
from trellis.core.admission.pod_patches import PodAdmissionDecision
from trellis.core.admission.starting_cpu import find_cpu_ceiling
from trellis.core.cluster.json_patches import escape_json_pointer
from trellis.core.cluster.owners import OwnerChain, TargetRef
from trellis.core.cluster.pod_annotations import SIZED_ANNOTATION
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.fit import NodeTable
from trellis.core.recommend.capping import read_limit_ranges
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor

_ACCOUNT: Final = f"/metadata/annotations/{escape_json_pointer(SIZED_ANNOTATION)}"


class NewPodEvidence(msgspec.Struct, frozen=True):
    """The decision about a new pod, and the account of its size in the pod's annotation."""

    target: TargetRef
    reason: Reason
    warnings: tuple[str, ...]
    account: Mapping[str, Any]


def admit_new_pods(
    collected: ClusterState, namespace: str, components: CollectedSettings
) -> dict[TargetRef, NewPodEvidence]:
    """Admit one new pod of every workload that is a target and has a template."""
    governors = GovernorIndex()
    targets: dict[TargetRef, None] = {}
    for kind, name, governor in list_governors(collected, namespace):
        governors.put(kind, namespace, name, governor)
        if governor is not None:
            targets[governor.claim.target] = None
    limits = read_limit_ranges(collected.limit_ranges.by_index(BY_NAMESPACE, namespace))
    table = NodeTable(collected.nodes)
    decisions = PodAdmitter(
        governors,
        lambda _namespace: limits,
        components.boosts,
        lambda pod: find_cpu_ceiling(table, pod, must_fit=components.updates.require_fit),
    )
    admitted: dict[TargetRef, NewPodEvidence] = {}
    for target in targets:
        template = find_pod_template(collected.owners.find(target))
        if template is not None:
            pod = Pod(metadata=_metadata(template, target), spec=template.spec)
            admitted[target] = _build_evidence(
                target, decisions.decide(pod, namespace, OwnerChain(target), collected.owners)
            )
    return admitted


def list_governors(collected: ClusterState, namespace: str) -> Iterator[tuple[str, str, Governor | None]]:
    """The objects that size or boost pods of a namespace, by kind and name."""
    for vpa in collected.vpas.by_index(BY_NAMESPACE, namespace):
        yield vpa.kind, vpa.metadata.name, compile_vpa_governor(vpa)
    for hvpa in collected.hvpas.by_index(BY_NAMESPACE, namespace):
        yield hvpa.kind, hvpa.metadata.name, compile_hvpa_governor(hvpa)


def find_pod_template(workload: object) -> PodTemplateSpec | None:
    """The pod template of a workload."""
    if isinstance(workload, CronJob):
        return workload.spec.job_template.spec.template
    template = getattr(getattr(workload, "spec", None), "template", None) if isinstance(workload, KubeObject) else None
    return template if isinstance(template, PodTemplateSpec) else None


def _metadata(template: PodTemplateSpec, target: TargetRef) -> PodMeta:
    template_metadata = template.metadata
    return PodMeta(
        namespace=target.namespace, labels=template_metadata.labels, annotations=template_metadata.annotations
    )


def _build_evidence(target: TargetRef, decision: PodAdmissionDecision) -> NewPodEvidence:
    text = next((op.value for op in decision.patch if op.path == _ACCOUNT), None)
    account = msgspec.json.decode(text, type=dict[str, Any]) if isinstance(text, str) else {}
    return NewPodEvidence(target, decision.reason, decision.warnings, account)
