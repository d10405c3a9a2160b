"""The headroom of Buffers: chunks are placed as virtual pods after all real ones."""

from __future__ import annotations

import msgspec
import pytest

from support.builders.manifests import buffer
from support.packing_counts import counted_packing
from support.worlds.nodes import ZONE, Cluster, Document, a_buffer, a_daemon_set, a_group, a_node, a_pod, a_spec, apart
from trellis.api.kinds.buffer import Buffer
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.pods import read_chunks

EMPTY: Document = {"recreationStrategy": "KeepEmpty"}
MINIMUM: Document = {"recreationStrategy": "KeepMinimum"}


@pytest.mark.req("BF-01")
def test_nodes_are_added_until_the_headroom_exists() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 10)).reconcile()
    assert (cluster.size, cluster.buffer("spare").is_provisioned) == (3, True)
    assert cluster.ordered() == {}


@pytest.mark.req("BF-08")
def test_the_chunks_in_the_status_are_provisioned_whatever_the_spec() -> None:
    document = buffer(capacity={"pods": {"replicaNum": 50, "podSpec": a_spec()}})
    document["metadata"] = {"name": "spare", "namespace": "default", "uid": "u"}
    untranslated = msgspec.convert(document, Buffer)
    assert Cluster(a_group("small")).buffers(untranslated).ordered() == {}
    by_others = msgspec.convert(
        {**document, "status": {"podBasedBufferSpec": {"replicaNum": 4, "podSpec": a_spec()}}}, Buffer
    )
    assert Cluster(a_group("small")).buffers(by_others).ordered() == {"small": 1}


def test_a_buffer_of_another_type_is_ignored() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("theirs", 3, type="example.com/standby"))
    assert (cluster.ordered(), cluster.plan().buffers) == ({}, ())


@pytest.mark.req("BF-30")
def test_chunks_only_fit_nodes_that_match_their_selector() -> None:
    cluster = Cluster(a_group("a", labels={"disk": "ssd"}), a_group("b")).nodes(a_node("there"))
    cluster.buffers(a_buffer("spare", 2, a_spec(nodeSelector={"disk": "ssd"})))
    assert cluster.ordered() == {"a": 1}


def test_constrained_chunks_are_placed_before_others() -> None:
    bound = a_spec(nodeSelector={"disk": "ssd"})
    cluster = Cluster(a_group("a", labels={"disk": "ssd"}), a_group("b"))
    cluster.nodes(a_node("a-1", labels={"group": "a", "disk": "ssd"}), a_node("b-1", labels={"group": "b"}))
    # As after a restart: nobody remembers where chunks were.
    cluster.buffers(a_buffer("anywhere", 4), a_buffer("bound", 4, bound))
    assert cluster.ordered() == {}
    assert [cluster.buffer(name).is_provisioned for name in ("anywhere", "bound")] == [True, True]


@pytest.mark.req("BF-31")
def test_selectors_affinities_and_tolerations_of_chunks_count() -> None:
    tainted = a_group("tainted", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}], labels={"disk": "ssd"})
    tolerations = [{"key": "team", "operator": "Exists"}]
    labels = {"app": "web"}
    spec = a_spec(nodeSelector={"disk": "ssd"}, tolerations=tolerations, **apart(labels))
    cluster = Cluster(tainted, a_group("plain")).buffers(a_buffer("five", 5, spec, labels))
    assert cluster.ordered() == {"tainted": 5}


@pytest.mark.req("BF-34")
def test_keep_empty_headroom_is_refilled_when_a_pod_uses_it() -> None:
    cluster = Cluster(a_group("one", cpu="1"))
    cluster.buffers(a_buffer("spare", 3, **EMPTY)).reconcile()
    assert cluster.size == 3
    assert cluster.create(a_pod("taker")).schedule() == 1
    assert cluster.ordered() == {"one": 1}
    assert not cluster.buffer("spare").is_provisioned
    cluster.execute_orders().wait(60).plan()
    assert cluster.buffer("spare").is_provisioned


@pytest.mark.req("BF-35")
def test_no_node_is_added_when_pods_fill_a_keep_minimum_buffer() -> None:
    cluster = Cluster(a_group("one", cpu="1"))
    cluster.buffers(a_buffer("least", 3, **MINIMUM)).reconcile()
    assert cluster.size == 3
    assert cluster.create_pods(3).schedule() == 3
    assert cluster.ordered() == {}
    assert cluster.buffer("least").is_provisioned


@pytest.mark.req("BF-36")
def test_nodes_of_two_pools_together_meet_a_keep_minimum_buffer() -> None:
    cluster = Cluster(a_group("a", most=2), a_group("b", most=2)).add_group_nodes("a", 1).add_group_nodes("b", 1)
    cluster.buffers(a_buffer("least", 8, **MINIMUM)).plan()
    assert cluster.buffer("least").is_provisioned
    cluster.buffers(a_buffer("least", 16, **MINIMUM))
    assert cluster.ordered() == {"a": 1, "b": 1}


