"""Properties of scale-down plans: drained pods fit elsewhere, and no protected pod is evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.nodes import a_buffer, a_group, a_pod, a_spec
from support.worlds.scale_down import ShrinkingCluster, a_budget, a_web_pod
from trellis.core.nodes.scale_down.decisions import DrainPod, NodeOutcome, ScaleDownPlan, SetTaints
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.readiness import LEAVING_TAINT

QUICK = ScaleDownSettings(scale_down_unneeded_seconds=30.0, scale_down_unready_seconds=60.0, max_drain_parallelism=3)
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
CORES = 4000
PASSES = 14


class Drawn(msgspec.Struct, frozen=True):
    """A pod: its millicores, its node, which of two budgets it is under, and whether it must not be moved."""

    cpu: int
    node: int
    budget: int
    unsafe: bool


pods = st.builds(
    Drawn,
    cpu=st.sampled_from((250, 500, 1000, 1500, 2500)),
    node=st.integers(1, 5),
    budget=st.integers(0, 2),
    unsafe=st.integers(0, 9).map(lambda number: number == 0),
)


def a_world(drawn: Sequence[Drawn], least: int, allowed: Sequence[int]) -> ShrinkingCluster:
    cluster = ShrinkingCluster(a_group("small", min_size=least), down=QUICK)
    cluster.add_group_nodes("small", 5)
    used: Counter[int] = Counter()
    for at, drawn_pod in enumerate(drawn):
        if used[drawn_pod.node] + drawn_pod.cpu > CORES:
            continue
        used[drawn_pod.node] += drawn_pod.cpu
        labels, annotations = {"app": f"app-{drawn_pod.budget}"}, UNSAFE if drawn_pod.unsafe else {}
        pod = a_web_pod(f"p{at}", f"{drawn_pod.cpu}m", memory="1Mi", labels=labels, annotations=annotations)
        cluster.run(f"small-{drawn_pod.node}", pod)
    cluster.budgets = [a_budget(f"b{at}", count, {"app": f"app-{at}"}) for at, count in enumerate(allowed)]
    return cluster


def fit_all(items: list[int], free: list[int]) -> bool:
    """Whether there is any way at all to put them; the largest first."""
    if not items:
        return True
    tried = set()
    for at, capacity in enumerate(free):
        if capacity >= items[0] and capacity not in tried:
            tried.add(capacity)
            if fit_all(items[1:], [*free[:at], capacity - items[0], *free[at + 1 :]]):
                return True
    return False


def free_and_movers(cluster: ShrinkingCluster) -> tuple[list[int], list[int]]:
    """What is free on nodes that stay, and what has to be moved there or waits."""
    leaving = {name for name, decision in cluster.decisions.items() if decision.outcome is NodeOutcome.LEAVING}
    demands = {placed.key: placed.demand.requests["cpu"] for placed in cluster.snapshot.placed.values()}
    free = {name: CORES for name in cluster.snapshot.nodes if name not in leaving}
    movers = [pending.demand.requests["cpu"] for pending in cluster.snapshot.pending.values()]
    for pod in cluster.snapshot.placed.values():
        if pod.node in free:
            free[pod.node] -= demands[pod.key]
        else:
            movers.append(demands[pod.key])
    return sorted(movers, reverse=True), list(free.values())


def check_evictions(cluster: ShrinkingCluster, plan: ScaleDownPlan) -> None:
    deleted = [cluster.pods[action.name] for action in plan.actions if isinstance(action, DrainPod)]
    assert not any(pod.metadata.annotations for pod in deleted)
    for at, budget in enumerate(cluster.budgets):
        count = sum(pod.metadata.labels["app"] == f"app-{at}" for pod in deleted)
        assert count <= budget.status.disruptions_allowed


def check_marks(cluster: ShrinkingCluster, plan: ScaleDownPlan) -> None:
    newly = [action.node for action in plan.actions if isinstance(action, SetTaints) and action.taints]
    for name in newly:
        assert not any(pod.pod.metadata.annotations for pod in cluster.snapshot.pods_on(name).values())
    if newly:
        assert fit_all(*free_and_movers(cluster))
    leaving = list(cluster.scale_down_memory.removals.values())
    assert len(leaving) <= QUICK.max_scale_down_parallelism
    assert sum(removal.drains for removal in leaving) <= QUICK.max_drain_parallelism


@settings(max_examples=25)
@given(
    drawn=st.lists(pods, max_size=10),
    least=st.integers(0, 4),
    allowed=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    crash=st.integers(0, 2 * PASSES),
)
def test_no_protected_pod_is_evicted_and_evicted_pods_fit_elsewhere(
    drawn: list[Drawn], least: int, allowed: tuple[int, int], crash: int
) -> None:
    cluster = a_world(drawn, least, allowed)
    for number in range(PASSES):
        if number == crash:
            cluster.scale_down_memory = ScaleDownMemory()
        plan = cluster.plan_removals()
        check_evictions(cluster, plan)
        check_marks(cluster, plan)
        cluster.execute(plan)
        assert len(cluster.snapshot.nodes) >= max(least, 1 if cluster.pods else 0)
        if number == crash:
            assert not cluster.tainted_nodes
        cluster.plan()
        cluster.schedule()
        cluster.wait(10)


@settings(max_examples=15)
@given(
    counts=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    chunks=st.integers(0, 6),
    on_top=st.booleans(),
    waiting=st.integers(0, 2),
)
def test_removals_lose_no_pod_order_no_node_and_end(counts: list[int], chunks: int, on_top: bool, waiting: int) -> None:
    cluster = ShrinkingCluster(a_group("small"), down=QUICK)
    cluster.add_group_nodes("small", 4)
    for node, count in enumerate(counts, 1):
        cluster.run(f"small-{node}", *(a_web_pod(f"p{node}-{at}") for at in range(count)))
    strategy = "KeepEmpty" if on_top else "KeepMinimum"
    cluster.buffers(a_buffer("spare", chunks, a_spec(), recreationStrategy=strategy))
    was_whole = cluster.plan().buffers[0].is_provisioned
    for number in range(30):
        if number == 3:
            cluster.create(*(a_pod(f"late-{at}", owner=("ReplicaSet", "web")) for at in range(waiting)))
        cluster.execute(cluster.plan_removals())
        plan = cluster.plan()
        if number < 3 or not waiting:
            assert plan.orders == () or not was_whole
            assert plan.buffers[0].is_provisioned or not was_whole
        cluster.schedule()
        cluster.wait(10)
    assert len(cluster.pods) == sum(counts) + waiting
    assert cluster.tainted_nodes == []
    assert cluster.plan_removals().actions == ()
    repeated = cluster.plan_removals()
    assert repeated.actions == ()
    needed = sum(counts) + waiting + chunks if on_top else max(sum(counts) + waiting, chunks)
    if was_whole and not cluster.pending:
        assert len(cluster.snapshot.nodes) <= max(-(-needed // 4), 0) + 1
    assert LEAVING_TAINT not in {taint.key for node in cluster.snapshot.nodes.values() for taint in node.spec.taints}
