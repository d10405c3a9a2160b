"""Metrics of the node autoscaler. Reasons are labels, as in Events and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from trellis.core.nodes.autoscaler_pass import PassPlans
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.core.nodes.scale_down.decisions import NodeOutcome
from trellis.core.nodes.scale_up.decisions import BufferDecision, PendingPodsDecision
from trellis.core.nodes.scale_up.remembered_state import GroupBackoff
from trellis.providers.protocol import Groups
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.metrics import (
    BUFFER_LABELS,
    REASON,
    CounterSpec,
    GaugeSpec,
    Label,
    Metrics,
    Spec,
    execution_latency,
)

_GROUP: Final = Label("group", "name of the node group")

# Steps of a pass.
PROVIDER: Final = "provider"
PLAN: Final = "plan"
EXECUTE: Final = "execute"

LATENCY: Final = execution_latency("trellis_nodes", PROVIDER, PLAN, EXECUTE)
NODES: Final = GaugeSpec(
    "trellis_nodes_nodes",
    "Nodes by scale-down decision and reason.",
    (Label("outcome", values=NodeOutcome), REASON),
)
INSTANCES: Final = GaugeSpec(
    "trellis_nodes_instances",
    "Instances of each node group by state.",
    (_GROUP, Label("state", values=InstanceState)),
)
GROUP_PROBLEMS: Final = GaugeSpec("trellis_nodes_group_problems", "Invalid node groups, by reason.", (REASON,))
PENDING: Final = GaugeSpec("trellis_nodes_pending_pods", "Pending pods by scale-up decision.", (REASON,))
PROVISIONING_REQUESTS: Final = GaugeSpec(
    "trellis_nodes_provisioning_requests", "ProvisioningRequests that are not over, by their last decision.", (REASON,)
)
UNREADABLE: Final = GaugeSpec(
    "trellis_nodes_unreadable_objects",
    "Objects with invalid node requirements.",
    (Label("kind", values=("Buffer", "DaemonSet", "Pod")),),
)
ORDERED: Final = CounterSpec("trellis_nodes_ordered_total", "Nodes ordered.", (_GROUP, REASON))
ORDERS_FAILED: Final = CounterSpec(
    "trellis_nodes_failed_orders_total",
    "Failed orders: refused, not answered, or confirmed without a node.",
    (_GROUP,),
)
BACKOFF: Final = GaugeSpec(
    "trellis_nodes_group_backoff_seconds",
    "Time until nodes may be ordered from a group again that failed recently; 0 unless the group backs off.",
    (_GROUP,),
)
RELEASED: Final = CounterSpec("trellis_nodes_released_total", "Nodes removed.", (_GROUP, REASON))
EVICTED: Final = CounterSpec("trellis_nodes_evictions_total", "Pods evicted from drained nodes.")
PROVIDER_FAILURES: Final = CounterSpec(
    "trellis_nodes_provider_failures_total",
    "Failed requests to the provider: timeouts and errors.",
    (Label("call", values=("groups", "tend", "order", "release")), REASON),
)
BUFFERS: Final = GaugeSpec("trellis_nodes_buffers", "Buffers by their last result.", (REASON,))
CHUNKS: Final = GaugeSpec("trellis_nodes_buffer_chunks", "Chunks of a Buffer.", BUFFER_LABELS)
PROVISIONED: Final = GaugeSpec(
    "trellis_nodes_buffer_provisioned_chunks", "Chunks of a Buffer that fit on ready nodes.", BUFFER_LABELS
)
PRICE: Final = GaugeSpec(
    "trellis_nodes_buffer_price_per_hour",
    "Hourly cost of the capacity that the chunks of a Buffer take on ready and upcoming nodes.",
    BUFFER_LABELS,
)
HITS: Final = CounterSpec(
    "trellis_nodes_buffer_hits_total", "Pods that were scheduled to the place of a chunk.", BUFFER_LABELS
)
MISSES: Final = CounterSpec(
    "trellis_nodes_buffer_misses_total",
    "Pods that are pending although they match a chunk that should have fit.",
    BUFFER_LABELS,
)

NODE_METRICS: Final[tuple[Spec, ...]] = (
    LATENCY,
    NODES,
    INSTANCES,
    GROUP_PROBLEMS,
    PENDING,
    PROVISIONING_REQUESTS,
    UNREADABLE,
    ORDERED,
    ORDERS_FAILED,
    BACKOFF,
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

    def export_backoffs(self, groups: Groups, backoffs: Mapping[str, GroupBackoff], now: float) -> None:
        """Export how long each group backs off."""
        names = [state.group.name for state in groups.states]
        remaining = {name: max(0.0, backoffs[name].until - now) if name in backoffs else 0.0 for name in names}
        self._metrics.set_all(BACKOFF, {(name,): seconds for name, seconds in remaining.items()})

    def export_buffers(self, buffers: Sequence[BufferDecision]) -> Sequence[BufferDecision]:
        """Export decisions about Buffers; returns those with series of their own. Only plans count hits and misses."""
        self._set(BUFFERS, Counter((decision.reason.reason.code,) for decision in buffers))
        exported = sorted(buffers, key=lambda decision: decision.key)[: self._most]
        self._metrics.remove_deleted(BUFFER_LABELS, {decision.key for decision in exported})
        for decision in exported:
            self._metrics.set(CHUNKS, decision.chunks, *decision.key)
            self._metrics.set(PROVISIONED, decision.on_ready, *decision.key)
            self._metrics.set(PRICE, decision.price, *decision.key)
        return exported

    def _set(self, spec: GaugeSpec, counts: Counter[tuple[str, ...]]) -> None:
        self._metrics.set_all(spec, {labels: float(count) for labels, count in counts.items()})


def _count_instances(states: Sequence[GroupState]) -> dict[tuple[str, ...], float]:
    return {(group.group.name, str(state)): float(group.count(state)) for group in states for state in InstanceState}