def test_daemon_set_pods_use_capacity_of_a_keep_minimum_buffer() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 1)
    cluster.snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "1"))
    cluster.place(a_pod("agent-1", owner=("DaemonSet", "agent"), namespace="kube-system"), "small-1")
    cluster.buffers(a_buffer("least", 4, **MINIMUM))
    assert cluster.ordered() == {"small": 1}


@pytest.mark.req("BF-52")
@pytest.mark.req("BF-53")
def test_unfilled_chunks_of_a_dedicated_minimum_are_kept_on_top_of_running_pods() -> None:
    # The status says what is left after matching pods; others fill nothing, and so are counted beside it.
    dedicated: Document = {**MINIMUM, "podSelector": {"matchLabels": {"app": "web"}}}
    cluster = Cluster(a_group("one", cpu="1")).buffers(a_buffer("own", 2, **dedicated)).reconcile()
    assert cluster.size == 2
    cluster.create_pods(2, labels={"app": "other"}).schedule()
    assert cluster.ordered() == {"one": 2}
    cluster.buffers(a_buffer("own", 0, **dedicated))
    cluster.execute_orders().wait(60).plan()
    assert cluster.buffer("own").reason.reason.code == "BufferNeedsNothing"
    # Pods beyond its size are served as any others.
    assert cluster.create_pods(4, prefix="web", labels={"app": "web"}).schedule() == 2
    assert cluster.ordered() == {"one": 2}


@pytest.mark.req("BF-05")
@pytest.mark.req("BF-43")
def test_any_pod_uses_the_capacity_of_a_buffer_at_once() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 8)).reconcile()
    assert cluster.create_pods(8, namespace="stranger", cpu="1").schedule() == 8


def test_real_pods_get_limited_capacity_before_chunks() -> None:
    cluster = Cluster(a_group("small", most=1)).buffers(a_buffer("spare", 4, a_spec(priority=1000)))
    plan = cluster.create_pods(4).plan()
    assert ([pod.unplaced for pod in plan.pods], cluster.buffer("spare").unplaced) == ([0], 4)
    assert [order.reason.reason.code for order in plan.orders] == ["OrderedForPods"]


def test_chunks_use_the_free_capacity_of_nodes_ordered_for_pods() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 2)).create_pods(2)
    assert cluster.ordered() == {"small": 1}


@pytest.mark.req("BF-47")
def test_pods_that_fit_into_a_buffer_need_no_new_node_and_it_is_refilled() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 4)).reconcile()
    for wave in range(5):
        assert cluster.create_pods(4, prefix=f"wave-{wave}").schedule() == 4
        cluster.reconcile()
    assert cluster.buffer("spare").is_provisioned
    assert cluster.size == 6


@pytest.mark.req("BF-49")
def test_short_lived_tasks_start_at_once_while_they_fit() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 4, **MINIMUM)).reconcile()
    for wave in range(3):
        assert cluster.create_pods(4, prefix=f"task-{wave}").schedule() == 4
        assert cluster.ordered() == {}
        cluster.delete(*(f"task-{wave}-{number:04}" for number in range(4)))
    assert cluster.size == 1


def test_chunks_keep_their_nodes_while_other_buffers_change() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 4).buffers(a_buffer("spare", 4, a_spec("3")))
    cluster.plan()
    seats = cluster.buffer("spare").nodes
    assert sorted(seats) == [f"small-{number}" for number in range(1, 5)]
    cluster.place(a_pod("big", cpu="2"), "small-2").nodes(a_node("new")).plan()
    assert cluster.buffer("spare").nodes == tuple("new" if name == "small-2" else name for name in seats)
    cluster.delete("big")
    cluster.plan()
    assert cluster.buffer("spare").nodes == tuple("new" if name == "small-2" else name for name in seats)


def test_chunks_with_inter_pod_rules_prefer_their_previous_nodes() -> None:
    labels = {"app": "web"}
    cluster = (
        Cluster(a_group("small"))
        .add_group_nodes("small", 3)
        .buffers(a_buffer("spare", 2, a_spec(**apart(labels)), labels))
    )
    cluster.plan()
    seats = set(cluster.buffer("spare").nodes)
    cluster.nodes(a_node("a-first")).plan()
    assert set(cluster.buffer("spare").nodes) == seats


def test_a_buffer_that_shrinks_keeps_the_chunks_with_the_lowest_numbers() -> None:
    cluster = Cluster(a_group("small")).add_group_nodes("small", 3).buffers(a_buffer("spare", 9))
    cluster.plan()
    before = cluster.buffer("spare").nodes
    cluster.buffers(a_buffer("spare", 5)).plan()
    assert cluster.buffer("spare").nodes == before[:5]


