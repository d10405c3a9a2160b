"""What is known of the cluster after any sequence of changes, and how its nodes stand."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from support.builders.nodes_and_pods import seeded, sometimes
from support.worlds.nodes import START, Cluster, a_daemon_set, a_group, a_node, a_pod, apart
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.fit import Storage
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.readiness import LEAVING_TAINT, classify_nodes
from trellis.core.nodes.state.snapshot import ClusterSnapshot

KEEP_APART = apart({"app": "x"})


def counted(snapshot: ClusterSnapshot) -> dict[str, tuple[int, ...]]:
    """The usage of each node, by all pods and by those that belong to it, and the anti-affinity terms."""
    table = snapshot.table
    columns = [*snapshot.running.used.amounts, *snapshot.fixed.used.amounts]
    probe = next(iter(snapshot.placed.values())).profile if snapshot.placed else None
    terms = len(snapshot.running.existing_pods.find_anti_affinity_terms(probe)) if probe is not None else 0
    return {name: (*(int(column[table.find(name)]) for column in columns), terms) for name in snapshot.nodes}


def a_random_pod(rng: Random, name: str) -> Pod:
    pod = a_pod(
        name, rng.choice(("100m", "1", "2")), labels={"app": "x"}, priority=rng.choice((0, 0, -50)), **KEEP_APART
    )
    if sometimes(rng, 0.3):
        pod = a_pod(name, "50m", owner=("DaemonSet", "agent"), labels={"app": "x"})
    node = rng.choice(("", "a", "b", "c"))
    phase = rng.choice(("Running", "Running", "Succeeded")) if node else "Pending"
    promised = rng.choice(("", "a", "b")) if not node else ""
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    status = msgspec.structs.replace(pod.status, phase=phase, nominated_node_name=promised)
    return msgspec.structs.replace(pod, spec=spec, status=status)


@tries(max_examples=60, deadline=None)
@given(rng=st.integers(0, 2**32).map(seeded))
def test_a_snapshot_after_changes_equals_one_made_at_once(rng: Random) -> None:
    lived, nodes, pods = ClusterSnapshot(), dict[str, Node](), dict[str, Pod]()
    for _ in range(rng.choice((3, 10, 30))):
        name = rng.choice("abc")
        if sometimes(rng, 0.3):
            nodes.pop(name, None) if sometimes(rng, 0.5) else nodes.update({name: a_node(name, rng.choice(("2", "4")))})
            lived.put_node(name, nodes.get(name))
        else:
            pod = f"pod-{rng.randrange(4)}"
            pods.pop(pod, None) if sometimes(rng, 0.3) else pods.update({pod: a_random_pod(rng, pod)})
            lived.put_pod(("default", pod), pods.get(pod))
    fresh = ClusterSnapshot()
    for pod, object_ in pods.items():
        fresh.put_pod(("default", pod), object_)
    for name, node in nodes.items():
        fresh.put_node(name, node)
    assert counted(lived) == counted(fresh)
    assert (lived.placed.keys(), lived.pending.keys()) == (fresh.placed.keys(), fresh.pending.keys())


def test_pods_are_found_by_their_node() -> None:
    cluster = Cluster().nodes(a_node("a")).place(a_pod("one"), "a").place(a_pod("two"), "a")
    assert sorted(cluster.snapshot.pods_on("a")) == [("default", "one"), ("default", "two")]
    cluster.delete("one", "two")
    assert not cluster.snapshot.pods_on("a")


def test_arrivals_are_reported_once_and_without_pods_that_belong_to_their_node() -> None:
    cluster = Cluster().nodes(a_node("a"), a_node("b")).place(a_pod("one"), "a").place(a_pod("one"), "a")
    cluster.place(a_pod("agent", owner=("DaemonSet", "agent")), "b").place(a_pod("two"), "b")
    assert cluster.snapshot.pop_arrivals() == {"a": 1, "b": 1}
    assert cluster.snapshot.pop_arrivals() == {}


def test_an_unreadable_placed_pod_is_reported_and_counts_as_a_pod() -> None:
    cluster = Cluster().nodes(a_node("a")).place(a_pod("odd", cpu="lots"), "a")
    assert "lots" in str(cluster.snapshot.problems["Pod", ("default", "odd")])
    assert int(cluster.snapshot.running.used.free("pods")[0]) == 109
    cluster.delete("odd")
    assert not cluster.snapshot.problems


def test_an_unreadable_daemon_set_is_reported_until_it_is_readable() -> None:
    snapshot = ClusterSnapshot()
    snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "lots"))
    assert "lots" in str(snapshot.problems["DaemonSet", ("kube-system", "agent")])
    snapshot.put_daemon_set(("kube-system", "agent"), a_daemon_set("agent", "1"))
    assert (snapshot.problems, len(snapshot.daemons)) == ({}, 1)


def test_a_pod_without_its_claim_fits_no_node_until_the_claim_exists() -> None:
    cluster = Cluster(a_group("small"))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    cluster.create(a_pod("db", volumes=[volume]))
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert [str(refusal) for refusal in cluster.last.pods[0].refused] == ["VolumeNotReady: small"]
    cluster.snapshot.put_storage(Storage())
    assert list(cluster.snapshot.pending) == [("default", "db")]


NOT_READY_YET = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
WITHOUT_NETWORK = [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]


def find_readiness(cluster: Cluster, name: str) -> list[str]:
    result = classify_nodes(cluster.snapshot, cluster.now, ScaleUpSettings())
    number = cluster.snapshot.table.find(name)
    return [field for field in result.__struct_fields__ if getattr(result, field)[number]]


@pytest.mark.parametrize(
    ("node", "instance", "expected"),
    [
        (a_node("n"), None, "ready"),
        (a_node("n", ready=False), None, "unready"),
        (a_node("n"), (InstanceState.RUNNING, 0.0), "ready"),
        (a_node("n", ready=False), (InstanceState.RUNNING, 60.0), "starting"),
        (a_node("n", ready=False), (InstanceState.RUNNING, 3600.0), "unready"),
        (a_node("n"), (InstanceState.ORDERED, 60.0), "starting"),
        (a_node("n"), (InstanceState.FAILED, 60.0), "starting"),
        (a_node("n"), (InstanceState.LEAVING, 60.0), "leaving"),
        # A control plane takes its own taints off a moment after a node is Ready: it is not there for pods before.
        (a_node("n", taints=NOT_READY_YET), (InstanceState.RUNNING, 1.0), "starting"),
        (a_node("n", taints=NOT_READY_YET), (InstanceState.RUNNING, 3600.0), "unready"),
        (a_node("n", taints=NOT_READY_YET), None, "unready"),
        (a_node("n", taints=WITHOUT_NETWORK), (InstanceState.RUNNING, 1.0), "starting"),
        (a_node("n", taints=[{"key": LEAVING_TAINT, "effect": "NoSchedule"}]), None, "leaving"),
        (a_node("n", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]), None, "leaving"),
    ],
)
def test_every_node_has_exactly_one_readiness(
    node: Node, instance: tuple[InstanceState, float] | None, expected: str
) -> None:
    cluster = Cluster(a_group("small")).nodes(node)
    if instance is not None:
        state, ago = instance
        listed = Instance("n", state, START - ago, "n")
        cluster.snapshot.put_groups([GroupState(cluster.groups["small"], 1, (listed,))])
    assert find_readiness(cluster, "n") == [expected]


@pytest.mark.parametrize(("priority", "is_expendable"), [(None, False), (4, True), (5, False)])
def test_a_pod_without_a_priority_is_not_expendable_whatever_the_cutoff(
    priority: int | None, is_expendable: bool
) -> None:
    snapshot = ClusterSnapshot(expendable_below=5)
    snapshot.put_node("n", a_node("n"))
    snapshot.put_pod(("default", "running"), a_pod("running", priority=priority, nodeName="n"))
    snapshot.put_pod(("default", "waiting"), a_pod("waiting", priority=priority))
    assert snapshot.placed["default", "running"].is_expendable is is_expendable
    assert (("default", "waiting") in snapshot.pending) is not is_expendable
