"""What does one chunk look like? The part of a pod that scheduling reads, and what quotas count of it.

The pod is the target's newest live one, which shows what admission makes of them; else one of its template. Volumes
that tie a pod to a node or a zone are its own and not those of the pods to come: they are dropped, and named. What a
pod claims by dynamic allocation cannot be kept room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.kube.decode import convert_object
from trellis.api.kube.nodes import Taint
from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import PodSpec, Volume
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.facts import FoundTarget
from trellis.core.buffers.pod_specs import scheduled_part, shared_labels
from trellis.core.buffers.quota_usage import QuotaUsage, quota_usage
from trellis.core.buffers.said import Said
from trellis.core.buffers.sizing import sized
from trellis.core.fit import Demand
from trellis.core.fit.demand import Amounts

SHAPED_LIKE_POD = Reason("ShapedLikePod", "A chunk is shaped like the target's newest live pod.")
SHAPED_LIKE_TEMPLATE = Reason("ShapedLikeTemplate", "A chunk is shaped like the target's pod template.")
SHAPED_LIKE_BEFORE = Reason(
    "ShapedLikeBefore", "The target has no live pod and no template; a chunk is shaped like the last pod it had."
)
SHAPE_GIVEN = Reason("ShapeGiven", "A chunk is shaped as the Buffer says.")
SHAPE_OF_CLASS = Reason("ShapeOfClass", "A chunk is a part of the totals, for nodes of the class.")
VOLUMES_DROPPED = Reason("VolumesDropped", "Volumes that tie a pod to a node or a zone are not part of a chunk.")
TEMPLATE_REFUSED = Reason(
    "TemplateRefused",
    "The API server would refuse a pod of the target's template; the chunk is shaped as it is written.",
    Severity.WARNING,
)
TARGET_WITHOUT_PODS = Reason(
    "TargetWithoutPods", "The target has no live pod and no pod template; the Buffer waits for its first pod."
)
HAS_RESOURCE_CLAIMS = Reason(
    "HasResourceClaims", "The pod has resource claims, and room for devices cannot be kept.", Severity.WARNING
)
POD_SPEC_UNREADABLE = Reason("PodSpecUnreadable", "The pod spec, or an amount in it, cannot be read.", Severity.ERROR)


class Shape(msgspec.Struct, frozen=True):
    """One chunk: its spec, the labels of its pods, what it asks of a node and of quotas, and what to say of it."""

    spec: PodSpec
    labels: Labels
    amounts: Amounts
    usage: QuotaUsage
    source: Said
    notes: tuple[Said, ...] = ()


def target_shape(target: FoundTarget) -> Shape | Said:
    """The shape of a target's pods, or why there is none."""
    if target.pod is not None:
        pod = target.pod
        return _shape(sized(pod.spec, target), pod.metadata.labels, Said(SHAPED_LIKE_POD))
    template = target.template
    if template is None and target.last is not None:
        return _shape(sized(target.last.spec, target), target.last.metadata.labels, Said(SHAPED_LIKE_BEFORE))
    if template is None:
        return Said(TARGET_WITHOUT_PODS)
    notes = (Said(TEMPLATE_REFUSED, target.refusal),) if target.refusal else ()
    return _shape(sized(template.spec, target), template.metadata.labels, Said(SHAPED_LIKE_TEMPLATE), notes)


def given_shape(document: Mapping[str, Any], labels: Labels = NOTHING) -> Shape | Said:
    """The shape that a Buffer itself writes down."""
    try:
        spec = convert_object(dict(document), PodSpec)
    except UnreadableObject as error:
        return Said(POD_SPEC_UNREADABLE, f"podSpec {error.rule}")
    return _shape(spec, labels, Said(SHAPE_GIVEN))


def class_shape(requests: Mapping[str, str], labels: Labels, taints: tuple[Taint, ...] | None) -> Shape | Said:
    """A chunk of a node class: so much, on nodes with these labels, whatever taints all of them have.

    A class that keeps pods away is for pods that tolerate it, and so is its room. `taints` are None where nobody knows
    them yet: then any will do, or no first node would ever come.
    """
    document = {
        "containers": [{"name": "chunk", "resources": {"requests": dict(requests)}}],
        "nodeSelector": dict(labels),
    }
    spec = convert_object(document, PodSpec)
    tolerations: tuple[Toleration, ...] = (Toleration(operator="Exists"),)
    if taints is not None:
        tolerations = tuple(Toleration(each.key, "Equal", each.value, each.effect) for each in taints)
    return _shape(msgspec.structs.replace(spec, tolerations=tolerations), {}, Said(SHAPE_OF_CLASS))


def _shape(spec: PodSpec, labels: Labels, source: Said, notes: tuple[Said, ...] = ()) -> Shape | Said:
    containers = (*spec.containers, *spec.init_containers)
    if not spec.containers or not all(each.name for each in containers):
        return Said(POD_SPEC_UNREADABLE, "podSpec.containers: at least one container, and a name for each, is needed")
    claims = {each.name for each in spec.resource_claims}
    claims |= {each.name for container in containers for each in container.resources.claims}
    if claims:
        return Said(HAS_RESOURCE_CLAIMS, f"room for resource claims cannot be kept: {', '.join(sorted(claims))}")
    part = scheduled_part(spec)
    try:
        amounts, usage = Demand.of(part).amounts, quota_usage(spec)
    except InvalidInput as error:
        return Said(POD_SPEC_UNREADABLE, str(error))
    dropped = _dropped(spec.volumes)
    if dropped:
        notes = (*notes, Said(VOLUMES_DROPPED, f"without {dropped}"))
    return Shape(part, shared_labels(labels), amounts, usage, source, notes)


def _dropped(volumes: tuple[Volume, ...]) -> str:
    """The volumes that come with a claim, by their places in the spec."""
    found = []
    for index, volume in enumerate(volumes):
        if volume.persistent_volume_claim is not None:
            found.append(f"volumes[{index}] (claim {volume.persistent_volume_claim.claim_name})")
        elif volume.ephemeral is not None:
            found.append(f"volumes[{index}] (ephemeral)")
    return ", ".join(found)
