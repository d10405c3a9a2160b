"""The dashboard of the node autoscaler."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import Dashboard, Row, Unit, graph, table
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "nodes"

_NODES: Final = Row(
    "Nodes",
    (
        graph(
            "Instances",
            "Instances of all node groups by state.",
            ("sum by (state) (trellis_nodes_instances{*})", "{{state}}"),
            stack=True,
        ),
        graph(
            "Nodes by decision",
            "Nodes by scale-down decision and reason.",
            ("sum by (outcome, reason) (trellis_nodes_nodes{*})", "{{outcome}} {{reason}}"),
            stack=True,
        ),
        graph(
            "Pending pods",
            "Pending pods by scale-up decision.",
            ("sum by (reason) (trellis_nodes_pending_pods{*}) or 0", "{{reason}}"),
            stack=True,
        ),
        graph(
            "Ordered and removed nodes",
            "Nodes that were ordered and removed, and orders that failed.",
            ("sum(rate(trellis_nodes_ordered_total{*}[$__rate_interval])) or 0", "ordered"),
            ("sum(rate(trellis_nodes_released_total{*}[$__rate_interval])) or 0", "removed"),
            ("sum(rate(trellis_nodes_failed_orders_total{*}[$__rate_interval])) or 0", "failed orders"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Evictions",
            "Pods evicted from drained nodes.",
            ("sum(rate(trellis_nodes_evictions_total{*}[$__rate_interval]))", "evictions"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Back-off of node groups",
            "Time until nodes may be ordered again from a group whose orders failed.",
            ("max by (group) (trellis_nodes_group_backoff_seconds{*})", "{{group}}"),
            unit=Unit.SECONDS,
        ),
        table(
            "Instances by node group",
            "Instances of each node group by state.",
            "sum by (group, state) (trellis_nodes_instances{*})",
        ),
        table(
            "Problems",
            "Invalid node groups by reason, and objects whose node requirements cannot be read.",
            "sum by (reason) (trellis_nodes_group_problems{*}) or sum by (kind) (trellis_nodes_unreadable_objects{*})",
        ),
    ),
)

_WORK: Final = Row(
    "Work",
    (
        graph(
            "Steps of a pass",
            "Mean time spent in each step of a pass.",
            (
                "sum by (step) (rate(trellis_nodes_execution_latency_seconds_sum{*}[$__rate_interval]))"
                " / sum by (step) (rate(trellis_nodes_execution_latency_seconds_count{*}[$__rate_interval]))",
                "{{step}}",
            ),
            unit=Unit.SECONDS,
            width=12,
        ),
        graph(
            "Failed calls to the provider",
            "Calls to the provider of nodes that timed out or failed.",
            (
                "sum by (call, reason) (rate(trellis_nodes_provider_failures_total{*}[$__rate_interval])) or 0",
                "{{call}} {{reason}}",
            ),
            unit=Unit.PER_SECOND,
            width=12,
        ),
    ),
)

NODES_DASHBOARD: Final = Dashboard(
    name="trellis-nodes",
    title="Trellis / Nodes",
    description="Node groups, what is ordered and removed and why, and which pods wait.",
    rows=(
        availability_row(_COMPONENT),
        _NODES,
        _WORK,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
