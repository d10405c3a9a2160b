"""The other autoscalers of an Hvpa's workload: those that it owns, those that it uses, and those that it yields to.

Two autoscalers that write the same field undo each other for ever, so that an Hvpa leaves its target alone where
another one comes first. The HPA and VPA that an Hvpa owns are its templates, completed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import CrossVersionObjectReference, HorizontalPodAutoscaler
from trellis.api.registry import HVPA
from trellis.api.resolve import EffectiveHvpa, UpdateMode, resolve_vpa
from trellis.base.reasons import Reason, Severity

CONFLICTING_HPA = Reason(
    "ConflictingHPA",
    "An HPA targets the workload itself; let it target the Hvpa instead. Until then the Hvpa "
    "does not change the workload.",
    Severity.WARNING,
)
CONFLICTING_VPA = Reason(
    "ConflictingVPA",
    "A VPA that is not in mode Off targets the same workload, so the Hvpa does not change it.",
    Severity.WARNING,
)
OLDER_HVPA = Reason("OlderHvpa", "An older Hvpa has the same target, so this one does not change it.", Severity.WARNING)


def find_conflict_reason(*, acting_vpa: bool, hpa_on_target: bool, elder_hvpa: bool) -> Reason | None:
    """Why an Hvpa leaves its target alone; None if it does not."""
    if elder_hvpa:
        return OLDER_HVPA
    if acting_vpa:
        return CONFLICTING_VPA
    return CONFLICTING_HPA if hpa_on_target else None


class RelatedAutoscalers(msgspec.Struct, frozen=True):
    """The autoscalers of a namespace, or those of them that have to do with one Hvpa."""

    hvpas: Sequence[Hvpa]
    hpas: Sequence[HorizontalPodAutoscaler]
    vpas: Sequence[VerticalPodAutoscaler]


def is_reference_to(target: TargetReference, kind: str, name: str) -> bool:
    """Whether a reference means the target; the version is not compared, because people write any."""
    return (target.kind, target.name) == (kind, name)


def is_owned_by(metadata: ObjectMeta, hvpa: Hvpa) -> bool:
    """Whether an object is this Hvpa's, and not that of one with the same name before it."""
    controller = metadata.controller
    return controller is not None and bool(controller.uid) and controller.uid == hvpa.metadata.uid


def find_vpa(hvpa: Hvpa, vpas: Iterable[VerticalPodAutoscaler]) -> VerticalPodAutoscaler | None:
    """The VPA that recommends for an Hvpa: its own, or the oldest of the user's in mode `Off`."""
    candidates = [vpa for vpa in vpas if _has_same_target(hvpa, vpa)]
    owned = next((vpa for vpa in candidates if is_owned_by(vpa.metadata, hvpa)), None)
    others = [vpa for vpa in candidates if resolve_vpa(vpa).mode is UpdateMode.OFF]
    return owned or min(others, key=lambda vpa: _age_key(vpa.metadata), default=None)


def find_hpa(hvpa: Hvpa, hpas: Iterable[HorizontalPodAutoscaler]) -> HorizontalPodAutoscaler | None:
    """The HPA that drives an Hvpa: its own, or the oldest of the user's."""
    candidates = [hpa for hpa in hpas if _is_scaling_hvpa(hpa.spec.scale_target_ref, hvpa)]
    owned = next((hpa for hpa in candidates if is_owned_by(hpa.metadata, hvpa)), None)
    return owned or min(candidates, key=lambda hpa: _age_key(hpa.metadata), default=None)


def find_conflict(hvpa: Hvpa, related: RelatedAutoscalers) -> Reason | None:
    """Which other autoscaler comes first, if one does."""
    target = hvpa.spec.target_ref
    acting = any(
        _has_same_target(hvpa, vpa)
        and not is_owned_by(vpa.metadata, hvpa)
        and resolve_vpa(vpa).mode is not UpdateMode.OFF
        for vpa in related.vpas
    )
    on_target = any(
        is_reference_to(target, hpa.spec.scale_target_ref.kind, hpa.spec.scale_target_ref.name) for hpa in related.hpas
    )
    elder = any(
        is_reference_to(target, rival.spec.target_ref.kind, rival.spec.target_ref.name)
        and _age_key(rival.metadata) < _age_key(hvpa.metadata)
        for rival in related.hvpas
    )
    return find_conflict_reason(acting_vpa=acting, hpa_on_target=on_target, elder_hvpa=elder)


def list_conflicting(hvpa: Hvpa, related: RelatedAutoscalers) -> Iterator[str]:
    """The autoscalers to which the Hvpa yields: each is checked alone."""
    for rival in related.hvpas:
        if find_conflict(hvpa, RelatedAutoscalers([rival], [], [])) is not None:
            yield f"Hvpa {rival.metadata.name}"
    for vpa in related.vpas:
        if find_conflict(hvpa, RelatedAutoscalers([], [], [vpa])) is not None:
            yield f"VerticalPodAutoscaler {vpa.metadata.name}"
    for hpa in related.hpas:
        if find_conflict(hvpa, RelatedAutoscalers([], [hpa], [])) is not None:
            yield f"HorizontalPodAutoscaler {hpa.metadata.name}"


def _is_scaling_hvpa(reference: CrossVersionObjectReference, hvpa: Hvpa) -> bool:
    """Whether an HPA means this Hvpa; another project's kind of that name is in a group of its own."""
    group = reference.api_version.rpartition("/")[0]
    return (reference.kind, reference.name) == (HVPA.name, hvpa.metadata.name) and group in ("", HVPA.group)


def _has_same_target(hvpa: Hvpa, vpa: VerticalPodAutoscaler) -> bool:
    return is_reference_to(hvpa.spec.target_ref, vpa.spec.target_ref.kind, vpa.spec.target_ref.name)


def _age_key(metadata: ObjectMeta) -> tuple[float, str]:
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else math.inf, metadata.name


# What the API server can store of a count.
_MAX_REPLICAS: Final = 2**31 - 1


def build_hpa_spec(hvpa: Hvpa, meaning: EffectiveHvpa) -> dict[str, Any]:
    """The template, pointed at the Hvpa. It does not wait before it scales down: the Hvpa does."""
    spec = meaning.hpa_spec
    reference = {"apiVersion": HVPA.api_version, "kind": HVPA.name, "name": hvpa.metadata.name}
    highest_count = max((bucket.replicas.max or 1 for bucket in meaning.buckets), default=1)
    overrides = {"scaleTargetRef": reference, "behavior": _behavior(spec.get("behavior"))}
    return {"maxReplicas": min(2 * highest_count, _MAX_REPLICAS), **spec, **overrides}


def build_vpa_spec(hvpa: Hvpa, meaning: EffectiveHvpa) -> dict[str, Any]:
    """The template for the Hvpa's target, in mode `Off`."""
    spec = meaning.vpa_spec
    policy = {**(spec.get("updatePolicy") or {}), "updateMode": "Off"}
    return {**spec, "targetRef": msgspec.to_builtins(hvpa.spec.target_ref), "updatePolicy": policy}


def _behavior(template_behavior: Any) -> Any:
    """With a window of its own on the way down. What is no behavior is left to the API server, which says so."""
    behavior = {} if template_behavior is None else template_behavior
    down = behavior.get("scaleDown") if isinstance(behavior, dict) else template_behavior
    down = {} if down is None else down
    if not isinstance(down, dict):
        return template_behavior
    window = down.get("stabilizationWindowSeconds")
    return {**behavior, "scaleDown": {**down, "stabilizationWindowSeconds": 0 if window is None else window}}
