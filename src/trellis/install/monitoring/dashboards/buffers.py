"""The dashboard of the Buffer controller."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import Dashboard, Row, Unit, graph, table
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "buffers"

_BUFFERS: Final = Row(
    "Buffers",
    (
        graph(
            "Buffers by result",
            "Buffers by their last result.",
            ("sum by (reason) (trellis_buffers_objects{*})", "{{reason}}"),
            stack=True,
        ),
        graph(
            "Chunks",
            "Chunks (virtual pods): those that capacities specify, those left by schedule, limits and quotas, and "
            "those that fit on ready nodes.",
            ("sum(trellis_buffers_wanted_chunks{*})", "specified"),
            ("sum(trellis_buffers_chunks{*})", "after limits"),
            (
                "sum(trellis_nodes_buffer_provisioned_chunks{*}) or sum(trellis_buffers_provisioned_chunks{*})",
                "provisioned",
            ),
        ),
        graph(
            "Notes and warnings",
            "Buffers with a note or warning, by reason.",
            ("sum by (reason) (trellis_buffers_noted_objects{*}) or 0", "{{reason}}"),
        ),
        table(
            "Buffers that are not provisioned",
            "Chunks of each Buffer that do not fit on ready nodes.",
            "sum by (buffer_namespace, buffer_name) "
            "(trellis_nodes_buffer_chunks{*} - trellis_nodes_buffer_provisioned_chunks{*}) > 0 or "
            "sum by (buffer_namespace, buffer_name) "
            "(trellis_buffers_chunks{*} - trellis_buffers_provisioned_chunks{*}) > 0",
        ),
        graph(
            "Time since fully provisioned",
            "Time since all chunks of a Buffer last fit on ready nodes, of Buffers whose chunks do not fit now.",
            (
                "time() - max by (buffer_namespace, buffer_name) (trellis_buffers_last_full_timestamp_seconds{*})"
                " and on (buffer_namespace, buffer_name)"
                " (trellis_nodes_buffer_chunks{*} > trellis_nodes_buffer_provisioned_chunks{*}"
                " or trellis_buffers_chunks{*} > trellis_buffers_provisioned_chunks{*})",
                "{{buffer_namespace}}/{{buffer_name}}",
            ),
            unit=Unit.SECONDS,
            width=12,
        ),
        graph(
            "Hits and misses",
            "Pods that were scheduled to the place of a chunk, and pods that are pending although they match one.",
            (
                "sum(rate(trellis_nodes_buffer_hits_total{*}[$__rate_interval])) or "
                "sum(rate(trellis_buffers_hits_total{*}[$__rate_interval]))",
                "hits",
            ),
            (
                "sum(rate(trellis_nodes_buffer_misses_total{*}[$__rate_interval])) or "
                "sum(rate(trellis_buffers_misses_total{*}[$__rate_interval]))",
                "misses",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Price",
            "Hourly cost of the capacity of Buffers, by the prices of the node groups.",
            (
                "sum(trellis_nodes_buffer_price_per_hour{*}) or sum(trellis_buffers_price_per_hour{*})",
                "per hour",
            ),
        ),
        graph(
            "CapacityBuffers",
            "CapacityBuffers that are served, by their last result.",
            ("sum by (reason) (trellis_buffers_capacity_buffers{*}) or 0", "{{reason}}"),
        ),
    ),
)

_WORK: Final = Row(
    "Work",
    (
        graph(
            "Translations",
            "Translations of Buffers into chunks, and reconciliations that ended with an internal error.",
            ("sum(rate(trellis_buffers_translations_total{*}[$__rate_interval]))", "translations"),
            ("sum(rate(trellis_buffers_failures_total{*}[$__rate_interval]))", "internal errors"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Dry runs",
            "Dry runs of template pods at the API server, by result.",
            (
                "sum by (result) (rate(trellis_buffers_dry_runs_total{*}[$__rate_interval])) or 0",
                "{{result}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Steps of a pass",
            "Mean time spent in each step of a pass.",
            (
                "sum by (step) (rate(trellis_buffers_execution_latency_seconds_sum{*}[$__rate_interval]))"
                " / sum by (step) (rate(trellis_buffers_execution_latency_seconds_count{*}[$__rate_interval]))",
                "{{step}}",
            ),
            unit=Unit.SECONDS,
        ),
    ),
)

BUFFERS_DASHBOARD: Final = Dashboard(
    name="trellis-buffers",
    title="Trellis / Buffers",
    description="Spare capacity: which Buffers are provisioned, which are limited, and what they cost.",
    rows=(
        availability_row(_COMPONENT),
        _BUFFERS,
        _WORK,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
