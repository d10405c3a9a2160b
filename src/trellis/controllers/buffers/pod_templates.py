"""Does a PodTemplate hold the chunk that it is kept for?

It is read as the API server stores it, with quantities in its own spelling and what it fills in, and compared by what
scheduling reads of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import OwnerReference
from trellis.api.kube.pods import PodSpec, PodTemplate, PodTemplateSpec
from trellis.api.kube.slices import Quantities
from trellis.base.errors import InvalidQuantity, UnreadableObject
from trellis.base.quantity import Quantity
from trellis.controllers.buffers.owned import Kept, is_owned, keep
from trellis.core.buffers.pod_specs import scheduled_part
from trellis.kube.actions import Target
from trellis.kube.resources import POD_TEMPLATES
from trellis.kube.writer import Writer

_SCHEDULER: Final = "default-scheduler"


async def keep_template(
    writer: Writer, found: PodTemplate | None, owner: OwnerReference, namespace: str, document: Mapping[str, Any]
) -> Kept[PodTemplate]:
    """Have the template that this document describes; `found` is what has its name."""
    wanted: Mapping[str, Any] = document["template"]
    if found is not None and is_owned(found, owner.uid) and holds(found.template, wanted):
        return Kept(found)
    target = Target(POD_TEMPLATES, document["metadata"]["name"], namespace)
    return await keep(writer, found, owner, target, {"template": wanted})


def holds(found: PodTemplateSpec, wanted: Mapping[str, Any]) -> bool:
    """Whether a stored template says what is wanted of it."""
    try:
        ours = convert_object(dict(wanted), PodTemplateSpec)
    except UnreadableObject:
        return False
    return found.metadata.labels == ours.metadata.labels and _told(found.spec) == _told(ours.spec)


def _told(spec: PodSpec) -> PodSpec:
    """What scheduling reads, with each amount and each default in one spelling."""
    part = scheduled_part(spec)
    return msgspec.structs.replace(
        part,
        containers=tuple(map(_plain, part.containers)),
        init_containers=tuple(map(_plain, part.init_containers)),
        scheduler_name=part.scheduler_name or _SCHEDULER,
        overhead=_amounts(part.overhead),
        resources=None if part.resources is None else Resources(requests=_amounts(part.resources.requests)),
    )


def _plain(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=Resources(requests=_amounts(container.resources.requests)))


def _amounts(quantities: Quantities) -> dict[str, str]:
    return {name: _spelled(text) for name, text in quantities.items()}


def _spelled(text: str) -> str:
    try:
        return str(Quantity.parse(text).nanos)
    except InvalidQuantity:
        return text
