"""Pods on the model cluster: how they are made, placed, started, and made again."""

from __future__ import annotations

import msgspec
import pytest

from support.worlds.simulated_cluster import (
    BEGIN,
    GIB,
    World,
    container,
    container_demand,
    fault,
    fleet,
    is_ready,
    ref,
    shape,
    workload,
)
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import Deployment, Job, ReplicaSet, StatefulSet
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.past_pods import build_pod_name_pattern
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.view import PodView
from trellis.sim.cluster import PodEvent
from trellis.sim.fleet import StartProfile

MINUTE = 60.0


def test_a_pod_has_all_fields_that_the_core_reads() -> None:
    world = World(fleet(workload("web", 1, container(limits={"memory": "2Gi"})))).run(20)
    pod = world.get_pod()
    view = PodView.from_pod(pod)
    assert view.ready
    assert view.ref == ref(pod)
    assert view.controller is not None
    assert view.controller.kind == "ReplicaSet"
    assert view.created == BEGIN
    assert view.started == BEGIN
    assert view.ready_since == BEGIN + 6
    assert view.in_force.containers[0].requests == {"cpu": 500, "memory": GIB}
    assert view.in_force.containers[0].limits == {"memory": 2 * GIB}
    assert pod.status.phase == "Running"
    assert pod.status.qos_class == "Burstable"
    assert pod.spec.node_name == "node-1"
    owner = pod.metadata.controller
    assert owner is not None
    replica_set = world.workloads["ReplicaSet", owner.name]
    assert replica_set.metadata.uid == owner.uid
    assert isinstance(replica_set, ReplicaSet)
    assert replica_set.spec.replicas == 1
    assert isinstance(world.workloads["Deployment", "web"], Deployment)
    pattern = build_pod_name_pattern(TargetRef("shop", "apps/v1", "Deployment", "web"))
    assert pattern is not None
    assert pattern.fullmatch(pod.metadata.name)


def test_a_limit_without_a_request_is_also_the_request() -> None:
    bare = {"name": "app", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    pod = World(fleet(workload("web", 1, bare))).run(20).get_pod()
    assert pod.spec.containers[0].resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert pod.status.qos_class == "Guaranteed"


def test_new_pods_pass_through_admission_before_they_are_placed() -> None:
    def admit(pod: Pod) -> Pod:
        resources = msgspec.structs.replace(pod.spec.containers[0].resources, requests={"cpu": "3", "memory": "1Gi"})
        sized = msgspec.structs.replace(pod.spec.containers[0], resources=resources)
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=(sized,)))

    world = World(fleet(workload("web", 2)), admit).run(20)
    assert sorted(pod.status.phase for pod in world.list_pods()) == ["Pending", "Running"]
    assert world.cluster.rows.cpu_request[world.cluster.rows.numbers()].tolist() == [3.0]


def test_a_pod_without_headroom_waits_and_is_placed_when_another_goes() -> None:
    world = World(fleet(workload("web", 2, container(cpu="3")), workload("late", 1))).run(60)
    waiting = next(pod for pod in world.list_pods() if not pod.spec.node_name)
    assert world.cluster.pending == 1
    assert world.cluster.pending_seconds().tolist() == [60.0, 0.0]
    # What comes later and fits is not held up by what does not.
    assert world.get_pod("late").spec.node_name == "node-1"
    placed = next(pod for pod in world.list_pods() if pod.spec.node_name)
    assert world.cluster.evict(ref(placed)) is WriteResult.APPLIED
    world.run(10)
    assert world.pods[waiting.metadata.name].spec.node_name == "node-1"
    assert world.cluster.counters.pending_seconds.tolist() == pytest.approx([60.8, 0.0])


def test_pods_are_spread_over_nodes_and_kept_off_those_they_do_not_allow() -> None:
    nodes = (shape(count=2), shape(name="special", metadata={"labels": {"zone": "a"}}))
    pinned = workload("pinned", 1, spec={"nodeSelector": {"zone": "a"}})
    world = World(fleet(workload("web", 3), pinned, nodes=nodes)).run(20)
    assert sorted(pod.spec.node_name for pod in world.list_pods()) == ["node-1", "node-2", "special-1"]
    assert world.get_pod("pinned").spec.node_name == "special-1"


