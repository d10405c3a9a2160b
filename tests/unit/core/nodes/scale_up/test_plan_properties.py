"""What holds for every plan for more nodes, whatever waits and whatever groups there are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from support.builders.nodes_and_pods import seeded, sometimes
from support.worlds.nodes import HOST, ZONE, Cluster, a_buffer, a_group, a_node, a_spec, apart, near, spread
from trellis.core.nodes.node_groups import NodeGroup
from trellis.core.nodes.settings import ScaleUpSettings

worlds = st.integers(0, 2**32).map(seeded)
few = tries(max_examples=40, deadline=None)


def a_random_group(rng: Random, name: str) -> NodeGroup:
    labels = {ZONE: rng.choice("abc")} if sometimes(rng, 0.8) else {}
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}] if sometimes(rng, 0.2) else []
    cpu, memory = rng.choice(("1", "2", "4", "8")), rng.choice(("2Gi", "8Gi", "32Gi"))
    fields = {
        "most": rng.choice((0, 1, 3, 20)),
        "price": rng.choice((0.0, 1.0, 2.5)),
        "priority": rng.choice((0, 0, 5)),
    }
    return a_group(name, cpu, memory, labels=labels, taints=taints, **fields)  # type: ignore[arg-type]


def a_random_spec(rng: Random, app: str, *, spreads: bool) -> dict[str, Any]:
    """Random constraints of a pod on nodes and other pods."""
    rules: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"nodeSelector": {ZONE: rng.choice("abcd")}},
        {"tolerations": [{"key": "team", "operator": "Exists"}]},
        spread({"app": app}, rng.choice((ZONE, HOST)), rng.choice((1, 2))) if spreads else {},
        apart({"app": app}, rng.choice((HOST, HOST, ZONE))),
        near({"app": app}, ZONE),
    )
    sizes = {"cpu": rng.choice(("100m", "900m", "1", "3", "9")), "memory": rng.choice(("64Mi", "1Gi", "3Gi"))}
    return {**sizes, **rng.choice(rules)}


def a_random_cluster(rng: Random, *, buffers: bool = True, spreads: bool = True) -> Cluster:
    groups = [a_random_group(rng, f"g{at}") for at in range(rng.choice((1, 2, 4)))]
    settings = ScaleUpSettings(
        max_nodes_total=rng.choice((0, 0, 4)),
        cores_total=rng.choice((0, 0, 16)),
        balance_similar_node_groups=sometimes(rng, 0.7),
    )
    cluster = Cluster(*groups, settings=settings)
    for group in groups:
        cluster.add_group_nodes(group.name, min(group.max_size, rng.choice((0, 0, 1, 2))))
    cluster.nodes(*(a_node(f"own-{at}", rng.choice(("1", "4")), "8Gi") for at in range(rng.choice((0, 1)))))
    for at in range(rng.choice((0, 1, 3, 5))):
        app = f"app-{at}"
        priority = {"priority": rng.choice((0, 0, 1000))}
        cluster.create_pods(
            rng.choice((1, 2, 7)), app, labels={"app": app}, **priority, **a_random_spec(rng, app, spreads=spreads)
        )
    for at in range(rng.choice((0, 1, 2)) if buffers else 0):
        spec = a_random_spec(rng, f"spare-{at}", spreads=spreads)
        strategy = rng.choice(("KeepEmpty", "KeepMinimum"))
        chunk = a_spec(**spec)
        count = rng.choice((0, 1, 4, 9))
        cluster.buffers(a_buffer(f"b{at}", count, chunk, {"app": f"spare-{at}"}, recreationStrategy=strategy))
    return cluster


@few
@given(rng=worlds)
def test_limits_are_never_exceeded(rng: Random) -> None:
    cluster = a_random_cluster(rng)
    before = cluster.size
    cores = sum(int(node.status.allocatable["cpu"]) for node in cluster.snapshot.nodes.values())
    plan = cluster.plan()
    for order in plan.orders:
        assert order.count > 0
        assert order.target == cluster.state(order.group).target + order.count <= cluster.groups[order.group].max_size
    ordered = sum(order.count for order in plan.orders)
    limits = cluster.settings
    new = sum(
        int(cluster.groups[order.group].template.status.allocatable["cpu"]) * order.count for order in plan.orders
    )
    if ordered and limits.max_nodes_total:
        assert before + ordered <= limits.max_nodes_total
    if ordered and limits.cores_total:
        assert cores + new <= limits.cores_total


@few
@given(rng=worlds)
def test_every_pod_and_chunk_is_counted_once(rng: Random) -> None:
    plan = a_random_cluster(rng).plan()
    for verdict in plan.pods:
        placed = verdict.on_ready + verdict.on_upcoming + sum(verdict.ordered.values())
        assert placed + verdict.unplaced == len(verdict.pods)
        assert bool(verdict.unplaced) == (verdict.reason.reason.severity != "info")
    for result in plan.buffers:
        assert result.on_ready + result.on_upcoming + sum(result.ordered.values()) + result.unplaced == result.chunks
        assert result.is_provisioned == (result.on_ready == result.chunks)


# Pods that must lie evenly are left out of the next two: every node that comes up for others asks more of them.


@few
@given(rng=worlds)
def test_no_node_is_ordered_again_for_the_same_pods(rng: Random) -> None:
    cluster = a_random_cluster(rng, spreads=False)
    first = cluster.plan()
    if any(pod.unplaced for pod in first.pods) or any(buffer.unplaced for buffer in first.buffers):
        return
    # Before the provider shows it, and while nodes boot.
    assert not cluster.plan().orders
    cluster.execute_orders(first).wait(1)
    assert not cluster.plan().orders


@few
@given(rng=worlds)
def test_ordered_nodes_serve_the_pods_they_were_ordered_for(rng: Random) -> None:
    cluster = a_random_cluster(rng, buffers=False, spreads=False)
    plan = cluster.plan()
    promised = sum(sum(pod.ordered.values()) for pod in plan.pods)
    after = cluster.execute_orders().wait(120).plan()
    assert sum(pod.on_ready for pod in after.pods) >= promised


@few
@given(rng=worlds)
def test_a_process_without_memory_orders_no_node_twice(rng: Random) -> None:
    cluster = Cluster(a_group("only", rng.choice(("2", "4", "8")), "16Gi"))
    for at in range(rng.choice((1, 3, 6))):
        cluster.create_pods(rng.choice((1, 3, 8)), f"app-{at}", cpu=rng.choice(("100m", "700m", "1", "2")))
    cluster.plan()
    cluster.execute_orders().wait(1)
    cluster.memory = type(cluster.memory)()
    assert not cluster.plan().orders


@few
@given(rng=worlds)
def test_plain_pods_get_as_many_nodes_as_sequential_first_fit(rng: Random) -> None:
    kinds = [(rng.randrange(50, 4000), rng.choice((1, 2, 5, 9))) for _ in range(rng.choice((1, 3, 8)))]
    cluster = Cluster(a_group("only", "4", "64Gi"))
    for at, (millicores, count) in enumerate(kinds):
        cluster.create_pods(count, f"app-{at}", cpu=f"{millicores}m", memory="1Mi")
    free: list[int] = []
    for millicores, count in sorted(kinds, reverse=True):
        for _ in range(count):
            first = next((at for at, remaining in enumerate(free) if remaining >= millicores), None)
            if first is None:
                free.append(4000 - millicores)
            else:
                free[first] -= millicores
    assert cluster.ordered() == {"only": len(free)}


@few
@given(rng=worlds)
def test_repeated_planning_and_booting_reaches_a_fixed_point(rng: Random) -> None:
    cluster = a_random_cluster(rng)
    for _ in range(12):
        if not cluster.plan().orders:
            break
        cluster.execute_orders().wait(120)
    assert not cluster.plan().orders
    cluster.wait(5)
    assert not cluster.plan().orders


@few
@given(rng=worlds)
def test_without_pending_pods_and_with_provisioned_buffers_a_plan_changes_nothing(rng: Random) -> None:
    cluster = a_random_cluster(rng)
    cluster.delete(*cluster.pending)
    cluster.plan()
    for _ in range(6):
        cluster.execute_orders().wait(120).plan()
    pod_level = {buffer.uid: buffer.nodes for buffer in cluster.plan().buffers if buffer.is_provisioned}
    plan = cluster.plan()
    assert not [order for order in plan.orders if order.reason.reason.code == "OrderedForPods"]
    for result in plan.buffers:
        if result.uid in pod_level:
            assert result.nodes == pod_level[result.uid]


@pytest.mark.req("BF-43")
@few
@given(rng=worlds)
def test_buffers_take_no_capacity_from_real_pods(rng: Random) -> None:
    state = rng.getstate()
    without = a_random_cluster(rng, buffers=False)
    rng.setstate(state)
    with_buffers = a_random_cluster(rng)
    assert [(pod.pods, pod.unplaced) for pod in without.plan().pods] == [
        (pod.pods, pod.unplaced) for pod in with_buffers.plan().pods
    ]


@few
@given(rng=worlds)
def test_the_same_cluster_has_the_same_plan(rng: Random) -> None:
    cluster = a_random_cluster(rng)
    memory = cluster.memory
    first = cluster.plan()
    cluster.memory = memory
    assert cluster.plan() == first
