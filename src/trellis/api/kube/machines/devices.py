"""Devices of Dynamic Resource Allocation, `resource.k8s.io/v1`: ResourceClaim, ResourceClaimTemplate, ResourceSlice.

A pod refers to claims, a claim requests devices of device classes, and the scheduler allocates devices that drivers
publish in slices. Of expressions only the existence is read: they are CEL, and not evaluated here.
"""

from __future__ import annotations

from typing import Final

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.placement import NodeSelector
from trellis.api.kube.slices import Presence, Slice

EXACT_COUNT: Final = "ExactCount"


class ExactDeviceRequest(Slice, frozen=True):
    """A number of devices of one class, or all of them (`allocation_mode`)."""

    device_class_name: str = ""
    selectors: tuple[Presence, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Presence, ...] = ()
    capacity: Presence | None = None


class DeviceRequest(Slice, frozen=True):
    """A request of a claim: exact, or the first of several alternatives that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[Presence, ...] = ()


class DeviceRequests(Slice, frozen=True):
    """The devices that a claim requests, and what they must have in common."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Presence, ...] = ()


class DeviceClaimSpec(Slice, frozen=True):
    """What is claimed."""

    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Slice, frozen=True):
    """A device that a claim got. With `admin_access` others may have it as well."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False


class AllocatedDevices(Slice, frozen=True):
    """The devices that a claim got."""

    results: tuple[AllocatedDevice, ...] = ()


class DeviceAllocation(Slice, frozen=True):
    """The devices of a claim, and the nodes from which they can be used: all, without a selector."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class DeviceClaimStatus(Slice, frozen=True):
    """A claim without an allocation waits for a pod that the scheduler can place."""

    allocation: DeviceAllocation | None = None


class DeviceClaim(KubeObject, frozen=True):
    """A ResourceClaim: devices for one pod, or for all pods that name it."""

    spec: DeviceClaimSpec = DeviceClaimSpec()
    status: DeviceClaimStatus = DeviceClaimStatus()


class DeviceClaimTemplateSpec(Slice, frozen=True):
    """The template."""

    spec: DeviceClaimSpec = DeviceClaimSpec()


class DeviceClaimTemplate(KubeObject, frozen=True):
    """A ResourceClaimTemplate, of which each pod that names it gets a claim of its own."""

    spec: DeviceClaimTemplateSpec = DeviceClaimTemplateSpec()


class ResourcePool(Slice, frozen=True):
    """The pool of a slice. It is complete when all slices of its newest generation are there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class DeviceTaint(Slice, frozen=True):
    """A taint of a device."""

    effect: str = ""


class PublishedDevice(Slice, frozen=True):
    """A device, without its attributes and capacity."""

    name: str = ""
    taints: tuple[DeviceTaint, ...] = ()


class ResourceSliceSpec(Slice, frozen=True):
    """Devices of a driver. Without `node_name` they are not those of one node."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    devices: tuple[PublishedDevice, ...] = ()


class ResourceSlice(KubeObject, frozen=True):
    """A part of the devices that a driver publishes."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