@pytest.mark.parametrize(("limit", "seconds"), [(None, 31.0), ("500m", 61.0), ("250m", 121.0)])
def test_a_start_takes_as_long_as_its_limit_of_cpu_makes_it(limit: str | None, seconds: float) -> None:
    limits = {} if limit is None else {"cpu": limit}
    start = StartProfile(seconds=1.0, work=29.5, cores=1.0)
    app = container(cpu="100m", limits={**limits, "memory": "2Gi"})
    world = World(fleet(workload("web", 1, app, start=start))).run(300)
    began = 1.0 + 1.0
    assert world.times(PodEvent.STARTED) == [pytest.approx(began + 29.5 / (float(limit[:-1]) / 1000 if limit else 1.0))]
    assert world.cluster.counters.start_seconds[0] == pytest.approx(world.times(PodEvent.STARTED)[0])
    assert seconds - 1 <= world.times(PodEvent.STARTED)[0] <= seconds + 1


@pytest.mark.parametrize(("probe", "ready_at"), [(True, 31.0), (False, 1.0)])
def test_a_pod_is_ready_when_its_start_is_done_or_without_a_probe_as_soon_as_it_runs(
    probe: bool, ready_at: float
) -> None:
    world = World(fleet(workload("web", 1, start=StartProfile(10.0, 20.0, 1.0, probe)))).run(0.5)
    assert not is_ready(world.get_pod())
    world.run(100)
    assert PodView.from_pod(world.get_pod()).ready_since == BEGIN + ready_at
    assert world.times(PodEvent.STARTED) == [31.0]


def test_a_start_is_faster_once_its_limit_is_raised() -> None:
    start = StartProfile(seconds=1.0, work=60.0, cores=2.0)
    world = World(fleet(workload("web", 1, container(limits={"cpu": "500m"}), start=start))).run(22)
    assert world.resize(world.get_pod(), limits={"cpu": "2"})[0] is WriteResult.APPLIED
    world.run(100)
    assert 40.0 < world.times(PodEvent.STARTED)[0] < 60.0


def test_starts_that_share_a_full_node_get_their_parts_by_request() -> None:
    start = StartProfile(seconds=1.0, work=120.0, cores=2.0)
    pods = [workload(name, 1, container(cpu=cpu), start=start) for name, cpu in (("big", "1500m"), ("small", "500m"))]
    world = World(fleet(*pods, nodes=(shape(cpu="2"),))).run(600)
    big, small = world.times(PodEvent.STARTED)
    # With a quarter of the node the small one is not half done when the big one is up, and then has all of it.
    assert 75 < big < small < 200


def test_a_fault_makes_starts_slow() -> None:
    world = World(fleet(workload("web"), workload("other"), faults=(fault("slow-starts", about="web"),))).run(120)
    assert world.times(PodEvent.STARTED) == [6.0, 51.0]


def test_an_evicted_pod_is_made_again_at_once_under_another_name() -> None:
    world = World(fleet(workload("web", 2))).run(30)
    old = world.list_pods()[0]
    assert world.cluster.evict(ref(old)) is WriteResult.APPLIED
    world.run(0.5)
    assert world.pods[old.metadata.name].metadata.deletion_timestamp is not None
    assert len(world.list_pods()) == 2
    world.run(10)
    assert old.metadata.name not in world.pods
    assert all(map(is_ready, world.list_pods()))
    assert world.cluster.evict(ref(old)) is WriteResult.GONE
    assert world.cluster.counters.evictions.tolist() == [1]


def test_a_disruption_budget_refuses_evictions() -> None:
    world = World(fleet(workload("web", 3, max_unavailable=1))).run(30)
    first, second, _ = world.list_pods()
    assert world.cluster.evict(ref(first)) is WriteResult.APPLIED
    assert world.cluster.evict(ref(second)) is WriteResult.REFUSED
    world.run(30)
    assert world.cluster.evict(ref(second)) is WriteResult.APPLIED


def test_a_stateful_set_makes_its_pods_in_order_and_again_under_their_names() -> None:
    world = World(fleet(workload("db", 3, kind="StatefulSet"))).run(3)
    assert list(world.pods) == ["db-0"]
    world.run(30)
    assert list(world.pods) == ["db-0", "db-1", "db-2"]
    assert isinstance(world.workloads["StatefulSet", "db"], StatefulSet)
    old = world.pods["db-1"]
    world.cluster.evict(ref(old))
    world.run(0.5)
    assert world.pods["db-1"].metadata.uid == old.metadata.uid
    world.run(20)
    assert is_ready(world.pods["db-1"])
    assert world.pods["db-1"].metadata.uid != old.metadata.uid


