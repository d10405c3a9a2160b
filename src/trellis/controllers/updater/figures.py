"""By which figures are plans made? What flags, gates and the API server say, as the core asks for it."""

from __future__ import annotations

from trellis.api.gates import Gates
from trellis.controllers.updater.settings import DisruptionSettings, UpdaterSettings
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.kube.served import Served, ServerVersion

# From this version on a memory limit may be lowered without a restart.
_LOWERS_MEMORY_LIMITS = (1, 34)


def update_settings(settings: UpdaterSettings, served: Served, version: ServerVersion) -> UpdateSettings:
    """The figures of the core."""
    given: DisruptionSettings = settings.disruption
    # Upstream tries again in every pass: where these are close together, nobody waits for a minute.
    soon = min(settings.loop.updater_interval.total_seconds(), UpdateSettings().retry)
    gates: Gates = settings.scope.feature_gates
    return UpdateSettings(
        min_replicas=given.min_replicas,
        eviction_tolerance=given.eviction_tolerance,
        update_threshold=given.pod_update_threshold,
        lifetime=given.in_recommendation_bounds_eviction_lifetime_threshold.total_seconds(),
        evict_after_oom=given.evict_after_oom_threshold.total_seconds(),
        down_patience=given.evict_after_container_down.total_seconds(),
        skip_disruption_budget=given.in_place_skip_disruption_budget,
        resizes=served.resizes_pods,
        lowers_memory_limits=version.number >= _LOWERS_MEMORY_LIMITS,
        in_place=gates.in_place,
        startup_boost=gates.cpu_startup_boost,
        per_vpa_config=gates.per_vpa_config,
        hpa_conflict=HpaConflict(given.hpa_conflict),
        require_fit=given.require_fit,
        hourly=given.evictions_per_hour,
        namespace_hourly=given.evictions_per_hour_per_namespace,
        boost_give_up_after=given.boost_give_up_after.total_seconds() or None,
        retry=soon,
        budget_retry=soon,
    )
