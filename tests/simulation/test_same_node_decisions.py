"""The simulated node autoscaler decides as the controller does.

Beside a simulated cluster runs the controller's planner, fed with the changes of the cluster from pass to pass. At
each pass of the simulator it gets the same groups, budgets, memory and time, and what the simulator then does to the
cluster must be what the planner decided. `tests/unit/core/explain/test_node.py` says the same of `trellis explain`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.simulated_cluster import fault
from support.worlds.simulated_nodes import SimulatedNodesRun, a_buffer, idle_workload, job, on_nodes, pod_capacity, pool
from support.worlds.simulated_workloads import fixed, vpa
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import DaemonSet
from trellis.core.cluster.store import key_of
from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.scale_down.decisions import DrainPod, ReleaseNode, SetTaints
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF, ClusterSnapshotChanges
from trellis.core.resize.actions import PodRef
from trellis.sim.components.nodes import SimulatedNodeAutoscaler
from trellis.sim.faults import NODE_DOWN
from trellis.sim.fleet import Fleet

Actions = list[tuple[Any, ...]]


class Compared(SimulatedNodesRun):
    """A simulated cluster, with the controller's planner beside it."""

    def __init__(self, fleet: Fleet, *objects: dict[str, Any], **settings: str) -> None:
        self.changes = ClusterSnapshotChanges()
        self.passes: list[PassPlans] = []
        self.done: Actions = []
        super().__init__(fleet, *objects, **settings)
        autoscaler = self.control_plane._node_autoscaler
        assert autoscaler is not None
        self.autoscaler: SimulatedNodeAutoscaler = autoscaler
        figures = autoscaler._settings
        self.planner = NodePlanner(AutoscalerSettings(figures.up, figures.down), EXPENDABLE_PODS_PRIORITY_CUTOFF)
        self._watch_actions()
        self._plan, autoscaler._plan = autoscaler._plan, self._compare  # type: ignore[method-assign]

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        super().on_pod(old, new)
        either = new or old
        assert either is not None
        self._note(self.changes.pods, key_of(either), new)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        super().on_node(old, new)
        either = new or old
        assert either is not None
        self._note(self.changes.nodes, either.metadata.name, new)

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        super().on_workload(kind, old, new)
        either = new or old
        assert either is not None
        if kind == "DaemonSet":
            self.changes.daemon_sets[key_of(either)] = new if isinstance(new, DaemonSet) else None

    @staticmethod
    def _note(changes: dict[Any, Any], key: object, value: object) -> None:
        # In the order of the last changes, in which the simulator got them.
        changes.pop(key, None)
        changes[key] = value

    def _compare(self, now: float) -> None:
        autoscaler, translated = self.autoscaler, self.autoscaler._put
        memory, groups = autoscaler._memory, autoscaler.pools.list_states()
        budgets = tuple(self.cluster.targets.budgets())
        changes, self.changes = self.changes, ClusterSnapshotChanges()

        def put(buffer: Any) -> None:
            changes.buffers[key_of(buffer)] = buffer
            translated(buffer)

        autoscaler._put = put  # type: ignore[method-assign]
        self.done = []
        self._plan(now)
        autoscaler._put = translated  # type: ignore[method-assign]
        plans = self.planner.plan(changes, PassInput(groups, budgets, memory, now, autoscaler._build_sizing()))
        assert self.done == decided(plans)
        assert decisions(plans) <= set(autoscaler._last_reasons.items())
        self.passes.append(plans)

    def _watch_actions(self) -> None:
        pools, cluster = self.autoscaler.pools, self.cluster
        order, release, taint, move = pools.order, pools.release, cluster.machines.taint, cluster.move

        def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def act(*given: Any) -> Any:
                self.done.append((name, *given))
                return call(*given)

            return act

        pools.order = watched("order", order)  # type: ignore[method-assign]
        pools.release = watched("release", release)  # type: ignore[method-assign]
        cluster.machines.taint = watched("taint", taint)  # type: ignore[method-assign]
        cluster.move = watched("evict", move)  # type: ignore[method-assign]


