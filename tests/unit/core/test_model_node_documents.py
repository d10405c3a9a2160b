"""The manifest of a node that nobody has built yet."""

from __future__ import annotations

import pytest

from trellis.api.kube.decode import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.scenario_nodes import NodeTaint
from trellis.core.model.node_documents import ARCHITECTURE, OS, node_document

OFFERED = {"cpu": "4", "memory": "16Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("labels", "system", "architecture"),
    [({}, "linux", "amd64"), ({OS: "windows"}, "windows", "amd64"), ({ARCHITECTURE: "arm64"}, "linux", "arm64")],
)
def test_it_says_of_itself_what_its_labels_say(labels: dict[str, str], system: str, architecture: str) -> None:
    document = node_document(OFFERED, {"pool": "a", **labels}, None, "v1.36.0")
    info = document["status"]["nodeInfo"]
    assert (info["operatingSystem"], info["architecture"], info["kubeletVersion"]) == (system, architecture, "v1.36.0")
    assert document["metadata"]["labels"] == {"pool": "a", OS: system, ARCHITECTURE: architecture}


def test_it_is_ready_and_offers_all_it_has_to_who_tolerates_its_taints() -> None:
    taints = [NodeTaint(key="gpu", value="yes", effect="NoSchedule"), NodeTaint(key="slow", effect="NoExecute")]
    document = node_document(OFFERED, {}, taints, "v1.36.0")
    assert document["spec"]["taints"] == [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "slow", "effect": "NoExecute"},
    ]
    node = convert_object(document, Node)
    assert [(each.type, each.status) for each in node.status.conditions] == [("Ready", "True")]
    assert document["status"]["capacity"] == document["status"]["allocatable"] == OFFERED
    assert "taints" not in node_document(OFFERED, {}, (), "v1.36.0")["spec"]
