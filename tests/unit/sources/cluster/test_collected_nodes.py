"""Objects collected for nodes: groups, storage, and deciding objects of all namespaces; also anonymized."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from support.api_server.server import ModelServer
from support.builders.collected_node_groups import COMPONENTS, Pools, pools
from support.builders.dumps import NOW, SECRET, hide, shop
from support.virtual_time import run
from trellis.base.json_lines import encode_line, read_lines
from trellis.cli.dump_reader import read_node_groups
from trellis.core.cluster.dump_format import NODE_GROUPS, OBJECT, MissingData
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import explain_node
from trellis.core.explain.explanation.node import NodePart
from trellis.sources.cluster.anonymization import Anonymizer
from trellis.sources.cluster.collector import collect_lines, collect_state
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.lists import CollectionScope

GROUPS = "kube-system/trellis-kwok-node-groups"
GROUP = {
    "apiVersion": "nodes.trellis.x-k8s.io/v1alpha1",
    "kind": "KwokNodeGroup",
    "metadata": {"name": "bank-pool"},
    "spec": {
        "resources": {"cpu": "4", "memory": "16Gi", "bank.example/card": "2"},
        "labels": {"bank.example/team": "vault"},
        "taints": [{"key": "bank.example/only", "value": "vault", "effect": "NoSchedule"}],
        "maxSize": 5,
        "bootTime": "2m",
    },
}


def with_groups(server: ModelServer, name: str = "trellis-kwok-node-groups") -> ModelServer:
    server.put(f"/api/v1/namespaces/kube-system/configmaps/{name}", {"data": {"all.yaml": yaml.safe_dump(GROUP)}})
    claim = {"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}
    server.put("/api/v1/namespaces/office/persistentvolumeclaims/data", claim)
    server.put("/api/v1/persistentvolumes/pv-1", {"spec": {"storageClassName": "fast"}})
    server.put("/apis/storage.k8s.io/v1/storageclasses/fast", {"volumeBindingMode": "WaitForFirstConsumer"})
    server.put("/apis/apps/v1/namespaces/office/daemonsets/logs", {"spec": {"template": {"spec": {}}}})
    return server


def around(server: ModelServer, *patterns: str, alone: bool = False) -> ClusterState:
    return run(
        collect_state(server.client, CollectionScope(patterns, "shop", node_groups=GROUPS, nodes_only=alone), NOW)
    )


def names(result: Any) -> list[str]:
    return [item.metadata.name for item in result]


def test_groups_and_storage_are_collected() -> None:
    result = around(with_groups(shop()))
    assert result.node_groups is not None
    assert result.node_groups.metadata.name == "trellis-kwok-node-groups"
    assert (names(result.claims), names(result.volumes), names(result.storage_classes)) == (
        ["data"],
        ["pv-1"],
        ["fast"],
    )


def with_devices(server: ModelServer) -> ModelServer:
    request = {"name": "gpu", "exactly": {"deviceClassName": "bank-gpu", "allocationMode": "All"}}
    spec = {"devices": {"requests": [request]}}
    server.put("/apis/resource.k8s.io/v1/namespaces/office/resourceclaims/data", {"spec": spec})
    server.put("/apis/resource.k8s.io/v1/namespaces/office/resourceclaimtemplates/one", {"spec": {"spec": spec}})
    published = {"driver": "bank-gpu", "nodeName": "ip-10-0-0-7", "devices": [{"name": "gpu-0"}]}
    server.put("/apis/resource.k8s.io/v1/resourceslices/s1", {"spec": published})
    return server


def test_claims_and_published_devices_are_collected() -> None:
    result = around(with_devices(with_groups(shop())))
    assert (names(result.device_claims), names(result.device_claim_templates), names(result.resource_slices)) == (
        ["data"],
        ["one"],
        ["s1"],
    )


def test_the_freeze_config_map_is_no_node_group() -> None:
    result = around(with_groups(shop()))
    assert result.freeze == {"by": "alice", "why": "incident 17"}
    assert around(shop()).node_groups is None


def test_without_nodes_in_the_scope_no_groups_or_claims_are_read() -> None:
    server = with_groups(shop())
    result = run(collect_state(server.client, CollectionScope((), "shop"), NOW))
    assert (result.node_groups, len(result.claims)) == (None, 0)
    asked = [request.path for request in server.requests]
    assert not [path for path in asked if "persistentvolume" in path or "storageclasses" in path]


def test_objects_that_decide_about_nodes_are_read_in_all_namespaces() -> None:
    result = around(with_groups(shop()), "shop")
    assert {pod.metadata.namespace for pod in result.pods} == {"shop", "office"}
    assert names(result.workloads["DaemonSet"]) == ["logs"]
    assert names(result.claims) == ["data"]
    assert set(names(result.namespaces)) == {"shop", "office", "kube-system"}


def test_with_nodes_only_no_other_objects_are_read() -> None:
    server = with_groups(shop())
    about = {"involvedObject": {"kind": "Node", "name": "ip-10-0-0-7"}, "reason": "NodeTainted"}
    server.put("/api/v1/namespaces/default/events/n", {**about, "source": {"component": "trellis-nodes"}})
    result = around(server, alone=True)
    assert (len(result.vpas), len(result.workloads["Deployment"]), len(result.usage)) == (0, 0, 0)
    assert [event.reason for event in result.events] == ["NodeTainted"]
    assert len(result.pods) == 3


def test_the_autoscaler_may_have_another_configmap() -> None:
    server = with_groups(shop(), "others")
    command = ["trellis", "nodes", "--kwok-node-groups=kube-system/others"]
    template = {"spec": {"containers": [{"name": "nodes", "command": command}]}}
    server.put("/apis/apps/v1/namespaces/kube-system/deployments/trellis-nodes", {"spec": {"template": template}})
    result = around(server)
    assert result.component("nodes") is not None
    assert result.node_groups is not None
    assert result.node_groups.metadata.name == "others"


def test_a_common_word_identifies_no_component() -> None:
    server = shop()
    template = {"spec": {"containers": [{"name": "watch", "command": ["kubectl", "get", "nodes"]}]}}
    server.put("/apis/apps/v1/namespaces/kube-system/deployments/watch", {"spec": {"template": template}})
    assert around(server).component("nodes") is None


def test_forbidden_objects_are_reported() -> None:
    server = with_groups(shop())
    hide(server, "kube-system")
    result = around(server)
    assert MissingData(NODE_GROUPS, "kube-system", "may not be read") in result.missing
    assert MissingData("PersistentVolume", "", "may not be read") in result.missing
    assert names(result.claims) == ["data"]


def test_annotations_that_decide_about_nodes_are_kept() -> None:
    server = shop()
    annotations = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true", "note": SECRET}
    server.put("/api/v1/nodes/held", {"metadata": {"annotations": annotations}})
    result = around(server).nodes.get("", "held")
    assert result is not None
    assert result.metadata.annotations == {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}


# Without names


def masked(cluster: Pools, mask: Anonymizer) -> ClusterState:
    """What a dump says of which the objects are masked."""
    lines = cluster.lines()
    return ClusterState.from_dump(
        encode_line(OBJECT, mask.anonymize(msgspec.json.decode(data))) if kind == OBJECT else line
        for line, (kind, data) in zip(lines, read_lines(lines), strict=True)
    )


def node_part(result: ClusterState, name: str) -> NodePart:
    part = explain_node(result, name, read_node_groups(result), COMPONENTS).node
    assert part is not None
    return part


def test_an_anonymized_dump_gives_the_same_decision_about_a_node() -> None:
    cluster, mask = pools(), Anonymizer(b"0")
    mark = {"key": "trellis.x-k8s.io/leaving", "value": "1799999000", "effect": "NoSchedule"}
    cluster.add_member("small-4", taints=[mark])
    cluster.add_member("small-5", annotations={"karpenter.sh/do-not-disrupt": "true"})
    hidden = masked(cluster, mask)
    for number in range(1, 6):
        plain, other = (
            node_part(cluster.collected(), f"small-{number}"),
            node_part(hidden, mask.mask_node(f"small-{number}")),
        )
        assert plain.decision is not None
        assert other.decision is not None
        assert (other.outcome, other.decision.reason, other.since) == (
            plain.outcome,
            plain.decision.reason,
            plain.since,
        )
        assert [pod.fate for pod in other.pods] == [pod.fate for pod in plain.pods] or len(plain.pods) > 1
        assert other.group is not None
        assert plain.group is not None
        assert other.group == msgspec.structs.replace(plain.group, name=mask.mask_name("small"))


def test_no_name_remains_in_node_groups() -> None:
    server = with_groups(shop())

    async def read() -> bytes:
        writing = DumpWriter(Anonymizer(b"0"))
        expected = CollectionScope((), "shop", node_groups=GROUPS)
        return b"".join(
            [*[line async for line in collect_lines(server.client, expected, writing, NOW)], writing.encode_end()]
        )

    dump = run(read())
    assert not re.search(rb"bank|vault|pv-1|fast", dump)
    states = read_node_groups(ClusterState.from_dump(dump)).states
    assert [(state.group.max_size, state.group.boot_seconds) for state in states] == [(5, 120.0)]
    offered = states[0].group.template.status.allocatable
    assert sorted(offered.values()) == ["110", "16Gi", "2", "4"]


def test_unreadable_node_groups_stay_unreadable() -> None:
    mask = Anonymizer(b"0")
    written = {"kind": "ConfigMap", "metadata": {"name": "groups"}, "data": {"all.yaml": f"{{ {SECRET}: ["}}
    document = mask.anonymize(written)
    assert SECRET not in str(document)
    cluster = pools()
    cluster.objects["ConfigMap", ("kube-system", "trellis-kwok-node-groups")] |= {"data": document["data"]}
    assert read_node_groups(cluster.collected()).problems
