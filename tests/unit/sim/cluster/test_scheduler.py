"""Where the scheduler of the model cluster puts pods that ask something about others, without groups of nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from support.worlds.simulated_cluster import World, fleet, ref, shape, workload
from trellis.core.cluster.write_results import WriteResult
from trellis.sim.fleet import SimulatedWorkload

HOST = "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def required(kind: str) -> dict[str, Any]:
    term = {"labelSelector": WEB, "topologyKey": HOST}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(name: str, replicas: int, **spec: Any) -> SimulatedWorkload:
    made = workload(name, replicas, spec=spec)
    return msgspec.structs.replace(made, template={**made.template, "metadata": {"labels": {"app": name}}})


def where(world: World, name: str = "web") -> Counter[str]:
    return Counter(pod.spec.node_name for pod in world.list_pods(name))


def test_pods_that_keep_apart_are_not_put_together_and_the_rest_waits() -> None:
    world = World(fleet(labelled("web", 3, **required("podAntiAffinity")), nodes=(shape(count=2),))).run(60)
    assert where(world) == {"node-1": 1, "node-2": 1, "": 1}


def test_pods_that_keep_apart_do_so_again_after_one_was_made_anew() -> None:
    world = World(fleet(labelled("web", 2, **required("podAntiAffinity")), nodes=(shape(count=2),))).run(60)
    first = world.list_pods("web")[0]
    assert world.cluster.evict(ref(first)) is WriteResult.APPLIED
    world.run(60)
    assert where(world) == {"node-1": 1, "node-2": 1}


def test_a_pod_with_affinity_is_placed_beside_its_match() -> None:
    other = labelled("other", 3, **required("podAffinity"))
    world = World(fleet(labelled("web", 1), other, nodes=(shape(count=3),))).run(60)
    assert where(world, "other").keys() == where(world).keys()


def test_pods_are_spread_over_nodes() -> None:
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    nodes = (shape(count=1, name="large", cpu="64"), shape(count=2))
    world = World(fleet(labelled("web", 6, topologySpreadConstraints=[rule]), nodes=nodes)).run(60)
    assert sorted(where(world).values()) == [2, 2, 2]


def tainted(*taints: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"taints": list(taints)}}


SOFT = {"key": "unneeded", "effect": "PreferNoSchedule"}
TOLERATED = {"tolerations": [{"key": "unneeded", "operator": "Exists"}]}


def test_nodes_with_soft_taints_are_used_last_although_they_are_larger() -> None:
    nodes = (shape("64", "256Gi", name="avoided", **tainted(SOFT)), shape("4", "16Gi"))
    world = World(fleet(workload("web", 10), nodes=nodes)).run(60)
    assert where(world) == {"node-1": 8, "avoided-1": 2}


def test_a_pod_that_tolerates_a_soft_taint_does_not_avoid_it() -> None:
    nodes = (shape("64", "256Gi", name="avoided", **tainted(SOFT)), shape("4", "16Gi"))
    assert where(World(fleet(workload("web", 2, spec=TOLERATED), nodes=nodes)).run(60)) == {"avoided-1": 2}
    only_hard = {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}
    assert where(World(fleet(workload("web", 2, spec=only_hard), nodes=nodes)).run(60)) == {"node-1": 2}


def test_the_node_with_fewer_soft_taints_is_preferred() -> None:
    other = {"key": "slow", "effect": "PreferNoSchedule"}
    nodes = (shape("64", "256Gi", name="both", **tainted(SOFT, other)), shape("4", "16Gi", name="one", **tainted(SOFT)))
    assert where(World(fleet(workload("web", 2), nodes=nodes)).run(60)) == {"one-1": 2}


def test_nodes_are_up_without_their_startup_taints() -> None:
    startup = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/agent", "effect": "NoSchedule"}
    world = World(fleet(workload("web", 2), nodes=(shape(**tainted(startup)),))).run(60)
    assert where(world) == {"node-1": 2}
