"""Metrics of the node autoscaler. Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from trellis.core.nodes.autoscaler_pass import PassPlans
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.core.nodes.scale_up.decisions import BufferDecision, PendingPodsDecision
from trellis.providers.protocol import Groups
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Metrics, Spec, execution_latency

BUFFER: Final = ("namespace", "name")

# Steps of a pass.
PROVIDER: Final = "provider"
PLAN: Final = "plan"
EXECUTE: Final = "carry-out"

LATENCY: Final = execution_latency("trellis_nodes")
NODES: Final = GaugeSpec("trellis_nodes_nodes", "Nodes by scale-down decision and reason.", ("outcome", "reason"))
INSTANCES: Final = GaugeSpec("trellis_nodes_instances", "Instances of each node group by state.", ("group", "state"))
GROUP_PROBLEMS: Final = GaugeSpec("trellis_nodes_group_problems", "Invalid node groups, by reason.", ("reason",))
PENDING: Final = GaugeSpec("trellis_nodes_pending_pods", "Pending pods by scale-up decision.", ("reason",))
UNREADABLE: Final = GaugeSpec("trellis_nodes_unreadable_objects", "Objects with invalid node requirements.", ("kind",))
ORDERED: Final = CounterSpec("trellis_nodes_ordered_total", "Nodes ordered.", ("group", "reason"))
ORDERS_FAILED: Final = CounterSpec(
    "trellis_nodes_failed_orders_total",
    "Failed orders: refused, not answered, or confirmed without a node.",
    ("group",),
)
RELEASED: Final = CounterSpec("trellis_nodes_released_total", "Nodes removed.", ("group", "reason"))
EVICTED: Final = CounterSpec("trellis_nodes_evictions_total", "Pods evicted from drained nodes.")
PROVIDER_FAILURES: Final = CounterSpec(
    "trellis_nodes_provider_failures_total",
    "Failed requests to the provider: timeouts and errors.",
    ("call", "reason"),
)
BUFFERS: Final = GaugeSpec("trellis_nodes_buffers", "Buffers by their last result.", ("reason",))
CHUNKS: Final = GaugeSpec("trellis_nodes_buffer_chunks", "Chunks of a Buffer.", BUFFER)
PROVISIONED: Final = GaugeSpec(
    "trellis_nodes_buffer_provisioned_chunks", "Chunks of a Buffer that fit on ready nodes.", BUFFER
)
PRICE: Final = GaugeSpec(
    "trellis_nodes_buffer_price_per_hour",
    "Hourly cost of the capacity that the chunks of a Buffer take on ready and upcoming nodes.",
    BUFFER,
)
HITS: Final = CounterSpec(
    "trellis_nodes_buffer_hits_total", "Pods that were scheduled to the place of a chunk.", BUFFER
)
MISSES: Final = CounterSpec(
    "trellis_nodes_buffer_misses_total",
    "Pods that are pending although they match a chunk that should have fit.",
    BUFFER,
)

NODE_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    NODES,
    INSTANCES,
    GROUP_PROBLEMS,
    PENDING,
    UNREADABLE,
    ORDERED,
    ORDERS_FAILED,
    RELEASED,
    EVICTED,
    PROVIDER_FAILURES,
    BUFFERS,
    CHUNKS,
    PROVISIONED,
    PRICE,
    HITS,
    MISSES,
    *CLUSTER_METRICS,
)


class NodeAutoscalerMetrics:
    """Exports the metrics of passes. At most `most` Buffers have series of their own."""

    def __init__(self, metrics: Metrics, most: int) -> None:
        self._metrics = metrics
        self._most = most

    def export_plans(
        self, groups: Groups, plans: PassPlans, pods: Sequence[PendingPodsDecision], buffers: Sequence[BufferDecision]
    ) -> None:
        """Export both plans, with the decisions about pods and Buffers after the results of orders."""
        pending: Counter[tuple[str, ...]] = Counter()
        for decision in pods:
            pending[(decision.reason.reason.code,)] += len(decision.pods)
        self._set(PENDING, pending)
        self._set(NODES, Counter((str(decision.outcome), decision.reason.reason.code) for decision in plans.down.nodes))
        self._set(UNREADABLE, Counter((kind,) for kind, _ in plans.problems))
        self._set(GROUP_PROBLEMS, Counter((problem.reason.reason.code,) for problem in groups.problems))
        self._metrics.set_all(INSTANCES, _count_instances(groups.states))
        for buffer in self.export_buffers(buffers):
            self._metrics.add(HITS, buffer.hits, *buffer.key)
            self._metrics.add(MISSES, buffer.misses, *buffer.key)

    def export_buffers(self, buffers: Sequence[BufferDecision]) -> Sequence[BufferDecision]:
        """Export decisions about Buffers; returns those with series of their own. Only plans count hits and misses."""
        self._set(BUFFERS, Counter((decision.reason.reason.code,) for decision in buffers))
        exported = sorted(buffers, key=lambda decision: decision.key)[: self._most]
        self._metrics.remove_deleted(BUFFER, {decision.key for decision in exported})
        for decision in exported:
            self._metrics.set(CHUNKS, decision.chunks, *decision.key)
            self._metrics.set(PROVISIONED, decision.on_ready, *decision.key)
            self._metrics.set(PRICE, decision.price, *decision.key)
        return exported

    def _set(self, spec: GaugeSpec, counts: Counter[tuple[str, ...]]) -> None:
        self._metrics.set_all(spec, {labels: float(count) for labels, count in counts.items()})


def _count_instances(states: Sequence[GroupState]) -> dict[tuple[str, ...], float]:
    return {(group.group.name, str(state)): float(group.count(state)) for group in states for state in InstanceState}
