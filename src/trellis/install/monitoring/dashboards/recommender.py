"""The dashboard of the recommender."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import Dashboard, Row, Unit, graph, quantiles, stat
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "recommender"

_VPAS: Final = Row(
    "VPAs",
    (
        graph(
            "VPAs by update mode",
            "VPA objects that this recommender serves.",
            ("sum by (update_mode) (vpa_recommender_vpa_objects_count{*})", "{{update_mode}}"),
            stack=True,
        ),
        graph(
            "VPAs that lack something",
            "VPAs without a recommendation, without pods, or with an unsupported configuration.",
            ('sum(vpa_recommender_vpa_objects_count{*,has_recommendation="false"})', "no recommendation"),
            ('sum(vpa_recommender_vpa_objects_count{*,matches_pods="false"})', "no pods"),
            ('sum(vpa_recommender_vpa_objects_count{*,unsupported_config="true"})', "unsupported configuration"),
        ),
        graph(
            "Time to the first recommendation",
            "Time from the creation of a VPA to its first recommendation.",
            *quantiles("vpa_recommender_recommendation_latency_seconds"),
            unit=Unit.SECONDS,
        ),
    ),
)

_USAGE: Final = Row(
    "Usage",
    (
        stat(
            "Age of the newest sample",
            "Time since the newest accepted usage sample.",
            ("time() - max(trellis_recommender_newest_sample_timestamp_seconds{*})", ""),
            unit=Unit.SECONDS,
        ),
        stat(
            "Containers with history",
            "Containers of VPAs with usage history.",
            ("max(vpa_recommender_aggregate_container_states_count{*})", ""),
        ),
        stat(
            "Unreadable checkpoints",
            "Invalid checkpoints that were not overwritten yet.",
            ("max(trellis_recommender_unreadable_checkpoints{*})", ""),
        ),
        stat(
            "Size of the usage model",
            "Memory of the usage model, including what is reserved and not yet used.",
            ("max(trellis_recommender_model_bytes{*})", ""),
            unit=Unit.BYTES,
        ),
        graph(
            "Usage samples",
            "Samples by result: accepted, or the reason why they were discarded.",
            ("sum by (result) (rate(trellis_recommender_samples_total{*}[$__rate_interval]))", "{{result}}"),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Responses of the source of usage",
            "Responses of the metrics API, external metrics or Prometheus.",
            (
                "sum by (is_error) (rate(vpa_recommender_metric_server_responses{*}[$__rate_interval]))",
                "error: {{is_error}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Out-of-memory kills",
            "Out-of-memory kills by result: accepted, or the reason why they were discarded.",
            (
                "sum by (result) (rate(trellis_recommender_oom_kills_total{*}[$__rate_interval])) or 0",
                "{{result}}",
            ),
            unit=Unit.PER_SECOND,
        ),
    ),
)

_PASSES: Final = Row(
    "Passes",
    (
        graph(
            "Steps of a pass",
            "Mean time spent in each step of a pass.",
            (
                "sum by (step) (rate(vpa_recommender_execution_latency_seconds_sum{*}[$__rate_interval]))"
                " / sum by (step) (rate(vpa_recommender_execution_latency_seconds_count{*}[$__rate_interval]))",
                "{{step}}",
            ),
            unit=Unit.SECONDS,
            width=12,
        ),
        graph(
            "Installed and shadow recommenders",
            "Failures of installed recommenders and of shadows, and VPAs whose shadow no process serves.",
            (
                "sum by (recommender, reason) "
                "(rate(trellis_recommender_worker_failures_total{*}[$__rate_interval])) or 0",
                "{{recommender}} {{reason}}",
            ),
            (
                "sum by (recommender) (rate(trellis_recommender_shadow_failures_total{*}[$__rate_interval])) or 0",
                "shadow {{recommender}}",
            ),
            unit=Unit.PER_SECOND,
            width=12,
        ),
    ),
)

_QUALITY: Final = Row(
    "Quality",
    (
        graph(
            "Usage above the recommendation",
            "Share of the usage samples that are above the recommendation in force.",
            *(
                (
                    "1 - sum(rate(vpa_quality_usage_recommendation_relative_diffs_bucket"
                    f'{{*,resource="{resource}",le=~"0|0.0"}}[$__rate_interval]))'
                    " / sum(rate(vpa_quality_usage_recommendation_relative_diffs_count"
                    f'{{*,resource="{resource}"}}[$__rate_interval]))',
                    resource,
                )
                for resource in ("cpu", "memory")
            ),
            unit=Unit.RATIO,
        ),
        graph(
            "CPU recommended and not used",
            "Recommendation minus usage, of samples where the recommendation is higher.",
            *quantiles("vpa_quality_cpu_recommendation_over_usage_diffs_cores"),
            unit=Unit.CORES,
        ),
        graph(
            "Memory recommended and not used",
            "Recommendation minus usage, of samples where the recommendation is higher.",
            *quantiles("vpa_quality_mem_recommendation_over_usage_diffs_bytes"),
            unit=Unit.BYTES,
        ),
    ),
)

RECOMMENDER_DASHBOARD: Final = Dashboard(
    name="trellis-recommender",
    title="Trellis / Recommender",
    description="What the recommender reads, what it recommends, and how its recommendations compare with usage.",
    rows=(
        availability_row(_COMPONENT),
        _VPAS,
        _USAGE,
        _PASSES,
        _QUALITY,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
