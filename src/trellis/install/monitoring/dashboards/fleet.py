"""The overview of a fleet: every component, and the state of all its objects, on one page."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import (
    NONE_WANTED,
    ONE_WANTED,
    Dashboard,
    Row,
    Unit,
    graph,
    quantiles,
    stat,
    table,
)

_COMPONENTS: Final = Row(
    "Components",
    (
        stat(
            "Ready replicas",
            "Replicas of each component whose readiness checks pass.",
            ("sum by (component) (trellis_component_ready{*})", "{{component}}"),
            width=12,
            thresholds=ONE_WANTED,
        ),
        stat(
            "Leaders",
            "Replicas of each component that hold its Lease; without leader election every replica counts.",
            ("sum by (component) (trellis_component_leader{*})", "{{component}}"),
            width=12,
            thresholds=ONE_WANTED,
        ),
        graph(
            "Time since the last pass",
            "Time since a replica last completed a pass over all objects. The admission controller has no passes.",
            (
                "time() - max by (component) (trellis_component_last_pass_timestamp_seconds{*})",
                "{{component}}",
            ),
            unit=Unit.SECONDS,
        ),
        graph(
            "Duration of passes",
            "Duration of the last successful pass.",
            ("max by (component) (trellis_component_last_pass_duration_seconds{*})", "{{component}}"),
            unit=Unit.SECONDS,
        ),
        graph(
            "Memory of processes",
            "Resident memory of every process that runs a component.",
            ("process_resident_memory_bytes{*} and on (job, instance) trellis_build_info{*}", "{{job}} {{instance}}"),
            unit=Unit.BYTES,
        ),
        table(
            "Versions",
            "Processes by component and version of Trellis.",
            "count by (component, version) (trellis_build_info{*})",
        ),
        table(
            "Alerts",
            "Alerts of Trellis that fire or are pending, if the rules of this installation are loaded.",
            'sum by (alertname, alertstate, severity, component) (ALERTS{alertname=~"Trellis.*"})',
        ),
    ),
)

_OBJECTS: Final = Row(
    "Objects",
    (
        graph(
            "VPAs with a recommendation",
            "VPAs by whether they have a recommendation.",
            ("sum by (has_recommendation) (vpa_recommender_vpa_objects_count{*})", "has one: {{has_recommendation}}"),
            stack=True,
        ),
        graph(
            "Pods by decision of the updater",
            "Governed pods by the last decision about them.",
            ("sum by (way) (trellis_updater_pods{*})", "{{way}}"),
            stack=True,
        ),
        graph(
            "Changes of running pods",
            "Pods that were evicted, and pods that were resized in place.",
            ("sum(rate(vpa_updater_evicted_pods_total{*}[$__rate_interval]))", "evicted"),
            ("sum(rate(vpa_updater_in_place_updated_pods_total{*}[$__rate_interval]))", "resized in place"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Hvpas",
            "Hvpas by their last decision.",
            ("sum by (reason) (trellis_hvpa_objects{*})", "{{reason}}"),
            stack=True,
        ),
        graph(
            "Buffers",
            "Buffers by their last result.",
            ("sum by (reason) (trellis_buffers_objects{*})", "{{reason}}"),
            stack=True,
        ),
        graph(
            "Nodes",
            "Nodes by scale-down decision.",
            ("sum by (outcome) (trellis_nodes_nodes{*})", "{{outcome}}"),
            stack=True,
        ),
    ),
)

_ATTENTION: Final = Row(
    "What needs attention",
    (
        stat(
            "Frozen pods",
            "Governed pods that a freeze keeps from being changed.",
            ('sum(trellis_updater_pods{*,reason="Frozen"}) or 0', ""),
            thresholds=NONE_WANTED,
        ),
        stat(
            "Eviction loops",
            "Governed pods whose evictions had no effect.",
            ('sum(trellis_updater_pods{*,reason="EvictionLoop"}) or 0', ""),
            thresholds=NONE_WANTED,
        ),
        stat(
            "Missing chunks",
            "Chunks (virtual pods) of Buffers that do not fit on ready nodes.",
            (
                "sum(trellis_nodes_buffer_chunks{*} - trellis_nodes_buffer_provisioned_chunks{*}) or 0",
                "",
            ),
            thresholds=NONE_WANTED,
        ),
        stat(
            "Backed-off node groups",
            "Node groups from which no node is ordered for now, because orders failed.",
            ("count(trellis_nodes_group_backoff_seconds{*} > 0) or 0", ""),
            thresholds=NONE_WANTED,
        ),
        stat(
            "Age of usage",
            "Age of the newest usage sample.",
            ("time() - max(trellis_recommender_newest_sample_timestamp_seconds{*})", ""),
            unit=Unit.SECONDS,
        ),
        stat(
            "Certificate expires in",
            "Time until the first certificate of the webhook expires.",
            ("min(trellis_admission_certificate_expiry_timestamp_seconds{*}) - time()", ""),
            unit=Unit.SECONDS,
        ),
        graph(
            "Admission reviews",
            "Latency of admission reviews.",
            *quantiles("vpa_admission_controller_execution_latency_seconds", 'step="total"'),
            unit=Unit.SECONDS,
            width=12,
        ),
        graph(
            "Writes that were not applied",
            "Writes by component and result. Now and then a Conflict or Gone is normal: another writer was faster.",
            (
                'sum by (component, result) (rate(trellis_writes_total{*,result!="Applied"}[$__rate_interval])) or 0',
                "{{component}} {{result}}",
            ),
            unit=Unit.PER_SECOND,
            width=12,
        ),
    ),
)

FLEET_DASHBOARD: Final = Dashboard(
    name="trellis-fleet",
    title="Trellis / Fleet",
    description="Every component of Trellis, the state of its objects, and what needs attention.",
    rows=(_ATTENTION, _COMPONENTS, _OBJECTS),
)
