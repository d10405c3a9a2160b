"""Informers of CapacityBuffers, in the version that the API server has, and of PodTemplates."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.pods import PodTemplate
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey, index_by_namespace, key_of
from trellis.kube.discovery import Served
from trellis.kube.resources import CAPACITY_BUFFERS, POD_TEMPLATES, Resource
from trellis.kube.watch.informer import Informer
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind

BY_REFERENCE: Final = "reference"

# The version that came first has the same fields. The newer one is read where there are both.
VERSIONS: Final = (CAPACITY_BUFFERS, msgspec.structs.replace(CAPACITY_BUFFERS, version="v1alpha1"))
_KEY_PREFIX: Final = f"{CAPACITY_BUFFERS.plural}/"
_WITHOUT: Final = OptionalKind("CapacityBuffers are neither served nor created from Buffers")


class CapacityBufferInformers:
    """CapacityBuffers and PodTemplates. Without a definition there are no CapacityBuffers, until there is one."""

    def __init__(self, informers: Informers, served: Served) -> None:
        self._informers = informers
        served_version = next((version for version in VERSIONS if served.serves(version)), None)
        self.buffers: Informer[CapacityBuffer] = informers.follow(
            served_version or CAPACITY_BUFFERS,
            indexes={BY_REFERENCE: _references, BY_NAMESPACE: index_by_namespace},
            dispensable=_WITHOUT,
            served=served_version is not None,
            versions=VERSIONS,
        )
        self.templates: Informer[PodTemplate] = informers.follow(POD_TEMPLATES, dispensable=_WITHOUT)

    @property
    def resource(self) -> Resource[CapacityBuffer]:
        """CapacityBuffers in the version that is read at present."""
        return self.buffers.resource

    @property
    def is_synced(self) -> bool:
        """Whether both caches are synced; before that it is not known which names are taken."""
        return self._informers.is_available(self.buffers) and self.templates.synced

    def keys(self) -> list[ObjectKey]:
        """The keys in the work queue of all CapacityBuffers."""
        return [capacity_key(key_of(buffer)) for buffer in self.buffers.snapshot()]

    def keys_in(self, namespace: str) -> list[ObjectKey]:
        """The keys of those in a namespace."""
        return [capacity_key(key_of(buffer)) for buffer in self.buffers.by_index(BY_NAMESPACE, namespace)]

    def list_keys_of(self, namespace: str, kind: str, name: str) -> list[ObjectKey]:
        """The keys of those that refer to this workload or PodTemplate."""
        buffers = self.buffers.by_index(BY_REFERENCE, _reference(namespace, kind, name))
        return [capacity_key(key_of(buffer)) for buffer in buffers]


def capacity_key(key: ObjectKey) -> ObjectKey:
    """The key of a CapacityBuffer in the work queue of Buffers. No name of an object has a slash."""
    return key[0], f"{_KEY_PREFIX}{key[1]}"


def is_capacity_key(key: ObjectKey) -> bool:
    """Whether a key of the work queue is that of a CapacityBuffer."""
    return key[1].startswith(_KEY_PREFIX)


def capacity_buffer_name(key: ObjectKey) -> str:
    """The name of the CapacityBuffer with this key in the work queue."""
    return key[1].removeprefix(_KEY_PREFIX)


def _reference(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _references(buffer: CapacityBuffer) -> tuple[str, ...]:
    namespace, spec = buffer.metadata.namespace, buffer.spec
    references = []
    if spec.scalable_ref is not None:
        references.append(_reference(namespace, spec.scalable_ref.kind, spec.scalable_ref.name))
    if spec.pod_template_ref is not None:
        references.append(_reference(namespace, POD_TEMPLATES.kind, spec.pod_template_ref.name))
    return tuple(references)
