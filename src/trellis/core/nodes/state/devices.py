"""What the resource claims of pods and chunks in the cluster snapshot request.

A claim is read again when it changes, and all claims when the classes that groups declare do. Where the API is not
served or may not be read, no claim is known: pods with claims are then left alone, and devices of groups do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate
from trellis.api.kube.placement import PodResourceClaim
from trellis.api.kube.pods import Pod
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.fit.constraints.device_claims import (
    RESOURCE_CLAIMS_NOT_MODELLED,
    UNKNOWN_DEVICES,
    ClassDrivers,
    DeviceDemand,
    DeviceObjects,
    read_pod_claims,
    read_replacement_claims,
    read_template_claims,
)
from trellis.core.nodes.node_groups import NodeGroup

V = TypeVar("V", DeviceClaim, DeviceClaimTemplate)

_NOT_KNOWN: Final = DetailedReason(
    RESOURCE_CLAIMS_NOT_MODELLED, "claims are not known, because resource.k8s.io/v1 is not served or was not read"
)


class LeftAlonePod(msgspec.Struct, frozen=True):
    """A pending pod about which nothing is decided, and why."""

    reason: DetailedReason
    is_unschedulable: bool


class ReferenceKind(StrEnum):
    """What a pod may refer to."""

    CLAIM = "ResourceClaim"
    TEMPLATE = "ResourceClaimTemplate"


Reference: TypeAlias = tuple[ReferenceKind, ObjectKey]


class DeviceClaims:
    """The claims of all pods, read by the classes that groups declare."""

    def __init__(self) -> None:
        self.objects: DeviceObjects = UNKNOWN_DEVICES
        self._drivers: ClassDrivers = {}
        # The pods that refer to each claim or template.
        self._referrers: dict[Reference, set[ObjectKey]] = {}
        # The claims that several pods name.
        self._shared: set[ObjectKey] = set()

    def declare_classes(self, groups: Iterable[NodeGroup]) -> bool:
        """Use the device classes of these groups; returns whether they have changed."""
        drivers: dict[str, str] = {}
        for group in groups:
            for devices in group.devices:
                known = drivers.setdefault(devices.device_class, devices.driver)
                # A class with several drivers has none that could be counted.
                drivers[devices.device_class] = known if known == devices.driver else ""
        changed, self._drivers = drivers != self._drivers, drivers
        return changed

    def put_objects(self, objects: DeviceObjects) -> set[ObjectKey]:
        """Use these objects; returns the pods that refer to something that has changed."""
        before, self.objects = self.objects, objects
        if objects.known != before.known:
            return set().union(*self._referrers.values())
        changed = (
            *((ReferenceKind.CLAIM, key) for key in _find_changed(before.claims, objects.claims)),
            *((ReferenceKind.TEMPLATE, key) for key in _find_changed(before.templates, objects.templates)),
        )
        return set().union(*(self._referrers.get(reference, ()) for reference in changed))

    def add_pod(self, pod: Pod) -> set[ObjectKey]:
        """Record what a pod refers to; returns the other pods that name its claims."""
        others: set[ObjectKey] = set()
        for kind, key in _list_references(pod):
            referrers = self._referrers.setdefault((kind, key), set())
            if kind is ReferenceKind.CLAIM:
                others |= referrers
                if referrers - {key_of(pod)}:
                    self._shared.add(key)
            referrers.add(key_of(pod))
        return others - {key_of(pod)}

    def remove_pod(self, pod: Pod) -> set[ObjectKey]:
        """Forget a pod; returns the other pods that name its claims."""
        others: set[ObjectKey] = set()
        for kind, key in _list_references(pod):
            referrers = self._referrers.get((kind, key), set())
            referrers.discard(key_of(pod))
            if kind is ReferenceKind.CLAIM:
                others |= referrers
            if len(referrers) <= 1:
                self._shared.discard(key)
            if not referrers:
                self._referrers.pop((kind, key), None)
        return others

    def read_pending(self, pod: Pod) -> DeviceDemand | DetailedReason:
        """What the claims of a pending pod request."""
        if not self.objects.known:
            return _NOT_KNOWN
        return read_pod_claims(pod, self.objects, self._drivers, self._shared)

    def read_replacement(self, pod: Pod) -> DeviceDemand | DetailedReason:
        """What the claims of a pod that replaces this one request."""
        if not self.objects.known:
            return _NOT_KNOWN
        return read_replacement_claims(pod, self.objects, self._drivers)

    def read_chunk(self, namespace: str, claims: Iterable[PodResourceClaim]) -> DeviceDemand | DetailedReason:
        """What the claims of a chunk request."""
        if not self.objects.known:
            return _NOT_KNOWN
        return read_template_claims(claims, namespace, self.objects, self._drivers)


def _list_references(pod: Pod) -> Iterator[Reference]:
    namespace = pod.metadata.namespace
    for reference in pod.spec.resource_claims:
        if reference.resource_claim_name:
            yield ReferenceKind.CLAIM, (namespace, reference.resource_claim_name)
        else:
            yield ReferenceKind.TEMPLATE, (namespace, reference.resource_claim_template_name)
    for status in pod.status.resource_claim_statuses:
        yield ReferenceKind.CLAIM, (namespace, status.resource_claim_name)


def _find_changed(before: Mapping[ObjectKey, V], now: Mapping[ObjectKey, V]) -> Iterator[ObjectKey]:
    """The keys of objects that are new, changed or gone. Unchanged objects are identical in both."""
    for key, value in now.items():
        if before.get(key) is not value:
            yield key
    for key in before:
        if key not in now:
            yield key
