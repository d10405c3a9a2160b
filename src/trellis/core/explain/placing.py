"""Where do a Buffer's chunks, or a pod that waits, find room? What the plan for more nodes says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trellis.api.kube.pods import Pod
from trellis.base.reason import Reason
from trellis.core.explain.buffer_parts import Hindrance, Told
from trellis.core.explain.node_parts import Placing, Refusal
from trellis.core.explain.nodes import told
from trellis.core.explain.noding import Noded
from trellis.core.fit import Demand, why_not
from trellis.core.model.keys import Key, key_of
from trellis.core.nodes.verdicts import GroupsRefused
from trellis.core.nodes.worlds import World

NO_NODE_SOUGHT = Reason(
    "NoNodeSought",
    "No node is ordered for the pod: it is held back, is of a DaemonSet, or makes way for all others.",
)
SCHEDULER_HAS_NOT_LOOKED = Reason(
    "SchedulerHasNotLooked", "The scheduler has not said yet that it has no node for the pod, so that none is ordered."
)


def buffer_placing(noded: Noded, key: Key) -> Placing | None:
    """What is found for a Buffer; None if its status has no pods that could be placed."""
    verdict = next((each for each in noded.up.buffers if each.key == key), None)
    if verdict is None:
        return None
    chunks = noded.snapshot.buffers[key]
    world = noded.snapshot.running if chunks.on_top else noded.snapshot.fixed
    is_short = verdict.on_ready < verdict.chunks
    return Placing(
        told=told(verdict.said),
        count=verdict.chunks,
        ready=verdict.on_ready,
        coming=verdict.on_coming,
        ordered=verdict.ordered,
        unplaced=verdict.unplaced,
        nodes=dict(sorted(Counter(each for each in verdict.nodes if each).items())),
        orders=_orders(noded),
        refused=_refusals(verdict.refused),
        obstacles=_obstacles(noded, chunks.demand, world) if is_short else (),
    )


def pod_placing(noded: Noded, pod: Pod) -> Placing | None:
    """What is found for a pod without a node; None if it has one."""
    key = key_of(pod)
    if pod.spec.node_name or key in noded.snapshot.placed:
        return None
    problem = noded.snapshot.problems.get(("Pod", key))
    if problem is not None:
        return Placing(told(problem), 1, unplaced=1)
    waiting = noded.snapshot.pending.get(key)
    verdict = next((each for each in noded.up.pods if key in each.pods), None)
    if waiting is None:
        return Placing(Told(NO_NODE_SOUGHT), 1, unplaced=1)
    obstacles = _obstacles(noded, waiting.demand, noded.snapshot.running)
    if verdict is None:
        return Placing(Told(SCHEDULER_HAS_NOT_LOOKED), 1, unplaced=1, orders=_orders(noded), obstacles=obstacles)
    return Placing(
        told=told(verdict.said),
        count=len(verdict.pods),
        ready=verdict.on_ready,
        coming=verdict.on_coming,
        ordered=verdict.ordered,
        unplaced=verdict.unplaced,
        orders=_orders(noded),
        refused=_refusals(verdict.refused),
        obstacles=obstacles,
    )


def _orders(noded: Noded) -> dict[str, int]:
    return {each.group: each.count for each in noded.up.orders}


def _refusals(refused: Iterable[GroupsRefused]) -> tuple[Refusal, ...]:
    return tuple(Refusal(each.reason, each.groups, each.resource) for each in refused)


def _obstacles(noded: Noded, demand: Demand, world: World) -> tuple[Hindrance, ...]:
    """What keeps it from the nodes that there are."""
    found = why_not(noded.snapshot.table, demand, world.used, world.near)
    return tuple(Hindrance(each.reason, each.nodes, each.resource) for each in found)
