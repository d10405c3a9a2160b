"""Settings of the recommender: upstream's flags with upstream's defaults, and those that only Trellis has.

The functions at the end build the parameters of `core.usage` and `core.recommend` from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Final

from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.durations import Duration
from trellis.base.names import check_dns_subdomain
from trellis.base.quantities import Quantity
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.usage.settings import UsageSettings
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, ScopeSettings, ShardedLeaderSettings, check_interval
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings
from trellis.sources.prometheus.settings import PrometheusSettings

LEASE: Final = "vpa-recommender-lease"
LEASE_NAMESPACE: Final = "kube-system"


def build_lease_names(names: Sequence[str], base: str, namespace: str = LEASE_NAMESPACE) -> dict[str, str]:
    """The lease of each name. That of `default` is upstream's, so that upstream's recommender and ours take turns.

    A lease or a namespace that is set for a single recommender is used as it is: rights may be limited to it, as in
    upstream's chart. Where neither is given, recommenders of different names do not take turns.
    """
    if len(names) == 1 and (base, namespace) != (LEASE, LEASE_NAMESPACE):
        return {names[0]: base}
    return {name: base if name == DEFAULT_RECOMMENDER else f"{base}-{name}" for name in names}


FROM_PROMETHEUS: Final = "prometheus"

_SHARE: Final[dict[str, Any]] = {"minimum": 0.0, "maximum": 1.0}


class RecommenderLoopSettings(Settings, frozen=True):
    """Names under which VPAs are served, and the time between passes."""

    title: ClassVar[str] = "Names and passes"

    recommender_name: Annotated[
        tuple[str, ...],
        Setting(
            "Recommender names to serve, separated by commas. `default` also serves VPAs that name no recommender.",
            why="Upstream takes one name; one Trellis process serves any number.",
        ),
    ] = (DEFAULT_RECOMMENDER,)
    recommender_interval: Annotated[
        Duration,
        Setting(
            "Time between two passes, each of which reads usage and updates recommendations.",
            why="metrics-server measures once a minute at most.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    hvpa_totals: Annotated[
        bool,
        Setting(
            "Publish workload totals in the status of Hvpas although another process serves `default`. A "
            "process that serves `default` always publishes them.",
            why="Off: two processes that publish totals would overwrite each other.",
        ),
    ] = False
    update_worker_count: Annotated[
        int,
        Setting(
            "Number of concurrent writes of statuses and checkpoints to the API server.",
            why="Upstream's default. The API server grants a client some tens of concurrent requests.",
            minimum=1,
            maximum=1000,
        ),
    ] = 10
    memory_saver: Annotated[
        bool,
        Setting("Has no effect.", why="Only pods governed by a VPA are kept in memory.", obsolete=True),
    ] = False
    min_checkpoints: Annotated[int, Setting("Has no effect.", why="Without effect upstream too.", obsolete=True)] = 10

    def conflicts(self) -> Iterator[SettingConflict]:
        """Names of recommenders must be given, and each only once."""
        names = self.recommender_name
        if not names:
            yield SettingConflict("recommender-name", "must name at least one recommender")
        if len(set(names)) < len(names):
            yield SettingConflict("recommender-name", "must not name a recommender twice")


class PluginSettings(Settings, frozen=True):
    """Parameters of recommenders, and limits of installed ones."""

    title: ClassVar[str] = "Recommenders"

    parameters: Annotated[
        tuple[str, ...],
        Setting(
            "Default of a recommender's parameter, as `parameter=value`, or "
            "`recommender.parameter=value` with several names; may be repeated. `trellis recommenders` "
            "lists all parameters.",
            why="Parameters in a VPA take precedence.",
            flag="set",
        ),
    ] = ()
    recommender_deadline: Annotated[
        Duration,
        Setting(
            "How long an installed recommender may run in a pass; after that it is killed, and its VPAs "
            "keep their recommendation.",
            why="Others wait meanwhile, and a pass should take less than a minute.",
            minimum=Duration.from_seconds(0.1),
        ),
    ] = Duration.from_seconds(10)
    recommender_memory: Annotated[
        Quantity,
        Setting(
            "Maximum address space of an installed recommender; 0 disables the limit.",
            why="Python and NumPy take 0.3Gi, and 10,000 containers some hundred MiB.",
            unit="bytes",
            minimum=Quantity.ZERO,
        ),
    ] = Quantity.parse("2Gi")


class EstimateSettings(Settings, frozen=True):
    """Percentiles, margins, bounds and rounding of the recommender `default`."""

    title: ClassVar[str] = "Estimates"

    recommendation_margin_fraction: Annotated[
        float,
        Setting(
            "Fraction of the estimated usage that is added as the safety margin.",
            why="Upstream's default.",
            minimum=0.0,
        ),
    ] = 0.15
    pod_recommendation_min_cpu_millicores: Annotated[
        float,
        Setting(
            "Minimum CPU recommendation of a pod, divided by its number of containers.",
            why="Upstream's default.",
            unit="millicores",
            minimum=0.0,
        ),
    ] = 25.0
    pod_recommendation_min_memory_mb: Annotated[
        float,
        Setting(
            "Minimum memory recommendation of a pod, divided by its number of containers.",
            why="Upstream's default.",
            unit="MiB",
            minimum=0.0,
        ),
    ] = 250.0
    target_cpu_percentile: Annotated[
        float, Setting("CPU usage percentile for the target.", why="Upstream's default.", **_SHARE)
    ] = 0.9
    recommendation_lower_bound_cpu_percentile: Annotated[
        float, Setting("CPU usage percentile for the lower bound.", why="Upstream's default.", **_SHARE)
    ] = 0.5
    recommendation_upper_bound_cpu_percentile: Annotated[
        float, Setting("CPU usage percentile for the upper bound.", why="Upstream's default.", **_SHARE)
    ] = 0.95
    target_memory_percentile: Annotated[
        float,
        Setting(
            "Memory usage percentile for the target. A sample is the peak of an interval.",
            why="Upstream's default.",
            **_SHARE,
        ),
    ] = 0.9
    recommendation_lower_bound_memory_percentile: Annotated[
        float, Setting("Memory usage percentile for the lower bound.", why="Upstream's default.", **_SHARE)
    ] = 0.5
    recommendation_upper_bound_memory_percentile: Annotated[
        float, Setting("Memory usage percentile for the upper bound.", why="Upstream's default.", **_SHARE)
    ] = 0.95
    confidence_interval_cpu: Annotated[
        Duration,
        Setting(
            "Length of history with which the CPU bounds are fully trusted; with less they are wider.",
            why="Upstream's default: a day contains every hour once.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(86400)
    confidence_interval_memory: Annotated[
        Duration,
        Setting(
            "Length of history with which the memory bounds are fully trusted; with less they are wider.",
            why="Upstream's default: a day contains every hour once.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(86400)
    humanize_memory: Annotated[
        bool,
        Setting("Format memory recommendations with two decimals, such as 1.50Gi.", why="Off; deprecated upstream."),
    ] = False
    round_cpu_millicores: Annotated[
        int,
        Setting(
            "Round CPU recommendations up to a multiple of this.", why="1: no rounding.", unit="millicores", minimum=1
        ),
    ] = 1
    round_memory_bytes: Annotated[
        int,
        Setting(
            "Round memory recommendations up to a multiple of this.", why="1: no rounding.", unit="bytes", minimum=1
        ),
    ] = 1
    cpu_integer_post_processor_enabled: Annotated[
        bool,
        Setting(
            "Round CPU recommendations up to whole cores for containers with the VPA annotation of "
            "upstream's CPU integer post-processor.",
            why="Off, as upstream.",
        ),
    ] = False
    container_recommendation_max_allowed_cpu: Annotated[
        Quantity,
        Setting(
            "Maximum CPU recommendation of a container whose VPA sets no `maxAllowed`.",
            why="0: no maximum.",
            minimum=Quantity.ZERO,
        ),
    ] = Quantity.ZERO
    container_recommendation_max_allowed_memory: Annotated[
        Quantity,
        Setting(
            "Maximum memory recommendation of a container whose VPA sets no `maxAllowed`.",
            why="0: no maximum.",
            minimum=Quantity.ZERO,
        ),
    ] = Quantity.ZERO


class MemorySettings(Settings, frozen=True):
    """Histograms of usage: intervals of memory peaks, half-lives, and out-of-memory kills."""

    title: ClassVar[str] = "Usage histograms"

    memory_aggregation_interval: Annotated[
        Duration,
        Setting(
            "Length of an interval; the memory peak of each interval is one sample.",
            why="Upstream's default: a day contains every hour once.",
        ),
    ] = Duration.from_seconds(86400)
    memory_aggregation_interval_count: Annotated[
        int,
        Setting(
            "Number of intervals without new samples after which the history of a container is dropped.",
            why="Upstream's default.",
            minimum=1,
        ),
    ] = 8
    memory_histogram_decay_half_life: Annotated[
        Duration,
        Setting(
            "Half-life of memory samples: after this time a sample has half its weight.", why="Upstream's default."
        ),
    ] = Duration.from_seconds(86400)
    cpu_histogram_decay_half_life: Annotated[
        Duration,
        Setting("Half-life of CPU samples: after this time a sample has half its weight.", why="Upstream's default."),
    ] = Duration.from_seconds(86400)
    oom_bump_up_ratio: Annotated[
        float,
        Setting("After an out-of-memory kill, memory is multiplied by this.", why="Upstream's default.", minimum=1.0),
    ] = 1.2
    oom_min_bump_up_bytes: Annotated[
        float,
        Setting(
            "After an out-of-memory kill, memory is increased by at least this.",
            why="100 MiB, as upstream.",
            unit="bytes",
            minimum=0.0,
        ),
    ] = 104857600.0

    def conflicts(self) -> Iterator[SettingConflict]:
        """A window or a half-life of nothing divides by zero."""
        for name in (
            "memory-aggregation-interval",
            "memory-histogram-decay-half-life",
            "cpu-histogram-decay-half-life",
        ):
            if getattr(self, name.replace("-", "_")) <= Duration(0):
                yield SettingConflict(name, "must be longer than 0s")


class StorageSettings(Settings, frozen=True):
    """Storage of usage history, and thresholds for status writes."""

    title: ClassVar[str] = "Storage and status writes"

    storage: Annotated[
        str,
        Setting(
            "Source of usage history at start: `prometheus`; any other value means checkpoints.",
            why="Checkpoints, as upstream; they need only the API server.",
        ),
    ] = ""
    checkpoints_gc_interval: Annotated[
        Duration,
        Setting(
            "Time between two removals of checkpoints whose VPA no longer exists; 0s: in every pass.",
            why="Upstream's default.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)
    checkpoints_timeout: Annotated[
        Duration,
        Setting("Timeout for writing checkpoints in a pass.", why="Upstream's default.", check=check_interval),
    ] = Duration.from_seconds(60)
    checkpoint_writes_per_pass: Annotated[
        int,
        Setting(
            "Maximum number of checkpoints written in a pass, the oldest first.",
            why="Up to this many containers lose at most one pass of usage when the process is killed.",
            minimum=1,
        ),
    ] = 200
    checkpoint_time_per_pass: Annotated[
        Duration,
        Setting(
            "How long a pass starts to write checkpoints; the first 20 are always written, and the rest "
            "follow in the next passes.",
            why="Keeps passes short when the API server is slow; a small one takes about 200 checkpoints a second.",
        ),
    ] = Duration.from_seconds(1)
    status_change_threshold: Annotated[
        float,
        Setting(
            "Relative change of a recommended value above which the status is written.",
            why="Histogram bins are 5 % wide: a smaller change is only a bound that narrows as history grows.",
            **_SHARE,
        ),
    ] = 0.05
    status_narrowing_threshold: Annotated[
        float,
        Setting(
            "Relative change of a bound towards its target above which the status is written.",
            why="Bounds of a new container narrow with every sample, and the wider bound is the safer one.",
            **_SHARE,
        ),
    ] = 0.5
    status_max_age: Annotated[
        Duration,
        Setting(
            "Age of a status after which any difference is written.",
            why="Ten minutes are soon enough for a change below both thresholds.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)


class LiveSettings(Settings, frozen=True):
    """External metrics as the source of live usage."""

    title: ClassVar[str] = "External metrics"

    use_external_metrics: Annotated[
        bool,
        Setting("Read live usage from external.metrics.k8s.io instead of metrics.k8s.io.", why="Off, as upstream."),
    ] = False
    external_metrics_cpu_metric: Annotated[
        str, Setting("Name of the external metric for CPU usage.", why="Empty: no CPU usage.")
    ] = ""
    external_metrics_memory_metric: Annotated[
        str, Setting("Name of the external metric for memory usage.", why="Empty: no memory usage.")
    ] = ""


class RecommenderSettings(Settings, frozen=True):
    """All settings of the recommender."""

    most_used: ClassVar[tuple[str, ...]] = (
        "recommender-name",
        "recommendation-margin-fraction",
        "target-cpu-percentile",
        "target-memory-percentile",
        "pod-recommendation-min-cpu-millicores",
        "pod-recommendation-min-memory-mb",
        "storage",
        "prometheus-address",
        "read-only",
        "leader-elect",
    )

    loop: RecommenderLoopSettings = RecommenderLoopSettings()
    plugins: PluginSettings = PluginSettings()
    estimates: EstimateSettings = EstimateSettings()
    memory: MemorySettings = MemorySettings()
    storage: StorageSettings = StorageSettings()
    live: LiveSettings = LiveSettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: ShardedLeaderSettings = ShardedLeaderSettings(leader_elect_resource_name=LEASE)
    recording: RecorderSettings = RecorderSettings()
    health: HealthSettings = HealthSettings(address=":8942")
    logs: LogSettings = LogSettings()

    def conflicts(self) -> Iterator[SettingConflict]:
        """A name may be anything, but that of a lease may not."""
        if self.leader.leader_elect or self.leader.shard_namespaces:
            where = self.leader.leader_elect_resource_name, self.leader.leader_elect_resource_namespace
            for name, lease in build_lease_names(self.loop.recommender_name, *where).items():
                if problem := check_dns_subdomain(lease):
                    yield SettingConflict(
                        "recommender-name", f"the Lease of {name} would be {lease}: such a name {problem}"
                    )


def build_usage_settings(settings: RecommenderSettings) -> UsageSettings:
    """Histograms of usage: intervals of memory peaks, half-lives, and out-of-memory kills."""
    memory = settings.memory
    return UsageSettings(
        cpu_half_life=memory.cpu_histogram_decay_half_life.total_seconds(),
        memory_half_life=memory.memory_histogram_decay_half_life.total_seconds(),
        memory_window=memory.memory_aggregation_interval.total_seconds(),
        memory_windows=memory.memory_aggregation_interval_count,
        oom_bump_up_ratio=memory.oom_bump_up_ratio,
        oom_min_bump_up=memory.oom_min_bump_up_bytes,
    )


def build_default_settings(settings: RecommenderSettings) -> DefaultSettings:
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


def build_pipeline_settings(settings: RecommenderSettings) -> PipelineSettings:
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