def test_a_job_runs_to_its_end_and_begins_anew_after_an_eviction() -> None:
    runs = ((BEGIN + 60, 100.0), (BEGIN + 600, 50.0))
    world = World(fleet(workload("etl", 2, kind="Job", runs=runs))).run(30)
    assert not world.pods
    assert isinstance(world.workloads["Job", "etl"], Job)
    world.run(60)
    first, second = world.list_pods("etl")
    world.cluster.evict(ref(first))
    world.run(80)
    assert second.metadata.name not in world.pods
    assert world.times(PodEvent.ENDED) == [161.0]
    world.run(600)
    assert world.times(PodEvent.ENDED) == [161.0, 191.0, 651.0, 651.0]
    assert not world.pods
    assert not world.cluster.rows.size


def test_a_rollout_replaces_all_pods_and_keeps_three_quarters_of_them_ready() -> None:
    world = World(fleet(workload("web", 8, rollouts=(BEGIN + 60,)), nodes=(shape(cpu="16"),))).run(59)
    old = {pod.metadata.uid for pod in world.list_pods()}
    before = next(name for kind, name in world.workloads if kind == "ReplicaSet")
    fewest, most = 8, 8
    for _ in range(120):
        world.run(1)
        fewest = min(fewest, sum(map(is_ready, world.list_pods())))
        most = max(most, len(world.list_pods()))
    assert (fewest, most) == (6, 10)
    assert len(world.list_pods()) == 8
    assert not old & {pod.metadata.uid for pod in world.list_pods()}
    assert ("ReplicaSet", before) not in world.workloads


def test_a_stateful_set_rolls_out_one_by_one_from_the_last_to_the_first() -> None:
    world = World(fleet(workload("db", 3, kind="StatefulSet", rollouts=(BEGIN + 60,)))).run(59)
    old = {pod.metadata.uid for pod in world.pods.values()}
    world.run(60)
    assert not old & {pod.metadata.uid for pod in world.pods.values()}
    made = [name for time, name, what, _ in world.log if what is PodEvent.MADE and time >= 60]
    assert made == ["db-2", "db-1", "db-0"]


def test_pods_of_a_node_that_is_off_are_made_elsewhere_after_five_minutes() -> None:
    faults = (fault("node-down", 60, 3600, "node-1"),)
    world = World(fleet(workload("web", 2), nodes=(shape(count=2),), faults=faults)).run(61)
    lost = next(pod for pod in world.list_pods() if pod.spec.node_name == "node-1")
    assert not is_ready(lost)
    assert [node.status.conditions[0].status for node in world.nodes.values()] == ["Unknown", "True"]
    world.run(200)
    assert lost.metadata.name in world.pods
    world.run(180)
    assert lost.metadata.name not in world.pods
    assert {pod.spec.node_name for pod in world.list_pods()} == {"node-2"}
    assert len(world.usages[-1]) == 2
    world.run(3600)
    assert world.nodes["node-1"].status.conditions[0].status == "True"


def test_pods_of_a_node_that_is_back_soon_start_again_where_they_are() -> None:
    world = World(fleet(workload("web", 1), faults=(fault("node-down", 60, 120),))).run(100)
    old = world.get_pod()
    assert not len(world.usages[-1])
    world.run(100)
    assert world.get_pod().metadata.uid == old.metadata.uid
    assert is_ready(world.get_pod())
    assert world.get_pod().status.container_statuses[0].restart_count == 1


def test_sidecars_run_beside_the_containers() -> None:
    sidecar = {**container("proxy", "100m", "128Mi"), "restartPolicy": "Always"}
    demand = (container_demand(), container_demand(0.05, 1e8, "proxy"))
    setup = {**container("setup", "1", "2Gi")}
    web = workload("web", 1, demand=demand, spec={"initContainers": [setup, sidecar]})
    world = World(fleet(web)).run(70)
    assert [one_series.container for one_series in world.cluster.series] == ["app", "proxy"]
    assert world.usages[-1].used_cpu.tolist() == [0.1, 0.05]
    assert [status.name for status in world.get_pod().status.init_container_statuses] == ["proxy"]
