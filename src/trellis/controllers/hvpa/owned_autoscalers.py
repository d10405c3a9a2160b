"""The HPA and the VPA that an Hvpa owns: what they should be, and the actions that make them so.

Both have the Hvpa's name, and the Hvpa as their controller. An Hvpa adopts what an earlier Hvpa of its name left
behind, and leaves any other object of that name as it is. Specs are compared with the defaults that the API server
(Kubernetes 1.36) fills in: otherwise an HPA would keep metrics or behavior that its template has lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerSpec
from trellis.api.kube.decoder import convert_object, decode_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    Metric,
    MetricSource,
    MetricTarget,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
)
from trellis.api.resolve import EffectiveHvpa
from trellis.base.errors import InvalidQuantity, UnreadableObject
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason, Severity
from trellis.core.hvpa.autoscalers import build_hpa_spec, build_vpa_spec, is_owned_by
from trellis.kube.resources import HPAS, HVPAS, VPAS, Resource
from trellis.kube.write.actions import Action, CreateObject, DeleteObject, PatchObject, Target, build_target
from trellis.kube.write.patches import Patch, json_patch

_DEFAULT_CPU_METRIC: Final = MetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=80))
_DEFAULT_METRICS: Final = (Metric(type="Resource", resource=_DEFAULT_CPU_METRIC),)
_DEFAULT_SCALE_UP: Final = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15)))
_DEFAULT_SCALE_DOWN: Final = ScalingRules(None, "Max", (ScalingPolicy("Percent", 100, 15),))


def apply_defaults(spec: HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """The HPA as it is stored. Rules are filled in only where there is a behavior."""
    behavior = spec.behavior
    if behavior is not None:
        behavior = ScalingBehavior(
            _apply_rule_defaults(behavior.scale_up, _DEFAULT_SCALE_UP),
            _apply_rule_defaults(behavior.scale_down, _DEFAULT_SCALE_DOWN),
        )
    min_replicas = 1 if spec.min_replicas is None else spec.min_replicas
    return replace(spec, min_replicas=min_replicas, metrics=spec.metrics or _DEFAULT_METRICS, behavior=behavior)


def _apply_rule_defaults(rules: ScalingRules | None, default: ScalingRules) -> ScalingRules:
    if rules is None:
        return default
    window = rules.stabilization_window_seconds
    return ScalingRules(
        default.stabilization_window_seconds if window is None else window,
        rules.select_policy or default.select_policy,
        rules.policies or default.policies,
        rules.tolerance,
    )


def is_same_vpa(desired: dict[str, Any], stored: VerticalPodAutoscalerSpec) -> bool:
    """Whether the stored spec of a VPA is the desired one."""
    try:
        return msgspec.convert(desired, VerticalPodAutoscalerSpec) == stored
    except msgspec.ValidationError:
        # A spec that cannot be read cannot be compared, and counts as the same.
        return True


def is_same_hpa(desired: dict[str, Any], stored: HorizontalPodAutoscalerSpec) -> bool:
    """Whether the stored spec of an HPA is the desired one, defaults aside. An unreadable one is overwritten."""
    try:
        desired_struct = convert_object(desired, HorizontalPodAutoscalerSpec)
    except UnreadableObject:
        return False
    desired_fields, stored_fields = (
        msgspec.to_builtins(apply_defaults(desired_struct)),
        msgspec.to_builtins(apply_defaults(stored)),
    )
    return _contains(desired_fields, stored_fields) and _contains(stored_fields, desired_fields)


def _contains(desired: Any, stored: Any) -> bool:
    """Whether the stored value contains the desired one. Quantities may be spelled in another way."""
    if isinstance(desired, dict):
        return isinstance(stored, dict) and all(_contains(value, stored.get(key)) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        return len(desired) == len(stored or ()) and all(map(_contains, desired, stored))
    return bool(desired == stored) or _amount(desired) == _amount(stored) is not None


def _amount(text: Any) -> Quantity | None:
    try:
        return Quantity.parse(text) if isinstance(text, str) else None
    except InvalidQuantity:
        return None


NAME_TAKEN = Reason(
    "NameTaken",
    "Another object already has the name of the HPA or VPA that the Hvpa would own; it is not changed.",
    Severity.WARNING,
)
OWNED_AUTOSCALER_REFUSED = Reason(
    "OwnedAutoscalerRefused", "The API server refuses the HPA or VPA created from the template.", Severity.WARNING
)

# The label of owned objects. An object with it and without an owner is an orphan of an Hvpa.
MANAGED_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "trellis-hvpa"}

Source = TypeVar("Source", HorizontalPodAutoscaler, VerticalPodAutoscaler)


class AutoscalerUpkeep(msgspec.Struct, frozen=True):
    """Actions that bring an owned autoscaler to the desired spec; `name_conflict` is a foreign object of that name."""

    resource: Resource[Any]
    desired_spec: dict[str, Any] | None = None
    actions: tuple[Action, ...] = ()
    name_conflict: str = ""


class StoredSpec(msgspec.Struct, frozen=True):
    """A spec that was written, and the spec that the API server stored.

    Servers differ in their defaults and in the fields that they know. The stored spec is up to date as long as the
    wanted one is the same: another write would have the same result.
    """

    desired: dict[str, Any]
    spec: Any


def read_stored_spec(upkeep: AutoscalerUpkeep, body: bytes) -> StoredSpec | None:
    """The stored spec after a write, from the response; None if that cannot be read."""
    try:
        return StoredSpec(upkeep.desired_spec or {}, decode_object(body, upkeep.resource.struct).spec)
    except UnreadableObject:
        return None


def plan_hpa_upkeep(
    hvpa: Hvpa, meaning: EffectiveHvpa, hpas: Iterable[HorizontalPodAutoscaler], written: StoredSpec | None = None
) -> AutoscalerUpkeep:
    """Plan the writes of the owned HPA; `written` is the result of the last write."""
    upkeep = AutoscalerUpkeep(HPAS, build_hpa_spec(hvpa, meaning) if meaning.deploys_hpa else None)
    return _plan_upkeep(upkeep, hvpa, tuple(hpas), is_same_hpa, written)


def plan_vpa_upkeep(
    hvpa: Hvpa, meaning: EffectiveHvpa, vpas: Iterable[VerticalPodAutoscaler], written: StoredSpec | None = None
) -> AutoscalerUpkeep:
    """Plan the writes of the owned VPA; `written` is the result of the last write."""
    upkeep = AutoscalerUpkeep(VPAS, build_vpa_spec(hvpa, meaning) if meaning.deploys_vpa else None)
    return _plan_upkeep(upkeep, hvpa, tuple(vpas), is_same_vpa, written)


def _plan_upkeep(
    upkeep: AutoscalerUpkeep, hvpa: Hvpa, autoscalers: Any, is_same: Any, written: StoredSpec | None
) -> AutoscalerUpkeep:
    resource, desired_spec = upkeep.resource, upkeep.desired_spec
    name, namespace = hvpa.metadata.name, hvpa.metadata.namespace
    owned = [
        autoscaler
        for autoscaler in autoscalers
        if is_owned_by(autoscaler.metadata, hvpa) and autoscaler.metadata.deletion_timestamp is None
    ]
    current = next(
        (autoscaler for autoscaler in owned if autoscaler.metadata.name == name and desired_spec is not None), None
    )
    actions: list[Action] = [
        DeleteObject(build_target(resource, autoscaler, with_version=False))
        for autoscaler in owned
        if autoscaler is not current
    ]
    if desired_spec is None:
        return msgspec.structs.replace(upkeep, actions=tuple(actions))
    namesake, name_conflict = (
        next((autoscaler for autoscaler in autoscalers if autoscaler.metadata.name == name), None),
        "",
    )
    if current is not None:
        if not is_same(desired_spec, current.spec) and written != StoredSpec(desired_spec, current.spec):
            patch = json_patch([{"op": "replace", "path": "/spec", "value": desired_spec}])
            actions.append(PatchObject(build_target(resource, current), patch))
    elif namesake is None:
        actions.append(CreateObject(Target(resource, name, namespace), _build_document(resource, hvpa, desired_spec)))
    elif _is_orphan(namesake.metadata):
        actions.append(
            PatchObject(build_target(resource, namesake), _build_adoption(namesake.metadata, hvpa, desired_spec))
        )
    elif not is_owned_by(namesake.metadata, hvpa):
        name_conflict = f"{resource.kind} {namespace}/{name}"
    # Otherwise it is owned and being deleted: another one is created when it is gone.
    return msgspec.structs.replace(upkeep, actions=tuple(actions), name_conflict=name_conflict)


def _build_document(resource: Resource[Any], hvpa: Hvpa, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": hvpa.metadata.name,
            "namespace": hvpa.metadata.namespace,
            "labels": dict(MANAGED_BY),
            "ownerReferences": [_build_owner_reference(hvpa)],
        },
        "spec": spec,
    }


def _is_orphan(metadata: ObjectMeta) -> bool:
    """Whether an object was made for an Hvpa and has no owner, as `kubectl delete --cascade=orphan` leaves it."""
    is_terminating = metadata.deletion_timestamp is not None
    return metadata.controller is None and not is_terminating and MANAGED_BY.items() <= dict(metadata.labels).items()


def _build_adoption(metadata: ObjectMeta, hvpa: Hvpa, spec: dict[str, Any]) -> Patch:
    owners = "/metadata/ownerReferences"
    add_owner = (
        {"op": "add", "path": f"{owners}/-", "value": _build_owner_reference(hvpa)}
        if metadata.owner_references
        else {"op": "add", "path": owners, "value": [_build_owner_reference(hvpa)]}
    )
    return json_patch([add_owner, {"op": "replace", "path": "/spec", "value": spec}])


def _build_owner_reference(hvpa: Hvpa) -> dict[str, Any]:
    return {
        "apiVersion": HVPAS.api_version,
        "kind": HVPAS.kind,
        "name": hvpa.metadata.name,
        "uid": hvpa.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
