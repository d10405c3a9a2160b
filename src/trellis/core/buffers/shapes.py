"""The shape of one chunk: the part of a pod that scheduling reads, and what quotas count of it.

The pod is the target's newest live one, as admission has changed it; else one of its template. Volumes that tie a pod
to a node or a zone belong to that pod only: they are dropped, with a note. Capacity for dynamic resource allocation
cannot be kept.

New pods get the recommendation in force, and so does a chunk, also where its shape is that of an older pod. A startup
boost is part of the requests of a pod when it is scheduled, and so is part of the chunk; admission decides whether pods
start boosted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Taint
from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import Container, PodSpec, ResourceRequirements, Volume
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.buffers.pods import select_scheduling_fields, select_shared_labels
from trellis.core.buffers.quota_usage import QuotaUsage, count_quota_usage
from trellis.core.buffers.translation_facts import TargetFacts
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.fit import Demand
from trellis.core.fit.demand import ResourceAmounts
from trellis.core.recommend.amounts import ResourceAmounts as AmountsResourceAmounts
from trellis.core.sizing import ContainerList, ContainerSize, PodShape, PodSize, size_pod

_CPU = "cpu"
_NONE: AmountsResourceAmounts = {}


def apply_recommendation(spec: PodSpec, target: TargetFacts) -> PodSpec:
    """The spec of a pod that would be created now, with recommendation and startup boost."""
    sizes = {(sized.container.place, sized.container.index): sized for sized in _compute_sizes(spec, target).containers}
    if not sizes and not target.boosts:
        return spec
    return msgspec.structs.replace(
        spec,
        containers=_resize_containers(spec.containers, ContainerList.CONTAINERS, sizes, target.boosts),
        init_containers=_resize_containers(spec.init_containers, ContainerList.INIT, sizes, target.boosts),
    )


def _compute_sizes(spec: PodSpec, target: TargetFacts) -> PodSize:
    governor = target.governor
    if governor is None or not governor.applies or not governor.advice:
        return PodSize()
    return size_pod(PodShape.from_spec(spec), governor.advice, governor.vpa, target.limits)


def _resize_containers(
    containers: tuple[Container, ...],
    place: ContainerList,
    sizes: Mapping[tuple[ContainerList, int], ContainerSize],
    boosts: AmountsResourceAmounts,
) -> tuple[Container, ...]:
    return tuple(
        _resize_container(container, sizes.get((place, index)), boosts.get(container.name, 0))
        for index, container in enumerate(containers)
    )


def _resize_container(container: Container, size: ContainerSize | None, boost: int) -> Container:
    requests = size.requests if size is not None else _NONE
    limits = size.limits if size is not None else _NONE
    if boost > requests.get(_CPU, 0):
        requests = {**requests, _CPU: boost}
    if not requests and not limits:
        return container
    written = container.resources
    changed = ResourceRequirements(
        limits={**written.limits, **_format_amounts(limits)},
        requests={**written.requests, **_format_amounts(requests)},
        claims=written.claims,
    )
    return msgspec.structs.replace(container, resources=changed)


def _format_amounts(amounts: AmountsResourceAmounts) -> dict[str, str]:
    return {name: format_resource_amount(name, amount) for name, amount in amounts.items()}


SHAPED_LIKE_POD = Reason("ShapedLikePod", "A chunk has the spec of the target's newest live pod.")
SHAPED_LIKE_TEMPLATE = Reason("ShapedLikeTemplate", "A chunk has the spec of the target's pod template.")
SHAPED_LIKE_BEFORE = Reason(
    "ShapedLikeBefore", "The target has no live pod and no pod template; a chunk has the spec of its last pod."
)
SHAPE_GIVEN = Reason("ShapeGiven", "A chunk has the resources that the Buffer specifies.")
SHAPE_OF_CLASS = Reason("ShapeOfClass", "A chunk is a fraction of the totals that fits the nodes of the class.")
VOLUMES_DROPPED = Reason("VolumesDropped", "Volumes that bind a pod to a node or a zone are not part of a chunk.")
TEMPLATE_REFUSED = Reason(
    "TemplateRefused",
    "The API server would refuse a pod of the target's template; a chunk has the template as it is.",
    Severity.WARNING,
)
TARGET_WITHOUT_PODS = Reason(
    "TargetWithoutPods", "The target has no live pod and no pod template; the Buffer waits for the first pod."
)
HAS_RESOURCE_CLAIMS = Reason(
    "HasResourceClaims", "The pod has resource claims; capacity for devices is not supported.", Severity.WARNING
)
POD_SPEC_UNREADABLE = Reason("PodSpecUnreadable", "The pod spec, or a quantity in it, is invalid.", Severity.ERROR)


class ChunkShape(msgspec.Struct, frozen=True):
    """The shape of one chunk: spec, labels, requested amounts, usage of quotas, and notes."""

    spec: PodSpec
    labels: Labels
    amounts: ResourceAmounts
    usage: QuotaUsage
    source: DetailedReason
    notes: tuple[DetailedReason, ...] = ()


def shape_from_target(target: TargetFacts) -> ChunkShape | DetailedReason:
    """The shape of a target's pods, or why there is none."""
    if target.pod is not None:
        pod = target.pod
        return _build_shape(
            apply_recommendation(pod.spec, target), pod.metadata.labels, DetailedReason(SHAPED_LIKE_POD)
        )
    template = target.template
    if template is None and target.last is not None:
        return _build_shape(
            apply_recommendation(target.last.spec, target),
            target.last.metadata.labels,
            DetailedReason(SHAPED_LIKE_BEFORE),
        )
    if template is None:
        return DetailedReason(TARGET_WITHOUT_PODS)
    notes = (DetailedReason(TEMPLATE_REFUSED, target.refusal),) if target.refusal else ()
    return _build_shape(
        apply_recommendation(template.spec, target),
        template.metadata.labels,
        DetailedReason(SHAPED_LIKE_TEMPLATE),
        notes,
    )


