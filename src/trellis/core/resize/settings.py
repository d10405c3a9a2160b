"""Settings of the updater's decisions, with upstream's defaults and our own. Times are seconds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

_MINUTE: Final = 60.0
_HOUR: Final = 60 * _MINUTE


class HpaConflict(StrEnum):
    """What becomes of a resource by whose utilization an HPA scales the same workload."""

    WARN = "warn"
    HOLD = "hold"


class UpdateSettings(msgspec.Struct, frozen=True):
    """What flags, gates and the version of the API server say.

    `min_replicas` and `evict_after_oom` are for objects that do not say themselves. `lifetime` is how long a pod within
    its bounds is left alone, whatever is recommended. `skip_disruption_budget` exempts resizes that restart no
    container from the minimum and the tolerance, for VPAs; what an Hvpa decides always is.
    """

    min_replicas: int = 2
    eviction_tolerance: float = 0.5
    update_threshold: float = 0.1
    lifetime: float = 12 * _HOUR
    evict_after_oom: float = 10 * _MINUTE
    skip_disruption_budget: bool = False
    # Upstream's figures; it has no flags for them.
    deferred_patience: float = 5 * _MINUTE
    progress_patience: float = _HOUR
    # How long a container may be down before a pod that waits for it to be resized is evicted. The kubelet restarts at
    # once, then after 10, 20 and 40 seconds, then after 80 and more, up to 5 minutes; a new pod is there sooner.
    down_patience: float = _MINUTE

    # The API server has `pods/resize` (Kubernetes 1.33), and lets a memory limit be lowered without a restart (1.34).
    resizes: bool = True
    lowers_memory_limits: bool = True
    # The gates of the same names.
    in_place: bool = True
    startup_boost: bool = True
    per_vpa_config: bool = True

    hpa_conflict: HpaConflict = HpaConflict.WARN
    require_fit: bool = False
    # How many pods may be disturbed within an hour, in the cluster and in each namespace; None is any number.
    hourly: int | None = None
    namespace_hourly: int | None = None
    # How long a view may lag behind what was written; nothing is written twice in that time.
    catch_up: float = 30.0
    # How long to wait after something went wrong: each time twice as long, up to the longest.
    retry: float = _MINUTE
    longest_retry: float = 30 * _MINUTE
    # A disruption budget that says no now may say yes in the next pass: nothing is wrong, and this wait never grows.
    budget_retry: float = _MINUTE
    # A boost costs CPU for as long as it stays, and taking it back disrupts no pod.
    unboost_retry: float = 2.0
    longest_unboost_retry: float = 5 * _MINUTE
    # For boosts whose policy does not say when a pod that is not Ready is given up; None is never.
    boost_give_up_after: float | None = None
    # After an eviction that changed nothing the next one will not either, unless a person has mended something.
    loop_backoff: float = _HOUR
    longest_loop_backoff: float = 24 * _HOUR
