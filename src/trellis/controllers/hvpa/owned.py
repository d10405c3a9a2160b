"""What is the HPA, and what the VPA, that an Hvpa owns, and what has to be done for them to be so?

Both have the Hvpa's name, and the Hvpa as their controller. What an Hvpa before it has left behind becomes its own;
whatever else has that name stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec
from trellis.api.resolve import EffectiveHvpa
from trellis.api.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerSpec
from trellis.base.errors import InvalidQuantity, UnreadableObject
from trellis.base.quantity import Quantity
from trellis.base.reason import Reason, Severity
from trellis.controllers.hvpa.hpa_defaults import completed
from trellis.core.hvpa.sources import hpa_spec, vpa_spec
from trellis.core.hvpa.surroundings import is_owned
from trellis.kube.actions import Action, CreateObject, DeleteObject, PatchObject, Target, target_of
from trellis.kube.patches import Patch, json_patch
from trellis.kube.resources import HPAS, HVPAS, VPAS, Resource

NAME_TAKEN = Reason(
    "NameTaken",
    "Another object has the name that the Hvpa's own HPA or VPA would have; it is left as it is.",
    Severity.WARNING,
)
SOURCE_REFUSED = Reason(
    "SourceRefused", "The API server refuses the HPA or VPA that is made from the template.", Severity.WARNING
)

# On what is made here. Without an owner it is an orphan of an Hvpa, and not somebody else's.
MANAGED_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "trellis-hvpa"}

Source = TypeVar("Source", HorizontalPodAutoscaler, VerticalPodAutoscaler)


class Upkeep(msgspec.Struct, frozen=True):
    """What is to be done, and what is in the way of it."""

    actions: tuple[Action, ...] = ()
    taken: str = ""


def hpa_upkeep(hvpa: Hvpa, meaning: EffectiveHvpa, hpas: Iterable[HorizontalPodAutoscaler]) -> Upkeep:
    """What has to be done about HPAs."""
    wanted = hpa_spec(hvpa, meaning) if meaning.deploys_hpa else None
    return _upkeep(HPAS, hvpa, wanted, tuple(hpas), _same_hpa)


def vpa_upkeep(hvpa: Hvpa, meaning: EffectiveHvpa, vpas: Iterable[VerticalPodAutoscaler]) -> Upkeep:
    """What has to be done about VPAs."""
    wanted = vpa_spec(hvpa, meaning) if meaning.deploys_vpa else None
    return _upkeep(VPAS, hvpa, wanted, tuple(vpas), _same_vpa)


def _upkeep(resource: Resource[Any], hvpa: Hvpa, wanted: dict[str, Any] | None, found: Any, same: Any) -> Upkeep:
    name, namespace = hvpa.metadata.name, hvpa.metadata.namespace
    ours = [each for each in found if is_owned(each.metadata, hvpa) and each.metadata.deletion_timestamp is None]
    kept = next((each for each in ours if each.metadata.name == name and wanted is not None), None)
    actions: list[Action] = [
        DeleteObject(target_of(resource, each, at_this_version=False)) for each in ours if each is not kept
    ]
    if wanted is None:
        return Upkeep(tuple(actions))
    if kept is not None:
        if not same(wanted, kept.spec):
            patch = json_patch([{"op": "replace", "path": "/spec", "value": wanted}])
            actions.append(PatchObject(target_of(resource, kept), patch))
        return Upkeep(tuple(actions))
    namesake = next((each for each in found if each.metadata.name == name), None)
    if namesake is not None and _is_orphan(namesake.metadata):
        return Upkeep(
            (*actions, PatchObject(target_of(resource, namesake), _adoption(namesake.metadata, hvpa, wanted)))
        )
    if namesake is not None:
        return Upkeep(tuple(actions), f"{resource.kind} {namespace}/{name}")
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
            "ownerReferences": [_owner(hvpa)],
        },
        "spec": wanted,
    }
    return Upkeep((*actions, CreateObject(Target(resource, name, namespace), document)))


def _is_orphan(metadata: ObjectMeta) -> bool:
    """Whether an Hvpa made an object that nobody has any more, as `kubectl delete --cascade=orphan` leaves it."""
    is_going = metadata.deletion_timestamp is not None
    return metadata.controller is None and not is_going and MANAGED_BY.items() <= dict(metadata.labels).items()


def _adoption(metadata: ObjectMeta, hvpa: Hvpa, wanted: dict[str, Any]) -> Patch:
    owners = "/metadata/ownerReferences"
    owned = (
        {"op": "add", "path": f"{owners}/-", "value": _owner(hvpa)}
        if metadata.owner_references
        else {"op": "add", "path": owners, "value": [_owner(hvpa)]}
    )
    return json_patch([owned, {"op": "replace", "path": "/spec", "value": wanted}])


def _owner(hvpa: Hvpa) -> dict[str, Any]:
    return {
        "apiVersion": HVPAS.api_version,
        "kind": HVPAS.kind,
        "name": hvpa.metadata.name,
        "uid": hvpa.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _same_vpa(wanted: dict[str, Any], found: VerticalPodAutoscalerSpec) -> bool:
    try:
        return msgspec.convert(wanted, VerticalPodAutoscalerSpec) == found
    except msgspec.ValidationError:
        # Nobody can read it, and so nobody can say that it differs.
        return True


def _same_hpa(wanted: dict[str, Any], found: HorizontalPodAutoscalerSpec) -> bool:
    """What the API server fills in is no difference, and what nobody can read is for it to refuse."""
    try:
        ours = convert_object(wanted, HorizontalPodAutoscalerSpec)
    except UnreadableObject:
        return False
    one, other = msgspec.to_builtins(completed(ours)), msgspec.to_builtins(completed(found))
    return _holds(one, other) and _holds(other, one)


def _holds(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is there. Quantities may be spelled in another way."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return len(wanted) == len(found or ()) and all(map(_holds, wanted, found))
    return bool(wanted == found) or _amount(wanted) == _amount(found) is not None


def _amount(text: Any) -> Quantity | None:
    try:
        return Quantity.parse(text) if isinstance(text, str) else None
    except InvalidQuantity:
        return None
