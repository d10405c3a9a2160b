"""What do the flags mean to the core? Its plain structs, filled in from the settings."""

from __future__ import annotations

from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.workers import WorkerSettings
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.usage.settings import UsageSettings


def usage_settings(settings: RecommenderSettings) -> UsageSettings:
    """How usage is remembered."""
    memory = settings.memory
    return UsageSettings(
        cpu_half_life=memory.cpu_histogram_decay_half_life.total_seconds(),
        memory_half_life=memory.memory_histogram_decay_half_life.total_seconds(),
        memory_window=memory.memory_aggregation_interval.total_seconds(),
        memory_windows=memory.memory_aggregation_interval_count,
        oom_bump_up_ratio=memory.oom_bump_up_ratio,
        oom_min_bump_up=memory.oom_min_bump_up_bytes,
    )


def default_settings(settings: RecommenderSettings) -> DefaultSettings:
    """How the default recommender estimates."""
    figures = settings.estimates
    return DefaultSettings(
        target_cpu_percentile=figures.target_cpu_percentile,
        lower_bound_cpu_percentile=figures.recommendation_lower_bound_cpu_percentile,
        upper_bound_cpu_percentile=figures.recommendation_upper_bound_cpu_percentile,
        target_memory_percentile=figures.target_memory_percentile,
        lower_bound_memory_percentile=figures.recommendation_lower_bound_memory_percentile,
        upper_bound_memory_percentile=figures.recommendation_upper_bound_memory_percentile,
        margin_fraction=figures.recommendation_margin_fraction,
        confidence_interval_cpu=figures.confidence_interval_cpu.total_seconds(),
        confidence_interval_memory=figures.confidence_interval_memory.total_seconds(),
        pod_min_cpu_millicores=figures.pod_recommendation_min_cpu_millicores,
        pod_min_memory_mebibytes=figures.pod_recommendation_min_memory_mb,
    )


def pipeline_settings(settings: RecommenderSettings) -> PipelineSettings:
    """What happens to every estimate, and when a status is written."""
    figures, storage = settings.estimates, settings.storage
    return PipelineSettings(
        round_cpu_millicores=figures.round_cpu_millicores,
        round_memory_bytes=figures.round_memory_bytes,
        humanize_memory=figures.humanize_memory,
        integer_cpu=figures.cpu_integer_post_processor_enabled,
        max_allowed_cpu=float(figures.container_recommendation_max_allowed_cpu.milli),
        max_allowed_memory=float(figures.container_recommendation_max_allowed_memory.units),
        change_threshold=storage.status_change_threshold,
        narrowing_threshold=storage.status_narrowing_threshold,
        max_age=storage.status_max_age.total_seconds(),
    )


def worker_settings(settings: RecommenderSettings) -> WorkerSettings:
    """How far recommenders of others may go."""
    return WorkerSettings(
        deadline=settings.plugins.recommender_deadline.total_seconds(),
        memory=settings.plugins.recommender_memory.units,
    )
