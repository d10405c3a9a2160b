"""The DaemonSet controller of the model cluster: one pod for each node that the template allows, bound to that node.

The rules of Kubernetes 1.36: a pod names its node in its affinity and tolerates what ails a node, it comes when the
node joins and goes with it, and taints that come later do not drive it away. A new version replaces one pod at a time.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.kube.meta import LabelSelectorRequirement, OwnerReference
from trellis.api.kube.placement import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm
from trellis.api.kube.pods import PodSpec, PodTemplateSpec
from trellis.api.kube.workloads import DaemonSet, DaemonSetSpec, DaemonSetStatus
from trellis.core.fit import Demand
from trellis.core.fit.daemon_sets import build_daemon_pod_spec
from trellis.core.fit.filters import find_eligible_nodes
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import name_suffix
from trellis.sim.cluster.state import ModelState

KIND: Final = "DaemonSet"
# How many pods may be down during a rollout; Kubernetes' default.
_MAX_UNAVAILABLE: Final = 1


class DaemonSetController:
    """Reconciles the pods of one DaemonSet."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._workload = workload
        self._definition = state.fleet.workloads[workload]
        self._revision = 0
        self._names = count()
        self._uid = state.uid()
        self._spec = build_daemon_pod_spec(state.templates[workload].spec)
        self._demand = Demand.of(self._spec)
        # The pod of each node, by the node's name.
        self._pods: dict[str, ModelPod] = {}

    def begin(self) -> None:
        """Create the DaemonSet and its pods."""
        state, template = self._state, self._state.templates[self._workload]
        state.replicas[self._workload] = 0
        spec = DaemonSetSpec(template.selector, PodTemplateSpec(template.metadata, template.spec))
        state.publish(self._workload, DaemonSet(state.metadata(self._workload, self._uid), spec))
        self.reconcile()

    def roll_out(self) -> None:
        """Begin to roll out a new version."""
        self._revision += 1
        self.reconcile()

    def reconcile(self) -> None:
        """Create the pods of nodes that have none, and replace old ones."""
        state = self._state
        self._pods = {node: pod for node, pod in self._pods.items() if self._exists(pod)}
        nodes = self._nodes()
        missing = [node for node in nodes if node not in self._pods]
        self._publish(sum(1 for node in self._pods if state.nodes.table.find(node) >= 0) + len(missing))
        for node in missing:
            self._pods[node] = self._create_pod(node)
        for node, model_pod in list(self._pods.items()):
            # Its node left before the pod was placed there.
            if model_pod.node < 0 and state.nodes.table.find(node) < 0:
                self._lifecycle.delete(model_pod)
        self._replace_old()

    def _nodes(self) -> list[str]:
        """The nodes that are to have a pod."""
        if not self._definition.replicas:
            return []
        nodes = self._state.nodes
        where = np.flatnonzero(find_eligible_nodes(nodes.table, self._demand))
        return [nodes.objects[number].metadata.name for number in where.tolist()]

    def _exists(self, model_pod: ModelPod) -> bool:
        """Whether a pod still exists; one that terminates keeps its node until it is gone."""
        return self._state.pods.get(model_pod.key) is model_pod

    def _publish(self, desired: int) -> None:
        state = self._state
        stored: Any = state.objects[self._workload]
        if desired == stored.status.desired_number_scheduled:
            return
        state.replicas[self._workload] = desired
        metadata = msgspec.structs.replace(stored.metadata, resource_version=state.version())
        status = DaemonSetStatus(current_number_scheduled=len(self._pods), desired_number_scheduled=desired)
        state.publish(self._workload, msgspec.structs.replace(stored, metadata=metadata, status=status))

    def _create_pod(self, node: str) -> ModelPod:
        owner = OwnerReference("apps/v1", KIND, self._definition.name, self._uid, controller=True)
        name = f"{self._definition.name}-{name_suffix(next(self._names), 5)}"
        return self._lifecycle.create_pod(
            self._workload, name, owner, revision=self._revision, spec=_bound(self._spec, node)
        )

    def _replace_old(self) -> None:
        pods = list(self._pods.values())
        old = [pod for pod in pods if pod.revision != self._revision and not pod.terminating]
        if not old:
            return
        down = sum(not pod.ready for pod in pods if pod.revision == self._revision or pod.terminating)
        for model_pod in sorted(old, key=lambda pod: pod.ready):
            if model_pod.ready and down >= _MAX_UNAVAILABLE:
                break
            down += 1
            self._lifecycle.delete(model_pod)


def _bound(spec: PodSpec, node: str) -> PodSpec:
    """The spec of the pod of one node; which nodes the template allows is decided already."""
    term = NodeSelectorTerm(match_fields=(LabelSelectorRequirement("metadata.name", "In", (node,)),))
    affinity = spec.affinity or Affinity()
    wished = affinity.node_affinity or NodeAffinity()
    named = msgspec.structs.replace(wished, required=NodeSelector((term,)))
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, node_affinity=named))