def test_a_buffer_is_provisioned_only_on_ready_nodes() -> None:
    cluster = Cluster(a_group("small", boot_seconds=100)).buffers(a_buffer("spare", 4))
    cluster.plan()
    assert (cluster.buffer("spare").reason.reason.code, cluster.buffer("spare").provisioned_at) == (
        "BufferNodesOrdered",
        None,
    )
    cluster.execute_orders().wait(50).plan()
    result = cluster.buffer("spare")
    assert (result.reason.reason.code, result.is_provisioned, result.on_upcoming) == ("BufferAwaitsNodes", False, 4)
    cluster.wait(50).plan()
    assert (cluster.buffer("spare").is_provisioned, cluster.buffer("spare").provisioned_at) == (True, cluster.now)
    cluster.wait(10).nodes(a_node("small-1", labels={"group": "small"}, ready=False)).plan()
    assert (cluster.buffer("spare").is_provisioned, cluster.buffer("spare").provisioned_at) == (False, cluster.now - 10)


def test_a_chunk_that_fits_no_group_gets_the_reasons() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("huge", 2, a_spec("40")), a_buffer("spare", 2))
    assert cluster.ordered() == {"small": 1}
    result = cluster.buffer("huge")
    assert (result.unplaced, [str(refusal) for refusal in result.refused]) == (2, ["NodeTooSmall (cpu): small"])


def test_pods_placed_where_chunks_were_are_hits_and_pending_ones_are_misses() -> None:
    cluster = Cluster(a_group("one", cpu="1")).buffers(a_buffer("spare", 2)).reconcile()
    cluster.plan()
    assert cluster.create_pods(3).schedule() == 2
    cluster.plan()
    assert (cluster.buffer("spare").hits, cluster.buffer("spare").misses) == (2, 1)
    cluster.plan()
    assert (cluster.buffer("spare").hits, cluster.buffer("spare").misses) == (0, 0)


def test_a_pod_is_a_hit_although_it_was_observed_pending_first() -> None:
    cluster = Cluster(a_group("one", cpu="1")).buffers(a_buffer("spare", 2)).reconcile()
    cluster.plan()
    cluster.create_pods(1)
    for _ in range(2):
        cluster.plan()
        assert (cluster.buffer("spare").hits, cluster.buffer("spare").misses) == (0, 0)
    assert cluster.schedule() == 1
    cluster.plan()
    assert (cluster.buffer("spare").hits, cluster.buffer("spare").misses) == (1, 0)
    cluster.plan()
    assert cluster.buffer("spare").hits == 0


def test_a_pod_deleted_while_pending_is_no_hit() -> None:
    cluster = Cluster(a_group("one", cpu="1")).buffers(a_buffer("spare", 1)).reconcile()
    cluster.create(a_pod("first")).plan()
    cluster.delete("first").plan()
    cluster.create(a_pod("second")).schedule()
    cluster.plan()
    assert cluster.buffer("spare").hits == 1


def test_a_pod_that_is_larger_than_a_chunk_is_no_miss() -> None:
    cluster = Cluster(a_group("small")).buffers(a_buffer("spare", 1)).reconcile()
    cluster.create(a_pod("large", cpu="4")).plan()
    assert cluster.buffer("spare").misses == 0


def test_the_price_of_a_buffer_is_its_share_of_its_nodes() -> None:
    cluster = Cluster(a_group("small", price=2.0)).add_group_nodes("small", 2).buffers(a_buffer("spare", 4))
    cluster.plan()
    assert cluster.buffer("spare").price == pytest.approx(2.0)


def test_an_unreadable_status_is_reported_and_affects_no_other_buffer() -> None:
    bad = a_buffer("bad", 2, a_spec(cpu="much"))
    cluster = Cluster(a_group("small")).buffers(bad, a_buffer("good", 2))
    assert cluster.ordered() == {"small": 1}
    assert "podSpec" in str(cluster.snapshot.problems["Buffer", ("default", "bad")])
    assert [buffer.key[1] for buffer in cluster.plan().buffers] == ["good"]


@pytest.mark.parametrize("count", [-1, 2_000_000])
def test_an_excessive_number_of_chunks_is_refused(count: int) -> None:
    assert "replicaNum" in str(read_chunks(a_buffer("bad", count)))


def test_the_name_of_a_chunk_never_changes() -> None:
    result = read_chunks(a_buffer("spare", 3))
    assert result is not None
    assert result.get_name(2) == "uid-spare#2"  # type: ignore[union-attr]


@pytest.mark.req("BF-41")
def test_ten_thousand_chunks_of_a_hundred_shapes_are_packed_once_per_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = counted_packing(monkeypatch)
    groups = [a_group(f"g{at}", cpu="16", memory="64Gi", labels={ZONE: "abc"[at % 3]}, most=5000) for at in range(6)]
    cluster = Cluster(*groups, settings=ScaleUpSettings(max_nodes_per_scaleup=10_000))
    cluster.buffers(*(a_buffer(f"b{at:02}", 100, a_spec(f"{100 + at}m", "256Mi")) for at in range(100)))
    plan = cluster.plan()
    assert sum(sum(buffer.ordered.values()) for buffer in plan.buffers) == 10_000
    nodes = sum(order.count for order in plan.orders)
    assert nodes <= 110
    # Each shape is packed once, and again where it begins on a new node; no chunk is packed by itself.
    assert packed() <= 100 + nodes
    cluster.reconcile()
    packed()
    assert cluster.plan().orders == ()
    assert packed() <= 2 * 100, "where there is room for all, once for the places they had and once for others"
