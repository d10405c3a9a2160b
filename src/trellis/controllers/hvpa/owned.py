"""What is the HPA, and what the VPA, that an Hvpa owns, and what has to be done for them to be so?

Both have the Hvpa's name, and the Hvpa as their controller. What an Hvpa before it has left behind becomes its own;
whatever else has that name stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.decode import decode_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.resolve import EffectiveHvpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import UnreadableObject
from trellis.base.reason import Reason, Severity
from trellis.controllers.hvpa.sameness import is_same_hpa, is_same_vpa
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
    """What is to be done for a spec that is wanted, and what is in the way of it."""

    resource: Resource[Any]
    wanted: dict[str, Any] | None = None
    actions: tuple[Action, ...] = ()
    taken: str = ""


class Made(msgspec.Struct, frozen=True):
    """A spec that was written, and what the server made of it.

    Servers differ in what they fill in and in the fields that they know. What comes of a write is right for as long as
    nothing else is wanted: written again, it would come to the same.
    """

    wanted: dict[str, Any]
    spec: Any


def made_of(upkeep: Upkeep, body: bytes) -> Made | None:
    """What the server made of a write, by its answer; None if that cannot be told."""
    try:
        return Made(upkeep.wanted or {}, decode_object(body, upkeep.resource.struct).spec)
    except UnreadableObject:
        return None


def hpa_upkeep(
    hvpa: Hvpa, meaning: EffectiveHvpa, hpas: Iterable[HorizontalPodAutoscaler], made: Made | None = None
) -> Upkeep:
    """What has to be done about HPAs; `made` is what became of the last write."""
    upkeep = Upkeep(HPAS, hpa_spec(hvpa, meaning) if meaning.deploys_hpa else None)
    return _upkeep(upkeep, hvpa, tuple(hpas), is_same_hpa, made)


def vpa_upkeep(
    hvpa: Hvpa, meaning: EffectiveHvpa, vpas: Iterable[VerticalPodAutoscaler], made: Made | None = None
) -> Upkeep:
    """What has to be done about VPAs."""
    upkeep = Upkeep(VPAS, vpa_spec(hvpa, meaning) if meaning.deploys_vpa else None)
    return _upkeep(upkeep, hvpa, tuple(vpas), is_same_vpa, made)


def _upkeep(upkeep: Upkeep, hvpa: Hvpa, found: Any, same: Any, made: Made | None) -> Upkeep:
    resource, wanted = upkeep.resource, upkeep.wanted
    name, namespace = hvpa.metadata.name, hvpa.metadata.namespace
    ours = [each for each in found if is_owned(each.metadata, hvpa) and each.metadata.deletion_timestamp is None]
    kept = next((each for each in ours if each.metadata.name == name and wanted is not None), None)
    actions: list[Action] = [
        DeleteObject(target_of(resource, each, at_this_version=False)) for each in ours if each is not kept
    ]
    if wanted is None:
        return msgspec.structs.replace(upkeep, actions=tuple(actions))
    namesake, taken = next((each for each in found if each.metadata.name == name), None), ""
    if kept is not None:
        if not same(wanted, kept.spec) and made != Made(wanted, kept.spec):
            patch = json_patch([{"op": "replace", "path": "/spec", "value": wanted}])
            actions.append(PatchObject(target_of(resource, kept), patch))
    elif namesake is None:
        actions.append(CreateObject(Target(resource, name, namespace), _document(resource, hvpa, wanted)))
    elif _is_orphan(namesake.metadata):
        actions.append(PatchObject(target_of(resource, namesake), _adoption(namesake.metadata, hvpa, wanted)))
    elif not is_owned(namesake.metadata, hvpa):
        taken = f"{resource.kind} {namespace}/{name}"
    # Else it is its own, and on its way out: another one is made when it is gone.
    return msgspec.structs.replace(upkeep, actions=tuple(actions), taken=taken)


def _document(resource: Resource[Any], hvpa: Hvpa, wanted: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": hvpa.metadata.name,
            "namespace": hvpa.metadata.namespace,
            "labels": dict(MANAGED_BY),
            "ownerReferences": [_owner(hvpa)],
        },
        "spec": wanted,
    }


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
