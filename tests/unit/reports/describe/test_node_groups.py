"""What `trellis check --explain` says of node groups."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.providers.kwok_nodes import failing, group
from support.worlds.providers.node_claims import claim_group
from trellis.api.kinds.kwok_node_group import GroupFailureMode, KwokNodeGroup
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects


def sentences(document: dict[str, Any]) -> list[str]:
    [described] = describe_objects(check([ManifestSource("groups.yaml", msgspec.json.encode(document))]))
    lines: list[str] = described["sentences"]
    return lines


def test_a_group_is_reported_in_sizes_shape_and_time() -> None:
    assert sentences(group(minSize=1, price=0.2, taints=[{"key": "dedicated", "effect": "NoSchedule"}])) == [
        "A group of 1 to 10 nodes with 4 cpu and 16Gi memory each.",
        "A node is Ready 30 s after it was ordered.",
        "A node costs 0.2 an hour.",
        "Its taints exclude pods that do not tolerate dedicated:NoSchedule.",
    ]


def test_devices_are_reported_with_their_class_and_driver() -> None:
    devices = [
        {"deviceClass": "gpu.example.com", "count": 8},
        {"deviceClass": "mig", "driver": "a.example", "count": 1},
    ]
    assert sentences(group(devices=devices))[1] == (
        "A node is up when it has 8 devices of class gpu.example.com (driver gpu.example.com) and 1 device of class "
        "mig (driver a.example)."
    )


@pytest.mark.parametrize("how", [mode for mode in GroupFailureMode if mode is not GroupFailureMode.OTHER_SHAPE])
def test_every_mishap_is_reported(how: str) -> None:
    assert sentences(failing(how))[-1].startswith("Simulated failure: ")
    assert sentences(failing(how, after=2))[-1].startswith("Simulated failure after the first 2 nodes: ")


def test_nodes_of_another_shape_are_reported_with_it() -> None:
    other = failing("OtherShape", resources={"cpu": "1", "memory": "1Gi"})
    assert sentences(other)[-1] == "Simulated failure: nodes become Ready with 1 cpu and 1Gi memory."
    assert msgspec.convert(other, KwokNodeGroup).spec.fails is not None


def test_a_group_of_claims_is_reported_with_what_its_machines_have() -> None:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.xlarge", "m7a.xlarge"]},
        {"key": "example.com/local-disk", "operator": "Exists"},
    ]
    agent = [{"key": "example.com/agent", "effect": "NoExecute"}]
    assert sentences(claim_group(price=0.2, requirements=requirements, startupTaints=agent)) == [
        "A group of 0 to 10 nodes with 4 cpu and 16Gi memory each.",
        "Karpenter launches a machine for each by a NodeClaim of KWOKNodeClass good.",
        "Its machines have node.kubernetes.io/instance-type In [m7i.xlarge, m7a.xlarge] and "
        "example.com/local-disk Exists.",
        "A node costs 0.2 an hour.",
        "A node is up when example.com/agent:NoExecute has been removed from it.",
    ]
