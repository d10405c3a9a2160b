"""Settings of the components in a simulation: by the names of their flags, with the same defaults.

Only what changes a decision is here: a flag about certificates or leases says nothing in a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.base.quantities import Quantity
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.hvpa import HvpaSettings
from trellis.core.nodes.scale_up.expanders import EXPANDERS
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.usage.settings import UsageSettings


class AdmissionChecks(msgspec.Struct, frozen=True):
    """`is_heeded` says that no pod is evicted while no admission controller runs."""

    is_heeded: bool = True


class SimulationSettings(msgspec.Struct, frozen=True):
    """The settings of all components, as the core reads them."""

    usage: UsageSettings = UsageSettings()
    estimates: DefaultSettings = DefaultSettings()
    pipeline: PipelineSettings = PipelineSettings()
    updates: UpdateSettings = UpdateSettings()
    boosts: BoostSettings = BoostSettings()
    admission: AdmissionChecks = AdmissionChecks()
    hvpas: HvpaSettings = HvpaSettings()
    up: ScaleUpSettings = ScaleUpSettings()
    down: ScaleDownSettings = ScaleDownSettings()
    gates: FeatureGates = FeatureGates()


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidInput(text, "must be true or false")
    return text.lower() == "true"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(text, "must be a number") from None


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(text, "must be a whole number") from None


def _at_least(least: float, read: Callable[[str], Any], most: float = float("inf")) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        result = read(text)
        if not least <= result <= most:
            bounds = f"at least {least:g}" if most == float("inf") else f"between {least:g} and {most:g}"
            raise InvalidInput(text, f"must be {bounds}")
        return result

    return checked


def _seconds(text: str) -> float:
    return parse_duration(text).total_seconds()


def _duration_or_never(text: str) -> float | None:
    return _duration(text) or None


def _hpa(text: str) -> HpaConflict:
    if text not in set(HpaConflict):
        raise InvalidInput(text, f"must be one of {', '.join(HpaConflict)}")
    return HpaConflict(text)


def _expanders(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in EXPANDERS:
            raise InvalidInput(text, f"must be one or more of {', '.join(EXPANDERS)}")
    return names


_share: Final = _at_least(0.0, _number, 1.0)
_non_negative: Final = _at_least(0.0, _number)
_second: Final = _at_least(1.0, _seconds)
_duration: Final = _at_least(0.0, _seconds)
_positive_count: Final = _at_least(1, _count)
_any_count: Final = _at_least(0, _count)

# The struct, its field, and how the text of the flag is read.
FLAGS: Final[Mapping[str, tuple[str, str, Callable[[str], Any]]]] = {
    "cpu-histogram-decay-half-life": ("usage", "cpu_half_life", _second),
    "memory-histogram-decay-half-life": ("usage", "memory_half_life", _second),
    "memory-aggregation-interval": ("usage", "memory_window", _second),
    "memory-aggregation-interval-count": ("usage", "memory_windows", _positive_count),
    "oom-bump-up-ratio": ("usage", "oom_bump_up_ratio", _at_least(1.0, _number)),
    "oom-min-bump-up-bytes": ("usage", "oom_min_bump_up", _non_negative),
    "target-cpu-percentile": ("estimates", "target_cpu_percentile", _share),
    "recommendation-lower-bound-cpu-percentile": ("estimates", "lower_bound_cpu_percentile", _share),
    "recommendation-upper-bound-cpu-percentile": ("estimates", "upper_bound_cpu_percentile", _share),
    "target-memory-percentile": ("estimates", "target_memory_percentile", _share),
    "recommendation-lower-bound-memory-percentile": ("estimates", "lower_bound_memory_percentile", _share),
    "recommendation-upper-bound-memory-percentile": ("estimates", "upper_bound_memory_percentile", _share),
    "recommendation-margin-fraction": ("estimates", "margin_fraction", _non_negative),
    "confidence-interval-cpu": ("estimates", "confidence_interval_cpu", _second),
    "confidence-interval-memory": ("estimates", "confidence_interval_memory", _second),
    "pod-recommendation-min-cpu-millicores": ("estimates", "pod_min_cpu_millicores", _non_negative),
    "pod-recommendation-min-memory-mb": ("estimates", "pod_min_memory_mebibytes", _non_negative),
    "round-cpu-millicores": ("pipeline", "round_cpu_millicores", _positive_count),
    "round-memory-bytes": ("pipeline", "round_memory_bytes", _positive_count),
    "humanize-memory": ("pipeline", "humanize_memory", _boolean),
    "cpu-integer-post-processor-enabled": ("pipeline", "integer_cpu", _boolean),
    "container-recommendation-max-allowed-cpu": (
        "pipeline",
        "max_allowed_cpu",
        _at_least(0.0, lambda text: float(Quantity.parse(text).milli)),
    ),
    "container-recommendation-max-allowed-memory": (
        "pipeline",
        "max_allowed_memory",
        _at_least(0.0, lambda text: float(Quantity.parse(text).units)),
    ),
    "status-change-threshold": ("pipeline", "change_threshold", _share),
    "status-narrowing-threshold": ("pipeline", "narrowing_threshold", _share),
    "status-max-age": ("pipeline", "max_age", _duration),
    "min-replicas": ("updates", "min_replicas", _positive_count),
    "eviction-tolerance": ("updates", "eviction_tolerance", _share),
    "pod-update-threshold": ("updates", "update_threshold", _non_negative),
    "in-recommendation-bounds-eviction-lifetime-threshold": ("updates", "lifetime", _duration),
    "evict-after-oom-threshold": ("updates", "evict_after_oom", _duration),
    "in-place-skip-disruption-budget": ("updates", "skip_disruption_budget", _boolean),
    "evictions-per-hour": ("updates", "hourly", _any_count),
    "evictions-per-hour-per-namespace": ("updates", "namespace_hourly", _any_count),
    "require-fit": ("updates", "require_fit", _boolean),
    "hpa-conflict": ("updates", "hpa_conflict", _hpa),
    "boost-give-up-after": ("updates", "boost_give_up_after", _duration_or_never),
    "max-allowed-cpu-boost": ("boosts", "max_cpu", _at_least(0, lambda text: Quantity.parse(text).milli)),
    "use-admission-controller-status": ("admission", "is_heeded", _boolean),
    "ready-patience": ("hvpas", "ready_patience", _duration),
    "expander": ("up", "expanders", _expanders),
    "balance-similar-node-groups": ("up", "balance_similar_node_groups", _boolean),
    "max-nodes-total": ("up", "max_nodes_total", _any_count),
    "max-nodes-per-scaleup": ("up", "max_nodes_per_scaleup", _positive_count),
    "scale-up-for-resizes": ("up", "scale_up_for_resizes", _boolean),
    "scale-down-recommendation-headroom": ("down", "scale_down_recommendation_headroom", _boolean),
    "scale-down-enabled": ("down", "scale_down_enabled", _boolean),
    "scale-down-utilization-threshold": ("down", "scale_down_utilization_threshold", _share),
    "scale-down-gpu-utilization-threshold": ("down", "scale_down_gpu_utilization_threshold", _share),
    "scale-down-unneeded-time": ("down", "scale_down_unneeded_seconds", _duration),
    "scale-down-unready-time": ("down", "scale_down_unready_seconds", _duration),
    "scale-down-delay-after-add": ("down", "scale_down_delay_after_add_seconds", _duration),
    "scale-down-delay-after-delete": ("down", "scale_down_delay_after_delete_seconds", _duration),
    "max-scale-down-parallelism": ("down", "max_scale_down_parallelism", _positive_count),
    "max-drain-parallelism": ("down", "max_drain_parallelism", _positive_count),
    "max-bulk-soft-taint-count": ("down", "max_bulk_soft_taint_count", _any_count),
    "daemonset-eviction-for-occupied-nodes": ("down", "daemonset_eviction_for_occupied_nodes", _boolean),
    "daemonset-eviction-for-empty-nodes": ("down", "daemonset_eviction_for_empty_nodes", _boolean),
}


def read_flags(written: Mapping[str, str]) -> SimulationSettings:
    """The settings with the flags that were given; `InvalidInput` names the flag, the value and the rule."""
    changed: dict[str, dict[str, Any]] = {}
    for flag, text in written.items():
        if flag not in FLAGS:
            guess = suggest_name(flag, FLAGS)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(flag, f"is not a flag that a simulation supports{hint}")
        group, field, read = FLAGS[flag]
        try:
            changed.setdefault(group, {})[field] = read(text)
        except InvalidInput as error:
            raise InvalidInput(text, f"{flag} {error.rule}") from error
    settings = SimulationSettings()
    groups = {group: msgspec.structs.replace(getattr(settings, group), **fields) for group, fields in changed.items()}
    return msgspec.structs.replace(settings, **groups)
