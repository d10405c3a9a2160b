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
_WITHOUT: Final = OptionalKind("CapacityBuffers are neither served nor made of Buffers")


class CapacityBufferInformers:
    """CapacityBuffers and PodTemplates. Without a definition there are no CapacityBuffers, until there is one."""

    def __init__(self, informers: Informers, served: Served) -> None:
        self._informers = informers
        there = next((each for each in VERSIONS if served.serves(each)), None)
        self.buffers: Informer[CapacityBuffer] = informers.follow(
            there or CAPACITY_BUFFERS,
            indexes={BY_REFERENCE: _references, BY_NAMESPACE: index_by_namespace},
            dispensable=_WITHOUT,
            served=there is not None,
            versions=VERSIONS,
        )
        self.templates: Informer[PodTemplate] = informers.follow(POD_TEMPLATES, dispensable=_WITHOUT)

    @property
    def resource(self) -> Resource[CapacityBuffer]:
        """CapacityBuffers in the version that is read at present."""
        return self.buffers.resource

    @property
    def seen(self) -> bool:
        """Whether all of both has been seen; before that nobody knows which names are taken."""
        return self._informers.sees(self.buffers) and self.templates.synced

    def keys(self) -> list[ObjectKey]:
        """All CapacityBuffers, as they stand in line."""
        return [capacity_key(key_of(each)) for each in self.buffers.snapshot()]

    def keys_in(self, namespace: str) -> list[ObjectKey]:
        """Those of a namespace."""
        return [capacity_key(key_of(each)) for each in self.buffers.by(BY_NAMESPACE, namespace)]

    def keys_of(self, namespace: str, kind: str, name: str) -> list[ObjectKey]:
        """Those with this workload, or with this PodTemplate."""
        found = self.buffers.by(BY_REFERENCE, _reference(namespace, kind, name))
        return [capacity_key(key_of(each)) for each in found]


def capacity_key(key: ObjectKey) -> ObjectKey:
    """A CapacityBuffer where Buffers have their names. No name of an object has a slash."""
    return key[0], f"{_KEY_PREFIX}{key[1]}"


def is_capacity_key(key: ObjectKey) -> bool:
    """Whether this is a CapacityBuffer among Buffers."""
    return key[1].startswith(_KEY_PREFIX)


def capacity_buffer_name(key: ObjectKey) -> str:
    """The name of the CapacityBuffer that a key stands for."""
    return key[1].removeprefix(_KEY_PREFIX)


def _reference(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _references(buffer: CapacityBuffer) -> tuple[str, ...]:
    namespace, spec = buffer.metadata.namespace, buffer.spec
    found = []
    if spec.scalable_ref is not None:
        found.append(_reference(namespace, spec.scalable_ref.kind, spec.scalable_ref.name))
    if spec.pod_template_ref is not None:
        found.append(_reference(namespace, POD_TEMPLATES.kind, spec.pod_template_ref.name))
    return tuple(found)