def shape_from_spec(document: Mapping[str, Any], labels: Labels = NOTHING) -> ChunkShape | DetailedReason:
    """The shape of a pod spec in the Buffer."""
    try:
        spec = convert_object(dict(document), PodSpec)
    except UnreadableObject as error:
        return DetailedReason(POD_SPEC_UNREADABLE, f"podSpec {error.rule}")
    return _build_shape(spec, labels, DetailedReason(SHAPE_GIVEN))


def shape_from_class(
    requests: Mapping[str, str], labels: Labels, taints: tuple[Taint, ...] | None
) -> ChunkShape | DetailedReason:
    """The shape of a chunk of a node class: on nodes with these labels, tolerating the taints that all of them have.

    A tainted class is for pods that tolerate its taints, and so are its chunks. `taints` are None while the class has
    no node: the chunk then tolerates all taints, or no first node would ever be added.
    """
    document = {
        "containers": [{"name": "chunk", "resources": {"requests": dict(requests)}}],
        "nodeSelector": dict(labels),
    }
    spec = convert_object(document, PodSpec)
    tolerations: tuple[Toleration, ...] = (Toleration(operator="Exists"),)
    if taints is not None:
        tolerations = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    return _build_shape(msgspec.structs.replace(spec, tolerations=tolerations), {}, DetailedReason(SHAPE_OF_CLASS))


def _build_shape(
    spec: PodSpec, labels: Labels, source: DetailedReason, notes: tuple[DetailedReason, ...] = ()
) -> ChunkShape | DetailedReason:
    containers = (*spec.containers, *spec.init_containers)
    if not spec.containers or not all(container.name for container in containers):
        return DetailedReason(
            POD_SPEC_UNREADABLE, "podSpec.containers: at least one container is needed, and each needs a name"
        )
    claims = {claim.name for claim in spec.resource_claims}
    claims |= {claim.name for container in containers for claim in container.resources.claims}
    if claims:
        return DetailedReason(
            HAS_RESOURCE_CLAIMS, f"capacity for resource claims is not supported: {', '.join(sorted(claims))}"
        )
    part = select_scheduling_fields(spec)
    try:
        amounts, usage = Demand.of(part).amounts, count_quota_usage(spec)
    except InvalidInput as error:
        return DetailedReason(POD_SPEC_UNREADABLE, str(error))
    dropped = _list_dropped(spec.volumes)
    if dropped:
        notes = (*notes, DetailedReason(VOLUMES_DROPPED, f"without {dropped}"))
    return ChunkShape(part, select_shared_labels(labels), amounts, usage, source, notes)


def _list_dropped(volumes: tuple[Volume, ...]) -> str:
    """The volumes with a claim, by their paths in the spec."""
    dropped = []
    for index, volume in enumerate(volumes):
        if volume.persistent_volume_claim is not None:
            dropped.append(f"volumes[{index}] (claim {volume.persistent_volume_claim.claim_name})")
        elif volume.ephemeral is not None:
            dropped.append(f"volumes[{index}] (ephemeral)")
    return ", ".join(dropped)