def decided(plans: PassPlans) -> Actions:
    """The actions of both plans, in the order in which the simulator executes them."""
    actions: Actions = [("order", order.group, order.target) for order in plans.up.orders]
    for action in plans.down.actions:
        match action:
            case SetTaints(node=node, taints=taints):
                actions.append(("taint", node, taints))
            case DrainPod(namespace=namespace, name=name, uid=uid):
                actions.append(("evict", PodRef(namespace, name, uid)))
            case ReleaseNode(group=group, instance=instance):
                actions.append(("release", group, instance))
    return [*actions, *(("release", failed.group, failed.instance) for failed in plans.up.releases)]


def decisions(plans: PassPlans) -> set[tuple[str, str]]:
    nodes = {(f"node {node.node}", node.reason.reason.code) for node in plans.down.nodes}
    buffers = {(f"buffer {buffer.uid}", buffer.reason.reason.code) for buffer in plans.up.buffers}
    pods = {(f"pod {'/'.join(key)}", pod.reason.reason.code) for pod in plans.up.pods for key in pod.pods}
    return nodes | buffers | pods


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Fleet, tuple[dict[str, Any], ...]]:
    """Two groups, a Deployment, runs of a Job, perhaps a Buffer, a VPA, and a node that fails."""
    begins = sorted(draw(st.lists(st.integers(0, 1800), max_size=5, unique=True)))
    budget = draw(st.sampled_from([None, 0, 1]))
    web = idle_workload(
        replicas=draw(st.integers(0, 8)), cpu=draw(st.sampled_from(["300m", "1", "2"])), max_unavailable=budget
    )
    tasks = job("task", [float(begin) for begin in begins], 200.0, pods=draw(st.integers(1, 9)), cpu="700m")
    pools = (
        pool("a", count=draw(st.integers(0, 3)), max_size=draw(st.integers(3, 6))),
        pool("b", "2", "8Gi", count=1, min_size=1, max_size=4, boot_seconds=30.0, price=0.4),
    )
    buffers = [a_buffer(pod_capacity(3), "empty"), a_buffer(pod_capacity(6), "least", recreationStrategy="KeepMinimum")]
    objects = draw(st.lists(st.sampled_from(buffers), unique_by=lambda document: document["metadata"]["name"]))
    mode = draw(st.sampled_from([None, "Initial", "InPlace", "InPlaceOrRecreate"]))
    if mode is not None:
        objects.append(vpa(mode, resourcePolicy=fixed(draw(st.sampled_from(["200m", "1500m"])), "64Mi")))
    faults = draw(st.sampled_from([(), (fault(NODE_DOWN, 700.0, 900.0, "b-1"),)]))
    return on_nodes(web, tasks, pools=pools, steps=50, faults=faults), tuple(objects)


@given(clusters())
@settings(max_examples=12, deadline=None)
def test_the_simulator_decides_as_the_controller_does(case: tuple[Fleet, Any]) -> None:
    fleet, objects = case
    compared = Compared(fleet, *objects).run_until(50 * 60.0)
    assert isinstance(compared, Compared)
    assert compared.passes


def test_the_comparison_covers_orders_taints_evictions_and_releases() -> None:
    tasks = job("task", [0.0, 900.0], 300.0, pods=9, cpu="700m")
    fleet = on_nodes(
        tasks, idle_workload(replicas=6, cpu="300m"), pools=(pool("a"), pool("b", "2", price=0.4)), steps=60
    )
    compared = Compared(fleet, a_buffer(pod_capacity(1))).run_until(3000)
    assert isinstance(compared, Compared)
    names = {name for plans in compared.passes for name, *_ in decided(plans)}
    assert names == {"order", "taint", "evict", "release"}
