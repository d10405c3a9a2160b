"""What is an object that a buffer owns, and what has to be done for it to be so?

The buffer is its controller, so that it goes with it. Whatever else has its name stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.base.reason import Reason, Severity
from trellis.core.buffers import Said
from trellis.core.model.keys import AnyObject
from trellis.kube.actions import Action, CreateObject, PatchObject, Target, target_of
from trellis.kube.outcomes import Result
from trellis.kube.patches import json_patch
from trellis.kube.resources import Resource
from trellis.kube.writer import Writer

OWNED_NAME_TAKEN = Reason(
    "OwnedNameTaken",
    "Another object has the name that one of the buffer's own would have; it is left as it is.",
    Severity.WARNING,
)
OWNED_REFUSED = Reason(
    "OwnedObjectRefused", "The API server refuses an object that the buffer would own.", Severity.WARNING
)

# By this people find, and if they like delete, what is kept for buffers.
MANAGED_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "trellis-buffers"}

# A write that failed is tried again after so long, one that was refused later, and one that came too late at once.
RETRY_SECONDS: Final = 5.0
REFUSED_SECONDS: Final = 60.0
CONFLICT_SECONDS: Final = 0.2

O = TypeVar("O", bound=KubeObject)  # noqa: E741 - an object


class Kept(msgspec.Struct, Generic[O], frozen=True):
    """What came of it: the object once it is known to be as it should, what is wrong with it, or when to try again.

    None of them means that it was written, and that the watch is about to show it.
    """

    found: O | None = None
    problem: Said | None = None
    retry: float | None = None


def owner_of(resource: Resource[Any], owner: AnyObject) -> OwnerReference:
    """The owner as what it owns refers to it."""
    metadata = owner.metadata
    return OwnerReference(resource.api_version, resource.kind, metadata.name, metadata.uid, controller=True)


def is_owned(found: AnyObject, uid: str) -> bool:
    """Whether it belongs to the object with this UID; a name may be used again."""
    controller = found.metadata.controller
    return controller is not None and controller.uid == uid


async def keep(
    writer: Writer, found: O | None, owner: OwnerReference, wanted: Target, part: Mapping[str, Any]
) -> Kept[O]:
    """Have the object that is `wanted` say this. `part` is what matters of it: one field, such as `spec`.

    Who calls this has seen that it says something else.
    """
    action = _action(found, owner, wanted, part)
    if isinstance(action, Said):
        return Kept(problem=action)
    outcome = await writer.write(action)
    match outcome.result:
        case Result.APPLIED if found is not None and outcome.resource_version == found.metadata.resource_version:
            # The server has changed nothing: only the spelling was another.
            return Kept(found)
        case Result.APPLIED | Result.SKIPPED:
            return Kept()
        case Result.CONFLICT | Result.GONE:
            return Kept(retry=CONFLICT_SECONDS)
        case Result.FAILED | Result.THROTTLED:
            return Kept(retry=RETRY_SECONDS)
        case _:
            return Kept(problem=Said(OWNED_REFUSED, f"{wanted}: {outcome.message}"))


def _action(found: KubeObject | None, owner: OwnerReference, wanted: Target, part: Mapping[str, Any]) -> Action | Said:
    resource = wanted.resource
    if found is None:
        metadata = {
            "name": wanted.name,
            "namespace": wanted.namespace,
            "labels": MANAGED_BY,
            "ownerReferences": [msgspec.to_builtins(owner)],
        }
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **part}
        return CreateObject(wanted, document)
    if not is_owned(found, owner.uid):
        return Said(OWNED_NAME_TAKEN, f"{resource.kind} {wanted.name} belongs to somebody else")
    changes = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in part.items()]
    return PatchObject(target_of(resource, found), json_patch(changes))
