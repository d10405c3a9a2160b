"""How is a CapacityBuffer given up that was kept for a Buffer? It is deleted, and the Buffer no longer tells of it.

Else whoever read it would go on to keep room that somebody else keeps by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from trellis.api.buffer import Buffer
from trellis.api.kube.meta import KubeObject
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.controllers.buffers.capacity_watching import VERSIONS
from trellis.controllers.buffers.owned import RETRY_SECONDS, is_owned
from trellis.controllers.buffers.translated_condition import condition_in, no_condition_action
from trellis.core.buffers import Translation
from trellis.core.buffers.elsewhere import template_name
from trellis.core.model.keys import Key
from trellis.kube.actions import DeleteObject, target_of
from trellis.kube.client import Client
from trellis.kube.outcomes import Result
from trellis.kube.resources import POD_TEMPLATES, Resource
from trellis.kube.writer import Writer

# Who may not write, by its settings, has nothing to try again.
_DONE: Final = (Result.APPLIED, Result.GONE, Result.SKIPPED)

T = TypeVar("T", bound=KubeObject)


async def withdraw(
    writer: Writer, buffer: Buffer, found: Iterable[tuple[Resource[Any], KubeObject | None]]
) -> float | None:
    """Delete of these what the Buffer owns, then its condition; in how many seconds to try again, if that failed."""
    for resource, each in found:
        if each is not None and is_owned(each, buffer.metadata.uid):
            outcome = await writer.write(DeleteObject(target_of(resource, each, at_this_version=False)))
            if outcome.result not in _DONE:
                return RETRY_SECONDS
    if condition_in(buffer) is None:
        return None
    outcome = await writer.write(no_condition_action(buffer))
    return None if outcome.result in _DONE else RETRY_SECONDS


class Withdrawing:
    """What is done where Buffers are not translated: what was kept at a time when they were is given up."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client = client
        self._writer = writer

    async def keep(self, buffer: Buffer, _settled: Translation) -> float | None:
        """Keep nothing. Only a Buffer that tells of a CapacityBuffer costs anything."""
        return await self.leave(buffer)

    async def leave(self, buffer: Buffer) -> float | None:
        """The same for one that is none of ours."""
        if condition_in(buffer) is None:
            return None
        namespace, name = buffer.metadata.namespace, buffer.metadata.name
        try:
            # The kind may have come, gone and changed its version since: it is asked for in each.
            found = [(each, await self._find(each, name, namespace)) for each in VERSIONS]
            template = await self._find(POD_TEMPLATES, template_name(name), namespace)
        except (KubeError, UnreadableObject):
            return RETRY_SECONDS
        capacity = next((each for each in found if each[1] is not None), found[0])
        return await withdraw(self._writer, buffer, (capacity, (POD_TEMPLATES, template)))

    def forget(self, key: Key) -> None:
        """There is nothing to forget."""

    def begin_anew(self) -> None:
        """There is nothing to forget."""

    async def _find(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
