"""Capacity on nodes of a class: the nodes, and chunks that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from support.builders.manifests import buffer, class_buffer
from support.worlds.buffers import POOL, a_node, meaning, requests_of, translated
from trellis.api.kube.nodes import Node
from trellis.core.buffers import (
    BufferSettings,
    DetailedReason,
    NodeClassFacts,
    TranslationFacts,
    find_class_labels,
    observe_node_class,
)
from trellis.core.buffers.chunks import BUFFER_READY
from trellis.core.buffers.node_classes import (
    CHUNK_EXCEEDS_TOTALS,
    CHUNK_LARGER_THAN_NODES,
    NODE_CLASS_CONTRADICTED,
    NODE_CLASS_EMPTY,
    NODE_CLASS_UNKNOWN,
    NODE_CLASS_WITHOUT_ROOM,
)
from trellis.core.fit import NodeTable

SMALLEST = NodeClassFacts(3, {"cpu": 7_900, "memory": 2**35}, {"cpu": 15_900, "memory": 2**36})
SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


def class_facts(nodes: Sequence[Node], labels: dict[str, str], **fields: Any) -> NodeClassFacts:
    return observe_node_class(NodeTable(nodes), {node.metadata.name: node for node in nodes}, labels, **fields)


def pool(name: str, cpu: str, memory: str = "32Gi", **fields: Any) -> Node:
    return a_node(name, cpu, memory, **{"karpenter.sh__nodepool": "spot", **fields})


@pytest.mark.req("BF-29")
def test_totals_are_split_evenly_into_chunks_for_the_smallest_node() -> None:
    made = translated(class_buffer(), TranslationFacts(nodes=SMALLEST))
    assert made.chunks == 6
    assert requests_of(made) == {"cpu": "6666m", "memory": str(5 * 2**30 // 6)}
    assert made.pod_spec is not None
    assert made.pod_spec["nodeSelector"] == {POOL: "spot"}


@pytest.mark.req("BF-48")
def test_story_2_is_split_into_default_chunks() -> None:
    target = {"apiVersion": "apps/v1", "kind": "CustomComputeClass", "name": "my-custom-class"}
    story = buffer(
        targetRef=target,
        type="buffer.x-k8s.io/active-capacity",
        recreationStrategy="keep-empty",
        nodeClassBufferSpec={"totalCpu": 40, "totalMem": "5120Mi"},
    )
    made = translated(story, TranslationFacts(nodes=SMALLEST))
    assert (made.chunks, made.is_ready) == (6, True)
    assert made.pod_spec is not None
    assert made.pod_spec["nodeSelector"] == {"cloud.google.com/compute-class": "my-custom-class"}


@pytest.mark.req("BF-27")
def test_chunks_of_a_given_size_are_as_many_as_fit_both_totals() -> None:
    made = translated(class_buffer(perChunkResources={"cpu": "3", "memory": "512Mi", "example.com/gpu": 1}))
    assert made.chunks == 10
    assert requests_of(made) == {"cpu": "3", "memory": "512Mi", "example.com/gpu": "1"}
    assert translated(class_buffer(perChunkResources={"memory": "512Mi"})).chunks == 10
    assert translated(class_buffer(perChunkResources={"cpu": "3"})).chunks == 13


@pytest.mark.req("BF-27")
def test_chunks_of_the_stories_shorthand_are_as_many_as_fit_both_totals() -> None:
    target = {"apiVersion": "apps/v1", "kind": "CustomComputeClass", "name": "my-custom-class"}
    totals = {"totalCpu": 40, "totalMem": "5120Mi", "perChunkResources": {"cpu": "3", "memory": "512Mi"}}
    made = translated(buffer(targetRef=target, nodeClassBufferSpec=totals), TranslationFacts(nodes=SMALLEST))
    assert (made.chunks, requests_of(made)) == (10, {"cpu": "3", "memory": "512Mi"})


@pytest.mark.req("BF-28")
@pytest.mark.parametrize(
    "chunk", [{"cpu": "41"}, {"cpu": "1", "memory": "6Gi"}, {"example.com/gpu": "1"}, {"cpu": "0"}]
)
def test_a_stored_chunk_beyond_the_totals_is_not_ready(chunk: dict[str, str]) -> None:
    made = translated(class_buffer(perChunkResources=chunk))
    assert (made.is_ready, made.ready.reason, made.chunks) == (False, CHUNK_EXCEEDS_TOTALS, 0)


def test_a_stored_chunk_without_a_size_is_refused_with_the_rule() -> None:
    for chunk in ({}, {"example.com/gpu": "1"}, {"cpu": "0"}, {"cpu": "-1"}):
        made = translated(class_buffer(perChunkResources=chunk))
        assert made.ready == DetailedReason(
            CHUNK_EXCEEDS_TOTALS, "perChunkResources must have cpu or memory above zero"
        )


def test_a_chunk_larger_than_every_node_is_reported_but_kept_since_larger_nodes_may_come() -> None:
    made = translated(class_buffer(perChunkResources={"cpu": "16", "memory": "1Gi"}), TranslationFacts(nodes=SMALLEST))
    assert (made.chunks, made.is_ready) == (2, True)
    assert [note.reason for note in made.notes] == [CHUNK_LARGER_THAN_NODES]
    assert str(made.notes[0]) == "a chunk requests 16 cpu, and a node has at most 15900m"


def test_a_class_without_nodes_has_chunks_for_a_small_node() -> None:
    made = translated(class_buffer())
    assert [note.reason for note in made.notes] == [NODE_CLASS_EMPTY]
    assert (made.chunks, made.is_ready) == (80, True)
    assert requests_of(made) == {"cpu": "500m", "memory": "64Mi"}


def test_an_assumed_small_node_does_not_reduce_the_totals() -> None:
    made = translated(class_buffer(totalCpu="10000", totalMem="1Ti"))
    assert (made.ready.reason, made.chunks) == (BUFFER_READY, BufferSettings().most_chunks)
    assert requests_of(made)["cpu"] == "2"


def test_a_class_with_a_node_without_capacity_has_no_chunk_size() -> None:
    made = translated(class_buffer(), TranslationFacts(nodes=NodeClassFacts(1, {"cpu": 0, "memory": 1})))
    assert made.ready.reason is NODE_CLASS_WITHOUT_ROOM


@pytest.mark.req("BF-30")
def test_a_node_selector_narrows_the_class_or_replaces_it() -> None:
    settings = BufferSettings()
    narrowed = meaning(class_buffer(nodeSelector={"zone": "a"}))
    assert find_class_labels(narrowed, settings) == {POOL: "spot", "zone": "a"}
    totals = {"totalCpu": 1, "totalMem": 1, "nodeSelector": {"zone": "a"}}
    assert find_class_labels(meaning(buffer(capacity={"nodeClass": totals})), settings) == {"zone": "a"}
    nodes = [pool("n1", "8", zone="a"), pool("n2", "2", zone="b"), a_node("n3", "1", zone="a")]
    assert class_facts(nodes, {POOL: "spot", "zone": "a"}).least["cpu"] == 8_000
    made = translated(class_buffer(nodeSelector={"zone": "a"}))
    assert made.pod_spec is not None
    assert made.pod_spec["nodeSelector"] == {POOL: "spot", "zone": "a"}


@pytest.mark.req("BF-30")
def test_a_node_selector_of_another_class_than_the_target_is_refused() -> None:
    made = translated(class_buffer(nodeSelector={POOL: "other"}))
    assert (made.is_ready, made.ready.reason, made.chunks) == (False, NODE_CLASS_CONTRADICTED, 0)
    assert str(made.ready) == f"nodeSelector selects {POOL}=other, which nodes of NodePool spot do not have"
    assert translated(class_buffer(nodeSelector={POOL: "spot"})).is_ready


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("NodePool", "karpenter.sh/nodepool"),
        ("ComputeClass", "cloud.google.com/compute-class"),
        ("CustomComputeClass", "cloud.google.com/compute-class"),
        ("MachineDeployment", "cluster.x-k8s.io/deployment-name"),
        ("KwokNodeGroup", "kwok-nodegroup"),
        ("ClaimNodeGroup", "trellis.x-k8s.io/node-group"),
        ("Flavor", "example.com/flavor"),
    ],
)
def test_a_class_is_a_label_known_or_configured(kind: str, label: str) -> None:
    document = class_buffer()
    document["spec"]["targetRef"]["kind"] = kind
    settings = BufferSettings(node_class_labels={"Flavor": "example.com/flavor"})
    assert find_class_labels(meaning(document), settings) == {label: "spot"}


@pytest.mark.req("BF-18")
def test_an_unknown_kind_is_not_ready() -> None:
    document = class_buffer()
    document["spec"]["targetRef"]["kind"] = "Deployment"
    made = translated(document)
    assert made.ready == DetailedReason(
        NODE_CLASS_UNKNOWN, "the label of nodes of a Deployment is not known; set --node-class-labels"
    )


def test_the_smallest_node_has_the_least_of_every_resource_without_daemon_set_pods() -> None:
    nodes = [pool("n1", "8", "16Gi"), pool("n2", "4", "64Gi"), a_node("n3", "1", "1Gi")]
    result = class_facts(nodes, {POOL: "spot"})
    assert (result.count, result.least) == (2, {"cpu": 4_000, "memory": 16 * 2**30})
    assert result.most == {"cpu": 8_000, "memory": 64 * 2**30}
    reserved = {"cpu": np.full(NodeTable(nodes).numbers_end, 100, dtype=np.int64)}
    assert class_facts(nodes, {POOL: "spot"}, reserved=reserved).least["cpu"] == 3_900
    assert class_facts(nodes, {POOL: "other"}) == NodeClassFacts()


def test_a_node_without_allocatable_does_not_decide_the_chunk_size() -> None:
    nodes = [pool("n1", "8", "16Gi"), pool("broken", "0", "0"), pool("full", "4", "16Gi")]
    full = NodeTable(nodes)
    reserved = {"cpu": np.zeros(full.numbers_end, dtype=np.int64)}
    reserved["cpu"][full.find("full")] = 4_000
    result = class_facts(nodes, {POOL: "spot"}, reserved=reserved)
    assert (result.count, result.least) == (3, {"cpu": 8_000, "memory": 16 * 2**30})
    assert translated(class_buffer(), TranslationFacts(nodes=result)).chunks == 5
    nothing = class_facts(nodes[1:2], {POOL: "spot"})
    assert translated(class_buffer(), TranslationFacts(nodes=nothing)).ready.reason is NODE_CLASS_WITHOUT_ROOM


def test_chunks_tolerate_the_permanent_taints_of_all_nodes_of_the_class() -> None:
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    other = {"key": "team", "value": "a", "effect": "NoExecute"}
    tainted = [pool("n1", "8", taints=[SPOT, passing, soft]), pool("n2", "8", taints=[other, SPOT, passing])]
    made = translated(class_buffer(), TranslationFacts(nodes=class_facts(tainted, {POOL: "spot"})))
    assert made.pod_spec is not None
    assert made.pod_spec["tolerations"] == [{**SPOT, "operator": "Equal"}]
    assert class_facts([*tainted, pool("n3", "8")], {POOL: "spot"}).taints == ()


@pytest.mark.parametrize(
    "key",
    [
        "trellis.x-k8s.io/leaving",
        "trellis.x-k8s.io/starting",
        "startup-taint.cluster-autoscaler.kubernetes.io/agent",
        "karpenter.sh/disrupted",
    ],
)
def test_a_transient_taint_is_no_taint_of_the_class(key: str) -> None:
    nodes = [pool("n1", "8", taints=[SPOT, {"key": key, "effect": "NoSchedule"}])]
    assert [taint.key for taint in class_facts(nodes, {POOL: "spot"}).taints] == ["spot"]


@pytest.mark.parametrize("chunk", [{}, {"perChunkResources": {"cpu": "1", "memory": "128Mi"}}])
def test_chunks_of_a_class_without_nodes_tolerate_all_taints(
    chunk: dict[str, Any],
) -> None:
    made = translated(class_buffer(**chunk))
    assert made.pod_spec is not None
    assert made.pod_spec["tolerations"] == [{"operator": "Exists"}]
    assert made.pod_spec["nodeSelector"] == {POOL: "spot"}
    made = translated(class_buffer(**chunk), TranslationFacts(nodes=class_facts([pool("n1", "8")], {POOL: "spot"})))
    assert made.pod_spec is not None
    assert not made.pod_spec.get("tolerations"), "the class has a node, and that has no taint"


def test_chunks_of_a_selector_that_matches_no_node_tolerate_no_taints() -> None:
    totals = {"totalCpu": 1, "totalMem": "1Gi", "nodeSelector": {"zone": "a"}}
    made = translated(buffer(capacity={"nodeClass": totals}))
    assert made.pod_spec is not None
    assert not made.pod_spec.get("tolerations")


@pytest.mark.req("BF-16")
def test_the_number_of_nodes_does_not_change_chunks() -> None:
    nodes = [pool(f"n{number}", "8") for number in range(10)]
    few, several = (
        translated(class_buffer(), TranslationFacts(nodes=class_facts(some, {POOL: "spot"})))
        for some in (nodes[:1], nodes)
    )
    assert few == several
