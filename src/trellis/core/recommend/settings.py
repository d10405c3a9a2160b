"""Settings of the default recommender and of a pass: upstream's, each of which is a flag of the recommender.

Plain structs: the core reads no flags. The command line fills them in.
"""

from __future__ import annotations

import msgspec

DAY = 86400.0
MEBIBYTE = 1024.0 * 1024.0


class DefaultSettings(msgspec.Struct, frozen=True):
    """The figures of the default recommender.

    Percentiles are fractions of the samples' weight. The margin is added to every percentile. A confidence interval is
    the span of history, in seconds, at which a bound is twice as far away as it could be; with less history it is
    farther. The minimums are for a whole pod and are shared by its containers.
    """

    target_cpu_percentile: float = 0.9
    lower_bound_cpu_percentile: float = 0.5
    upper_bound_cpu_percentile: float = 0.95
    target_memory_percentile: float = 0.9
    lower_bound_memory_percentile: float = 0.5
    upper_bound_memory_percentile: float = 0.95
    margin_fraction: float = 0.15
    confidence_interval_cpu: float = DAY
    confidence_interval_memory: float = DAY
    pod_min_cpu_millicores: float = 25.0
    pod_min_memory_mebibytes: float = 250.0


class PipelineSettings(msgspec.Struct, frozen=True):
    """Post-processing of the recommendations of all recommenders, and when a status is written.

    Rounding is up, to a multiple. A maximum of 0 is none; it holds for containers whose policy leaves the resource
    open. `change_threshold` and `narrowing_threshold` are fractions of the published value, `max_age` is in seconds;
    `trellis.core.recommend.publish.status` says what they do.
    """

    round_cpu_millicores: int = 1
    round_memory_bytes: int = 1
    humanize_memory: bool = False
    integer_cpu: bool = False
    max_allowed_cpu: float = 0.0
    max_allowed_memory: float = 0.0
    change_threshold: float = 0.05
    narrowing_threshold: float = 0.5
    max_age: float = 600.0
