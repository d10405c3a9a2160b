"""How many pods does a target have, which are they, and what are they made from?

A well-known workload is seen by a watch. A kind that another package knows is read and given to it. Of any other kind
the scale is asked, and that says nothing of a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.counted_workloads import CountedReplicationController, CountedWorkload
from trellis.api.kube.meta import KubeObject
from trellis.base.errors import InvalidSelector, KubeError, NotFound, UnreadableObject
from trellis.base.selectors import Selector, parse_selector, selector_from_object
from trellis.controllers.buffers.keeping import Shown
from trellis.controllers.buffers.slimming import AnyCounted
from trellis.controllers.buffers.target_plugins import GroupKind, group_kind
from trellis.core.buffers import TargetKind, TargetReading
from trellis.core.buffers.target_kinds import TARGET_UNREADABLE, not_scalable
from trellis.core.model.owners import ScaleAnswer, TargetRef, missing
from trellis.core.model.selection import selector_of
from trellis.core.model.target_problems import (
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_SELECTS_NOTHING,
    TargetProblem,
    reason_of,
    unread,
)
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.requests import build_get
from trellis.kube.resources import Resource
from trellis.kube.scalable_kinds import LookupTimes, ScalableKinds
from trellis.runtime.logs import Logger

# A kind that is not there may be installed at any moment, by whoever has just created the Buffer.
_RETRY_SECONDS: Final = 10.0
_JOB: Final = "Job"

_log: Final = Logger("trellis.buffers")


class Counted(msgspec.Struct, frozen=True):
    """What is known of a target's pods. `resource` is set if its template has to be read, `template` if it has been.

    `scale` is what owners are found by, for kinds that are not followed.
    """

    replicas: int | None
    selector: Selector
    read: tuple[str, int]
    resource: Resource[Any] | None = None
    template: Mapping[str, Any] | None = None
    scale: ScaleAnswer | None = None


class Counting:
    """Counts. A problem is an answer too."""

    def __init__(
        self, client: Client, workloads: Mapping[str, Informer[Any]], kinds: Mapping[GroupKind, TargetKind]
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._kinds = kinds
        self._scalable = ScalableKinds(client, LookupTimes(retry=_RETRY_SECONDS))

    async def count(self, target: TargetRef, known: Shown) -> Counted | TargetProblem:
        """What a target says, or why that is not known."""
        try:
            found = await self._count(target, known)
        except NotFound as error:
            return unread(reason_of(error), missing(target))
        except (KubeError, UnreadableObject) as error:
            return unread(reason_of(error), str(error))
        except InvalidSelector as error:
            return unread(reason_of(error), f"the selector of {target}: {error}")
        if isinstance(found, Counted) and (found.selector.selects_nothing or not found.selector.requirements):
            return unread(TARGET_SELECTS_NOTHING, f"{target} has no selector, or an empty one")
        return found

    async def _count(self, target: TargetRef, known: Shown) -> Counted | TargetProblem:
        kind = self._kinds.get(group_kind(target.api_version, target.kind))
        if kind is not None:
            return await self._read(target, kind)
        informer = self._workloads.get(target.kind) if target.is_well_known else None
        if informer is not None:
            return _seen(target, informer, known)
        return await self._scale(target)

    async def _read(self, target: TargetRef, kind: TargetKind) -> Counted | TargetProblem:
        group, _, version = kind.api_version.rpartition("/")
        resource = Resource(group, version, kind.plural, kind.kind, True, KubeObject)
        response = await self._client.send(build_get(resource, target.name, target.namespace))
        document = msgspec.json.decode(response.body, type=dict[str, Any])
        try:
            reading = _read_by(kind, document)
        except Exception as error:  # noqa: BLE001 - somebody else's code: one target it cannot read is one Buffer's
            _log.warning("a target cannot be read", target=target, error=error)
            return unread(TARGET_UNREADABLE, f"{target.kind} {target.name}: {error!r}")
        metadata = document.get("metadata", {})
        return Counted(
            reading.replicas,
            reading.selector,
            (metadata.get("uid", ""), metadata.get("generation", 0)),
            template=reading.template,
            scale=ScaleAnswer(str(reading.selector)),
        )

    async def _scale(self, target: TargetRef) -> Counted | TargetProblem:
        found = await self._scalable.read(target)
        if isinstance(found, TargetProblem):
            return not_scalable(target.kind) if found.reason is TARGET_NOT_SCALABLE else found
        scale = found.scale
        text = scale.status.selector
        selector = parse_selector(text) if text else Selector.nothing()
        answer = ScaleAnswer(text, scale.metadata.controller)
        return Counted(scale.status.replicas, selector, (scale.metadata.uid, 0), scale=answer)


def _read_by(kind: TargetKind, document: Mapping[str, Any]) -> TargetReading:
    """What a kind makes of an object. Nobody has checked the types of other packages."""
    return msgspec.convert(msgspec.structs.asdict(kind.read(document)), TargetReading)


def _seen(target: TargetRef, informer: Informer[Any], known: Shown) -> Counted | TargetProblem:
    found: AnyCounted | None = informer.get(target.namespace, target.name)
    if found is None:
        return unread(TARGET_NOT_FOUND, missing(target))
    if known.selection is None or known.selection[0] is not found:
        known.selection = (found, _selector(found))
    count = found.status.replicas
    if isinstance(found, CountedWorkload) and target.kind == _JOB:
        count = 1 if found.spec.parallelism is None else found.spec.parallelism
    read = (found.metadata.uid, found.metadata.generation)
    return Counted(count, known.selection[1], read, resource=informer.resource)


def _selector(found: AnyCounted) -> Selector:
    if isinstance(found, CountedReplicationController):
        return selector_from_object(found.spec.selector)
    return selector_of(found.spec.selector)
