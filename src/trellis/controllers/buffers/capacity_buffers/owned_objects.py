"""Creates and corrects the objects that a Buffer or CapacityBuffer owns, PodTemplates among them.

The buffer is the controller of the object, so that it is deleted with the buffer. An object of the same name that is
not owned stays as it is. A PodTemplate is compared by what scheduling reads of it, because the API server stores
quantities in its own spelling and adds defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.api.kube.pods import Container, PodSpec, PodTemplate, PodTemplateSpec, ResourceRequirements
from trellis.api.kube.slices import Quantities
from trellis.base.errors import InvalidQuantity, UnreadableObject
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason, Severity
from trellis.core.buffers import DetailedReason
from trellis.core.buffers.pods import select_scheduling_fields
from trellis.core.cluster.store import AnyObject
from trellis.kube.resources import POD_TEMPLATES, Resource
from trellis.kube.write.actions import Action, CreateObject, PatchObject, Target, build_target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import json_patch
from trellis.kube.write.writer import Writer

OWNED_NAME_TAKEN = Reason(
    "OwnedNameTaken",
    "Another object already has the name of an object that the Buffer would own; it is not changed.",
    Severity.WARNING,
)
OWNED_REFUSED = Reason(
    "OwnedObjectRefused", "The API server refuses an object that the Buffer would own.", Severity.WARNING
)

# The label that selects all objects that are managed for buffers.
MANAGED_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "trellis-buffers"}

# The delays of retries: after a failed write, after a refusal, and after a conflict.
RETRY_SECONDS: Final = 5.0
REFUSED_SECONDS: Final = 60.0
CONFLICT_SECONDS: Final = 0.2

O = TypeVar("O", bound=KubeObject)  # noqa: E741 - an object


class OwnedObjectResult(msgspec.Struct, Generic[O], frozen=True):
    """The object if it is up to date, the problem with it, or in how many seconds to try again.

    If all are None, the object was written, and the watch is about to report it.
    """

    current: O | None = None
    problem: DetailedReason | None = None
    retry: float | None = None


def build_owner_reference(resource: Resource[Any], owner: AnyObject) -> OwnerReference:
    """The owner reference in the metadata of owned objects."""
    metadata = owner.metadata
    return OwnerReference(resource.api_version, resource.kind, metadata.name, metadata.uid, controller=True)


def is_owned(owned: AnyObject, uid: str) -> bool:
    """Whether the controller of an object has this UID; a name may be used again."""
    controller = owned.metadata.controller
    return controller is not None and controller.uid == uid


async def ensure_object(
    writer: Writer, existing: O | None, owner: OwnerReference, target: Target, part: Mapping[str, Any]
) -> OwnedObjectResult[O]:
    """Create or patch the object `target`. `part` is the field to write, such as `spec`.

    The caller has checked that the field of `existing` differs.
    """
    action = _build_action(existing, owner, target, part)
    if isinstance(action, DetailedReason):
        return OwnedObjectResult(problem=action)
    outcome = await writer.write(action)
    match outcome.result:
        case Result.APPLIED if existing is not None and outcome.resource_version == existing.metadata.resource_version:
            # The server has changed nothing: only spellings differed.
            return OwnedObjectResult(existing)
        case Result.APPLIED | Result.SKIPPED:
            return OwnedObjectResult()
        case Result.CONFLICT | Result.GONE:
            return OwnedObjectResult(retry=CONFLICT_SECONDS)
        case Result.FAILED | Result.THROTTLED:
            return OwnedObjectResult(retry=RETRY_SECONDS)
        case _:
            return OwnedObjectResult(problem=DetailedReason(OWNED_REFUSED, f"{target}: {outcome.message}"))


def _build_action(
    existing: KubeObject | None, owner: OwnerReference, target: Target, part: Mapping[str, Any]
) -> Action | DetailedReason:
    resource = target.resource
    if existing is None:
        metadata = {
            "name": target.name,
            "namespace": target.namespace,
            "labels": MANAGED_BY,
            "ownerReferences": [msgspec.to_builtins(owner)],
        }
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **part}
        return CreateObject(target, document)
    if not is_owned(existing, owner.uid):
        return DetailedReason(OWNED_NAME_TAKEN, f"{resource.kind} {target.name} has another owner")
    changes = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in part.items()]
    return PatchObject(build_target(resource, existing), json_patch(changes))


_SCHEDULER: Final = "default-scheduler"


async def ensure_template(
    writer: Writer, existing: PodTemplate | None, owner: OwnerReference, namespace: str, document: Mapping[str, Any]
) -> OwnedObjectResult[PodTemplate]:
    """Create or patch the template of this document; `existing` is the object with its name."""
    template: Mapping[str, Any] = document["template"]
    if existing is not None and is_owned(existing, owner.uid) and template_matches(existing.template, template):
        return OwnedObjectResult(existing)
    target = Target(POD_TEMPLATES, document["metadata"]["name"], namespace)
    return await ensure_object(writer, existing, owner, target, {"template": template})


def template_matches(stored: PodTemplateSpec, document: Mapping[str, Any]) -> bool:
    """Whether a stored template agrees with this document in all that scheduling reads."""
    try:
        expected = convert_object(dict(document), PodTemplateSpec)
    except UnreadableObject:
        return False
    return stored.metadata.labels == expected.metadata.labels and _comparable_spec(stored.spec) == _comparable_spec(
        expected.spec
    )


def _comparable_spec(spec: PodSpec) -> PodSpec:
    """The fields that scheduling reads, with each amount and each default in one spelling."""
    part = select_scheduling_fields(spec)
    return msgspec.structs.replace(
        part,
        containers=tuple(map(_comparable_container, part.containers)),
        init_containers=tuple(map(_comparable_container, part.init_containers)),
        scheduler_name=part.scheduler_name or _SCHEDULER,
        overhead=_comparable_quantities(part.overhead),
        resources=None
        if part.resources is None
        else ResourceRequirements(requests=_comparable_quantities(part.resources.requests)),
    )


def _comparable_container(container: Container) -> Container:
    return msgspec.structs.replace(
        container, resources=ResourceRequirements(requests=_comparable_quantities(container.resources.requests))
    )


def _comparable_quantities(quantities: Quantities) -> dict[str, str]:
    return {name: _comparable_quantity(text) for name, text in quantities.items()}


def _comparable_quantity(text: str) -> str:
    try:
        return str(Quantity.parse(text).nanos)
    except InvalidQuantity:
        return text
