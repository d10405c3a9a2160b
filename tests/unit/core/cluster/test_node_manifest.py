"""The manifest of a node that nobody has built yet."""

from __future__ import annotations

import pytest

from trellis.api.kinds.parts import NodeTaint
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.cluster.node_manifest import ARCHITECTURE, OS, build_node_manifest

OFFERED = {"cpu": "4", "memory": "16Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("labels", "system", "architecture"),
    [({}, "linux", "amd64"), ({OS: "windows"}, "windows", "amd64"), ({ARCHITECTURE: "arm64"}, "linux", "arm64")],
)
def test_it_says_of_itself_what_its_labels_say(labels: dict[str, str], system: str, architecture: str) -> None:
    document = build_node_manifest(OFFERED, {"pool": "a", **labels}, None, "v1.36.0")
    info = document["status"]["nodeInfo"]
    assert (info["operatingSystem"], info["architecture"], info["kubeletVersion"]) == (system, architecture, "v1.36.0")
    assert document["metadata"]["labels"] == {"pool": "a", OS: system, ARCHITECTURE: architecture}


def test_it_is_ready_and_offers_its_allocatable_to_pods_that_tolerate_its_taints() -> None:
    taints = [NodeTaint(key="gpu", value="yes", effect="NoSchedule"), NodeTaint(key="slow", effect="NoExecute")]
    document = build_node_manifest(OFFERED, {}, taints, "v1.36.0")
    assert document["spec"]["taints"] == [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "slow", "effect": "NoExecute"},
    ]
    node = convert_object(document, Node)
    assert [(condition.type, condition.status) for condition in node.status.conditions] == [("Ready", "True")]
    assert document["status"]["capacity"] == document["status"]["allocatable"] == OFFERED
    assert "taints" not in build_node_manifest(OFFERED, {}, (), "v1.36.0")["spec"]
