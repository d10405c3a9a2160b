"""Objects of Dynamic Resource Allocation: claims, their templates, and published devices."""

from __future__ import annotations

from typing import Any

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.core.fit.constraints.device_claims import DeviceObjects

Document = dict[str, Any]

GPU_CLASS = "gpu.example.com"
GPU_DRIVER = "gpu.example.com"


def a_request(count: int = 1, device_class: str = GPU_CLASS, name: str = "gpu", **fields: Any) -> Document:
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **fields}}


def a_claim_spec(*requests: Document, **fields: Any) -> Document:
    return {"devices": {"requests": [*requests] or [a_request()], **fields}}


def a_claim(
    name: str,
    *requests: Document,
    devices: dict[str, list[str]] | None = None,
    pinned: bool = True,
    admin: bool = False,
    **fields: Any,
) -> DeviceClaim:
    """A claim; with `devices`, by the node of each, it is allocated, and `pinned` to the first of these nodes."""
    status: Document = {}
    if devices is not None:
        results = [
            {"request": "gpu", "driver": GPU_DRIVER, "pool": node, "device": device, "adminAccess": admin}
            for node, names in devices.items()
            for device in names
        ]
        allocation: Document = {"devices": {"results": results}}
        if pinned:
            field = {"key": "metadata.name", "operator": "In", "values": [next(iter(devices))]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status = {"allocation": allocation}
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": a_claim_spec(*requests, **fields),
        "status": status,
    }
    return convert_object(document, DeviceClaim)


def a_claim_template(name: str, *requests: Document, **fields: Any) -> DeviceClaimTemplate:
    spec = {"spec": a_claim_spec(*requests, **fields)}
    return convert_object({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, DeviceClaimTemplate)


def a_slice(node: str, count: int, driver: str = GPU_DRIVER, **pool: Any) -> ResourceSlice:
    """A slice with all devices of a node: gpu-0, gpu-1 and so on. `tainted` of them are unhealthy."""
    tainted, name = pool.pop("tainted", 0), pool.pop("name", f"{node}-{driver}")
    devices = [
        {
            "name": f"gpu-{number}",
            **({"taints": [{"key": "unhealthy", "effect": "NoExecute"}]} if number < tainted else {}),
        }
        for number in range(count)
    ]
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **pool},
        "devices": devices,
    }
    return convert_object({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def of_template(template: str, name: str = "gpu") -> Document:
    """A field of a pod's spec: a claim that is made from a template."""
    return {"resourceClaims": [{"name": name, "resourceClaimTemplateName": template}]}


def named(claim: str, name: str = "gpu") -> Document:
    """A field of a pod's spec: a claim by its name."""
    return {"resourceClaims": [{"name": name, "resourceClaimName": claim}]}


def collect_devices(*objects: DeviceClaim | DeviceClaimTemplate | ResourceSlice) -> DeviceObjects:
    """All of these."""
    return DeviceObjects(
        claims={(it.metadata.namespace, it.metadata.name): it for it in objects if isinstance(it, DeviceClaim)},
        templates={
            (it.metadata.namespace, it.metadata.name): it for it in objects if isinstance(it, DeviceClaimTemplate)
        },
        slices={it.metadata.name: it for it in objects if isinstance(it, ResourceSlice)},
    )
