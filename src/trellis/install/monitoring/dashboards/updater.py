"""The dashboard of the updater."""

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
)
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "updater"

_DECISIONS: Final = Row(
    "Decisions",
    (
        graph(
            "Pods by decision",
            "Governed pods by the last decision about them.",
            ("sum by (way) (trellis_updater_pods{*})", "{{way}}"),
            stack=True,
        ),
        graph(
            "Pods by reason",
            "Governed pods by the reason of the last decision about them.",
            ("sum by (reason) (trellis_updater_pods{*})", "{{reason}}"),
        ),
        graph(
            "Warnings",
            "Governed pods with a warning, by reason.",
            ("sum by (reason) (trellis_updater_warned_pods{*}) or 0", "{{reason}}"),
        ),
        graph(
            "Pods that need a change",
            "Pods that need an eviction or a resize in place, now or later.",
            ("sum(vpa_updater_evictable_pods_total{*})", "eviction"),
            ("sum(vpa_updater_in_place_updatable_pods_total{*})", "resize in place"),
        ),
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
            "Admission controller runs",
            "Whether an admission controller renews its status Lease. Without one, no pod is evicted.",
            ("max(trellis_updater_admission_live{*})", ""),
            unit=Unit.YES_NO,
            thresholds=ONE_WANTED,
        ),
    ),
)

_CHANGES: Final = Row(
    "Changes of running pods",
    (
        graph(
            "Changes",
            "Pods that were evicted, and pods that were resized in place.",
            ("sum(rate(vpa_updater_evicted_pods_total{*}[$__rate_interval]))", "evicted"),
            ("sum(rate(vpa_updater_in_place_updated_pods_total{*}[$__rate_interval]))", "resized in place"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Failed changes",
            "Evictions and resizes in place that failed, including those refused by a PodDisruptionBudget.",
            (
                "sum(rate(vpa_updater_failed_eviction_attempts_total{*}[$__rate_interval])) or 0",
                "evictions",
            ),
            (
                "sum by (reason) (rate(vpa_updater_failed_in_place_update_attempts_total{*}[$__rate_interval])) or 0",
                "{{reason}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Queued changes",
            "Changes queued for the API server, and actions dropped because their workload changed meanwhile.",
            ("sum(trellis_updater_waiting_writes{*})", "queued"),
            ("sum(increase(trellis_updater_outdated_actions_total{*}[$__rate_interval]))", "dropped"),
        ),
    ),
)

_PASSES: Final = Row(
    "Passes",
    (
        graph(
            "Steps of a pass",
            "Mean time spent in each step of a full pass.",
            (
                "sum by (step) (rate(vpa_updater_execution_latency_seconds_sum{*}[$__rate_interval]))"
                " / sum by (step) (rate(vpa_updater_execution_latency_seconds_count{*}[$__rate_interval]))",
                "{{step}}",
            ),
            unit=Unit.SECONDS,
        ),
        graph(
            "Planning",
            "Time to compute the plans of one batch of workloads.",
            *quantiles("trellis_updater_planning_seconds"),
            unit=Unit.SECONDS,
        ),
        graph(
            "Plans",
            "Plans computed for workloads, and internal errors that left a workload without a plan.",
            ("sum(rate(trellis_updater_plans_total{*}[$__rate_interval]))", "plans"),
            ("sum(rate(trellis_updater_plan_failures_total{*}[$__rate_interval]))", "internal errors"),
            unit=Unit.PER_SECOND,
        ),
    ),
)

UPDATER_DASHBOARD: Final = Dashboard(
    name="trellis-updater",
    title="Trellis / Updater",
    description="What the updater decides about running pods, why, and what it changes.",
    rows=(
        availability_row(_COMPONENT),
        _DECISIONS,
        _CHANGES,
        _PASSES,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
