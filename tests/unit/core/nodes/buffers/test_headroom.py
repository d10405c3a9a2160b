"""What holds of Buffers on nodes that some other autoscaler manages, and what such an autoscaler has to keep."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.worlds.nodes import START, Document, a_buffer, a_node, a_pod, a_spec
from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.cluster.store import key_of
from trellis.core.nodes.buffers.headroom import HeadroomObserver, ObservedHeadroom
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges

MINIMUM: Document = {"recreationStrategy": "KeepMinimum"}


def on(node: str, pod: Pod) -> Pod:
    status = replace(pod.status, phase="Running", conditions=())
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def changes_with(
    nodes: Sequence[Node] = (), pods: Sequence[Pod] = (), buffers: Sequence[Buffer] = ()
) -> ClusterSnapshotChanges:
    return ClusterSnapshotChanges(
        nodes={node.metadata.name: node for node in nodes},
        pods={key_of(pod): pod for pod in pods},
        buffers={key_of(buffer): buffer for buffer in buffers},
    )


def observed(nodes: Sequence[Node], pods: Sequence[Pod], *buffers: Buffer) -> ObservedHeadroom:
    return HeadroomObserver(ScaleUpSettings(prices=EXAMPLE_PRICES)).observe(changes_with(nodes, pods, buffers), START)


def count_on_top(nodes: Sequence[Node], pods: Sequence[Pod], count: int) -> int:
    return observed(nodes, pods, a_buffer("base", count, **MINIMUM)).on_top["uid-base"]


@pytest.mark.req("BF-11")
@pytest.mark.req("BF-37")
def test_a_buffer_is_provisioned_while_all_chunks_fit_on_ready_nodes_of_any_group() -> None:
    nodes, pods = [a_node("a"), a_node("b")], [on("a", a_pod("p", "2")), on("b", a_pod("q", "3"))]
    [fits] = observed(nodes, pods, a_buffer("spare", 3)).buffers
    assert (fits.is_provisioned, fits.on_ready, fits.provisioned_at) == (True, 3, START)
    assert fits.reason.reason.code == "BufferProvisioned"
    [lacks] = observed(nodes, pods, a_buffer("spare", 4)).buffers
    assert (lacks.is_provisioned, lacks.on_ready, lacks.unplaced, lacks.provisioned_at) == (False, 3, 1, None)
    assert lacks.reason.reason.code == "BufferNotProvisioned"


def test_leaving_and_unready_nodes_hold_no_chunk() -> None:
    leaving = a_node("a", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])
    disrupted = a_node("b", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
    [result] = observed([leaving, disrupted], [], a_buffer("spare", 1)).buffers
    assert (result.on_ready, result.is_provisioned) == (0, False)


def test_pending_pods_are_placed_before_chunks() -> None:
    [result] = observed([a_node("a")], [a_pod("p", "2")], a_buffer("spare", 4)).buffers
    assert result.on_ready == 2


def test_chunks_are_priced_by_cores_and_memory_where_no_group_has_a_price() -> None:
    [result] = observed([a_node("a")], [], a_buffer("spare", 2)).buffers
    node = EXAMPLE_PRICES.cost_per_hour(4, 16 * 2**30)
    assert result.price == pytest.approx(2 * node / 4)


def test_pods_placed_where_chunks_were_are_hits_and_pending_pods_are_misses() -> None:
    observer = HeadroomObserver(ScaleUpSettings())
    nodes = [a_node("a", "2")]
    observer.observe(changes_with(nodes, buffers=[a_buffer("spare", 2)]), START)
    [hit] = observer.observe(changes_with(pods=[on("a", a_pod("p"))]), START + 1).buffers
    assert (hit.hits, hit.misses, hit.on_ready) == (1, 0, 1)
    [missed] = observer.observe(changes_with(pods=[on("a", a_pod("q")), a_pod("r")]), START + 2).buffers
    assert (missed.hits, missed.misses, missed.on_ready) == (1, 1, 0)
    assert missed.provisioned_at == START


@pytest.mark.req("BF-35")
def test_only_unused_chunks_of_a_keep_minimum_buffer_are_kept_on_top() -> None:
    nodes = [a_node("a")]
    assert count_on_top(nodes, [], 3) == 3
    assert count_on_top(nodes, [on("a", a_pod("p", "2"))], 3) == 1
    # Pods may fill all of it, and nothing is added for the Buffer.
    assert count_on_top(nodes, [on("a", a_pod("p", "4"))], 3) == 0


def test_all_missing_chunks_of_a_keep_minimum_buffer_are_kept() -> None:
    assert count_on_top([], [], 3) == 3
    # 4 of 6 would fit, pods use 2: the 2 that fit are kept, and 2 more, for which a node is added.
    assert count_on_top([a_node("a")], [on("a", a_pod("p", "2"))], 6) == 4


def test_spread_out_pods_do_not_release_nodes_that_the_minimum_needs() -> None:
    nodes = [a_node(name) for name in "abc"]
    pods = [on(name, a_pod(f"p-{name}", "100m", "1Mi")) for name in "abc"]
    # Each blocks a chunk, 3 in all; moved together they would block one. With 6 kept on top, one node could go, and 8
    # of the 9 would be left.
    assert count_on_top(nodes, pods, 9) == 9


def test_a_pod_counts_for_one_keep_minimum_buffer_only() -> None:
    nodes, pods = [a_node("a"), a_node("b")], [on("a", a_pod("p", "2"))]
    result = observed(nodes, pods, a_buffer("x", 3, **MINIMUM), a_buffer("y", 3, **MINIMUM)).on_top
    assert sum(result.values()) == 4


@given(
    sizes=st.lists(st.integers(1, 8), max_size=5),
    used=st.lists(st.tuples(st.integers(0, 4), st.integers(100, 3000)), max_size=8),
    count=st.integers(1, 20),
)
@example(sizes=[4], used=[(0, 100), (0, 100)], count=2)
def test_a_minimum_is_kept_and_no_node_is_added_once_it_exists(
    sizes: list[int], used: list[tuple[int, int]], count: int
) -> None:
    nodes = [a_node(f"n{at}", str(size)) for at, size in enumerate(sizes)]
    remaining = [size * 1000 for size in sizes]
    pods = []
    for number, (at, millicores) in enumerate(used):
        if at < len(remaining) and remaining[at] >= millicores:
            remaining[at] -= millicores
            pods.append(on(f"n{at}", a_pod(f"p{number}", f"{millicores}m", "1Mi")))
    at_all, empty = sum(sizes), sum(free // 1000 for free in remaining)
    spec = a_spec("1", "1Mi")
    on_top = observed(nodes, pods, a_buffer("base", count, spec, **MINIMUM)).on_top["uid-base"]
    if at_all >= count:
        assert on_top <= empty
        assert on_top + (at_all - empty) >= count
    else:
        assert on_top - empty == count - at_all
