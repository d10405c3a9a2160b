"""Devices of nodes as resources: which extended resources stand for a GPU or another accelerator.

An extended resource can be anything that a kubelet counts: network interfaces, `/dev/kvm`, licences. Only for
accelerators does a node exist for the sake of the resource. They are known by their names: those of Cluster Autoscaler,
and those of further vendors and of parts of a GPU.

Devices of Dynamic Resource Allocation are no extended resources. Those of one driver are counted as if they were one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from trellis.core.fit.node_table import NodeTable
from trellis.core.usage.columns import BoolColumn

_ACCELERATORS: Final = frozenset(
    {
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "aws.amazon.com/neurondevice",
        "google.com/tpu",
        "habana.ai/gaudi",
        "microsoft.com/directx",
        "nvidia.com/gpu",
    }
)
# Families of names: generations of a driver, shared GPUs, and parts of a GPU.
_ACCELERATOR_PREFIXES: Final = ("cloud-tpus.google.com/", "gpu.intel.com/", "nvidia.com/gpu.", "nvidia.com/mig-")
# No pod can request such a resource: Kubernetes allows no extended resources of this domain.
_DRIVER_PREFIX: Final = "resource.k8s.io/"


# Called for every resource of every group, with a dozen names.
@lru_cache(maxsize=1024)
def is_device_resource(name: str) -> bool:
    """Whether a resource stands for devices that a node exists for."""
    return name in _ACCELERATORS or name.startswith((*_ACCELERATOR_PREFIXES, _DRIVER_PREFIX))


def build_driver_resource(driver: str) -> str:
    """The resource that stands for the devices of a driver."""
    return _DRIVER_PREFIX + driver


def is_driver_resource(name: str) -> bool:
    """Whether a resource stands for the devices of a driver."""
    return name.startswith(_DRIVER_PREFIX)


def requests_devices(resources: Iterable[str]) -> bool:
    """Whether one of these resources stands for devices."""
    return any(map(is_device_resource, resources))


def find_device_nodes(table: NodeTable) -> BoolColumn:
    """The nodes that have devices."""
    mask = np.zeros(table.numbers_end, dtype=np.bool_)
    for name, row in table.resources.items():
        if is_device_resource(name):
            mask |= table.allocatable[row] > 0
    return mask
