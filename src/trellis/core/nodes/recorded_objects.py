"""How is an object written down that is seen again and again? As it is, or its version alone where nothing else is new.

Of a Buffer only that part is there which is read: no environments, no commands.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from trellis.api.buffer import Buffer, BufferSpec, BufferStatus
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import DaemonSet
from trellis.base.errors import InvalidRecording
from trellis.core.buffers.recorded import read_part
from trellis.core.model.keys import Key

T = TypeVar("T", Node, Pod, Buffer, DaemonSet)


class Seen(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """An object and what it is `now`. With a `version` alone nothing else of it is new; with neither it is gone."""

    key: Key
    now: T | None = None
    version: str = ""


class Known(Generic[T]):
    """Objects of one kind, as they were last written or read."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}

    def seen(self, key: Key, now: T | None) -> Seen[T]:
        """What is to be written of an object."""
        if now is None:
            self._objects.pop(key, None)
            return Seen(key)
        before, version = self._objects.get(key), now.metadata.resource_version
        self._objects[key] = now
        if before is not None and version and _with_version(before, version) == now:
            return Seen(key, version=version)
        return Seen(key, now)

    def found(self, seen: Seen[T]) -> T | None:
        """The object that was written."""
        now = seen.now
        if now is None and seen.version:
            before = self._objects.get(seen.key)
            if before is None:
                raise InvalidRecording("/".join(seen.key), "is seen again, and no line before has it")
            now = _with_version(before, seen.version)
        if now is None:
            self._objects.pop(seen.key, None)
        else:
            self._objects[seen.key] = now
        return now


def _with_version(found: T, version: str) -> T:
    return replace(found, metadata=replace(found.metadata, resource_version=version))


def read_buffer(buffer: Buffer | None) -> Buffer | None:
    """As much of a Buffer as is read."""
    if buffer is None:
        return None
    spec, status = buffer.spec, buffer.status
    pods = status.pod_based_buffer_spec if status is not None else None
    if pods is not None and pods.pod_spec is not None:
        pods = replace(pods, pod_spec=read_part(pods.pod_spec))
    return Buffer(
        metadata=_named(buffer.metadata),
        spec=BufferSpec(type=spec.type, recreation_strategy=spec.recreation_strategy, pod_selector=spec.pod_selector),
        status=BufferStatus(pod_based_buffer_spec=pods),
    )


def read_set(daemon_set: DaemonSet | None) -> DaemonSet | None:
    """The same of a DaemonSet, in whose annotations may stand what it was applied from."""
    return DaemonSet(_named(daemon_set.metadata), daemon_set.spec) if daemon_set is not None else None


def _named(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        deletion_timestamp=metadata.deletion_timestamp,
    )
