"""Objects collected for Buffers: without secrets, with the replicas of targets and the pods of all nodes."""

from __future__ import annotations

from typing import Any

from support.api_server.server import ModelServer
from support.builders.dumps import NOW, SECRET, collect_dump, dump_state, hide, shop
from support.virtual_time import run
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.state import ClusterState
from trellis.core.explain.component_decisions.resize_plans import has_all_nodes_and_pods
from trellis.sources.cluster.collector import collect_state
from trellis.sources.cluster.lists import CollectionScope

BUFFERS = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/shop/buffers"
ROLLOUT = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"}
PERCENT = {"replicas": {"percent": {"percent": 10}}}


def put(server: ModelServer, name: str, status: dict[str, Any] | None = None, **spec: Any) -> None:
    document = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Buffer", "spec": spec}
    server.put(f"{BUFFERS}/{name}", document | ({"status": status} if status else {}))


def with_rollouts(server: ModelServer) -> ModelServer:
    served = {"name": "rollouts", "kind": "Rollout", "namespaced": True, "verbs": ["get"]}
    scale = {"name": "rollouts/scale", "kind": "Scale", "namespaced": True, "verbs": ["get"]}
    version = {"groupVersion": "argoproj.io/v1alpha1", "version": "v1alpha1"}
    group = {"name": "argoproj.io", "versions": [version], "preferredVersion": version}
    server.objects["/apis"] = {"groups": [group]}
    server.objects["/apis/argoproj.io/v1alpha1"] = {"resources": [served, scale]}
    path = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale"
    server.objects[path] = {"spec": {"replicas": 9}, "status": {"selector": "app=web", "replicas": 7}}
    return server


def collected_around(server: ModelServer, *patterns: str) -> ClusterState:
    return run(collect_state(server.client, CollectionScope(patterns, "shop", all_pods=True), NOW))


def test_buffers_are_collected_with_their_events() -> None:
    server = shop()
    put(server, "web", targetRef=ROLLOUT, capacity=PERCENT)
    about = {"kind": "Buffer", "namespace": "shop", "name": "web"}
    event = {"involvedObject": about, "reason": "BufferReady", "source": {"component": "somebody"}}
    server.put("/api/v1/namespaces/shop/events/web-9", event)
    result = dump_state(server)
    assert [buffer.metadata.name for buffer in result.buffers] == ["web"]
    assert "BufferReady" in [item.reason for item in result.events]


def test_a_pod_template_in_a_buffer_is_stored_without_unread_fields() -> None:
    server = shop()
    container = {
        "name": "build",
        "image": SECRET,
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "resources": {"requests": {"cpu": "2"}},
    }
    pods = {"replicaNum": 3, "podSpec": {"containers": [container], "nodeSelector": {"pool": "a"}}}
    put(server, "builds", {"podBasedBufferSpec": pods}, capacity={"pods": pods})
    assert SECRET.encode() not in b"".join(collect_dump(server))
    result = dump_state(server).buffers.get("shop", "builds")
    assert result is not None
    assert result.spec.capacity is not None
    assert result.spec.capacity.pods is not None
    retained = {"name": "build", "resources": {"requests": {"cpu": "2"}}}
    assert result.spec.capacity.pods.pod_spec == {"containers": [retained], "nodeSelector": {"pool": "a"}}


def test_an_unreadable_pod_becomes_empty() -> None:
    server = shop()
    put(server, "odd", capacity={"pods": {"replicaNum": 3, "podSpec": {"containers": SECRET}}})
    assert SECRET.encode() not in b"".join(collect_dump(server))


def test_the_count_of_an_unknown_target_is_read_from_its_scale() -> None:
    server = with_rollouts(shop())
    put(server, "web", targetRef=ROLLOUT, capacity=PERCENT)
    result = dump_state(server)
    target = TargetRef("shop", "argoproj.io/v1alpha1", "Rollout", "web")
    assert (result.scales[target].selector, result.replicas[target]) == ("app=web", 7)


def test_no_scale_is_requested_for_a_node_class() -> None:
    server = with_rollouts(shop())
    totals = {"nodeClass": {"totalCpu": "4", "totalMem": "8Gi"}}
    put(server, "web", targetRef=ROLLOUT, capacity=totals)
    assert dump_state(server).scales == {}


def test_pods_of_other_namespaces_are_collected_for_their_share_of_nodes() -> None:
    result = collected_around(shop(), "shop")
    assert {pod.metadata.namespace for pod in result.pods} == {"shop", "office"}
    assert result.about.namespaces == ("shop",)
    assert has_all_nodes_and_pods(result)


def test_where_all_pods_are_forbidden_those_of_the_namespace_are_collected() -> None:
    server = shop()
    hide(server, "office", "kube-system")
    result = collected_around(server, "shop")
    assert {pod.metadata.namespace for pod in result.pods} == {"shop"}
    assert MissingData("Pod", "", "may not be read") in result.missing
    assert not has_all_nodes_and_pods(result)
