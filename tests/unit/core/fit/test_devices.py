"""Which resources stand for devices that a node exists for."""

from __future__ import annotations

import pytest

from support.worlds.nodes import a_node
from trellis.core.fit import NodeTable
from trellis.core.fit.devices import find_device_nodes, is_device_resource, requests_devices


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "amd.com/gpu",
        "gpu.intel.com/xe",
        "gpu.intel.com/i915",
        "habana.ai/gaudi",
        "microsoft.com/directx",
        "google.com/tpu",
        "cloud-tpus.google.com/v3",
        "aws.amazon.com/neuroncore",
    ],
)
def test_accelerators_are_devices(name: str) -> None:
    assert is_device_resource(name)


@pytest.mark.parametrize(
    "name",
    ["cpu", "memory", "pods", "hugepages-2Mi", "devices.kubevirt.io/kvm", "vpc.amazonaws.com/pod-eni", "nvidia.com/x"],
)
def test_other_resources_are_no_reason_for_a_node(name: str) -> None:
    assert not is_device_resource(name)


def test_pods_with_one_device_among_their_requests_need_devices() -> None:
    assert requests_devices({"cpu": 1, "amd.com/gpu": 1})
    assert not requests_devices({"cpu": 1, "devices.kubevirt.io/kvm": 1})


def test_a_node_whose_devices_are_all_gone_has_none() -> None:
    table = NodeTable(
        [
            a_node("plain"),
            a_node("gpu", amounts={"nvidia.com/gpu": "2"}),
            a_node("broken", amounts={"nvidia.com/gpu": "0"}),
            a_node("kvm", amounts={"devices.kubevirt.io/kvm": "1k"}),
        ]
    )
    assert table.names(find_device_nodes(table)) == ["gpu"]
