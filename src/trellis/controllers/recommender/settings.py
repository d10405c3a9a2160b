"""Settings of the recommender: upstream's flags with upstream's defaults, and those that only Trellis has.

The functions at the end build the parameters of `core.usage` and `core.recommend` from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.durations import Duration
from trellis.base.names import check_dns_subdomain
from trellis.base.quantities import Quantity
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.usage.settings import UsageSettings
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, LeaderSettings, ScopeSettings, check_interval
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
    """Who it is, and how often it works."""

    recommender_name: Annotated[
        tuple[str, ...],
        Setting(
            "The recommenders to be: VPAs that name one of them are served, under `default` also those that name none.",
            why="Upstream takes one name; ours hosts any number in one process.",
        ),
    ] = (DEFAULT_RECOMMENDER,)
    recommender_interval: Annotated[
        Duration,
        Setting(
            "How often to take in metrics and recommend.",
            why="Metrics are a minute old anyway.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    hvpa_totals: Annotated[
        bool,
        Setting(
            "Publish the totals of whole workloads in the status of Hvpas although another recommender serves "
            "`default`. Where `default` is among the names they are published anyway.",
            why="Two processes would overwrite each other's, so that one of them has to be chosen.",
        ),
    ] = False
    update_worker_count: Annotated[
        int,
        Setting(
            "Writes under way at the same time.",
            why="Upstream's figure. The API server gives all of us some tens of seats.",
            minimum=1,
            maximum=1000,
        ),
    ] = 10
    memory_saver: Annotated[
        bool,
        Setting("Taken for the sake of upstream's manifests.", why="Only governed pods are remembered.", obsolete=True),
    ] = False
    min_checkpoints: Annotated[
        int, Setting("Taken for the sake of upstream's manifests.", why="Without effect upstream, too.", obsolete=True)
    ] = 10

    def conflicts(self) -> Iterator[SettingConflict]:
        """Names of recommenders must be given, and each only once."""
        names = self.recommender_name
        if not names:
            yield SettingConflict("recommender-name", "must name at least one recommender")
        if len(set(names)) < len(names):
            yield SettingConflict("recommender-name", "must not name a recommender twice")


class PluginSettings(Settings, frozen=True):
    """What recommenders get to know, and how far those of others may go."""

    parameters: Annotated[
        tuple[str, ...],
        Setting(
            "Other defaults for parameters of recommenders, as `parameter=value`; with several names, as "
            "`recommender.parameter=value`. `trellis recommenders` lists them.",
            why="What a VPA sets for itself wins.",
            flag="set",
        ),
    ] = ()
    recommender_deadline: Annotated[
        Duration,
        Setting(
            "How long an installed recommender may take in a pass; then it is killed, and its VPAs stay as they are.",
            why="Others wait for as long, and a pass has a minute.",
            minimum=Duration.from_seconds(0.1),
        ),
    ] = Duration.from_seconds(10)
    recommender_memory: Annotated[
        Quantity,
        Setting(
            "Most address space of an installed recommender; 0 sets no limit.",
            why="Python and NumPy take 0.3Gi of it, and 10,000 containers a few hundred MiB.",
            unit="bytes",
            minimum=Quantity.ZERO,
        ),
    ] = Quantity.parse("2Gi")


class EstimateSettings(Settings, frozen=True):
    """How usage becomes a recommendation."""

    recommendation_margin_fraction: Annotated[
        float, Setting("Share of the estimate that is added on top.", why="Upstream's figure.", minimum=0.0)
    ] = 0.15
    pod_recommendation_min_cpu_millicores: Annotated[
        float,
        Setting(
            "Least CPU of a pod, shared out equally among its containers.",
            why="Upstream's figure.",
            unit="millicores",
            minimum=0.0,
        ),
    ] = 25.0
    pod_recommendation_min_memory_mb: Annotated[
        float,
        Setting(
            "Least memory of a pod, shared out equally among its containers.",
            why="Upstream's figure.",
            unit="MiB",
            minimum=0.0,
        ),
    ] = 250.0
    target_cpu_percentile: Annotated[
        float, Setting("Percentile of CPU usage that the target follows.", why="Upstream's figure.", **_SHARE)
    ] = 0.9
    recommendation_lower_bound_cpu_percentile: Annotated[
        float, Setting("Percentile of CPU usage for the lower bound.", why="Upstream's figure.", **_SHARE)
    ] = 0.5
    recommendation_upper_bound_cpu_percentile: Annotated[
        float, Setting("Percentile of CPU usage for the upper bound.", why="Upstream's figure.", **_SHARE)
    ] = 0.95
    target_memory_percentile: Annotated[
        float, Setting("Percentile of memory peaks that the target follows.", why="Upstream's figure.", **_SHARE)
    ] = 0.9
    recommendation_lower_bound_memory_percentile: Annotated[
        float, Setting("Percentile of memory peaks for the lower bound.", why="Upstream's figure.", **_SHARE)
    ] = 0.5
    recommendation_upper_bound_memory_percentile: Annotated[
        float, Setting("Percentile of memory peaks for the upper bound.", why="Upstream's figure.", **_SHARE)
    ] = 0.95
    confidence_interval_cpu: Annotated[
        Duration,
        Setting(
            "As much history as makes the CPU bounds trusted; with less they are wider.",
            why="A day has every hour in it once.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(86400)
    confidence_interval_memory: Annotated[
        Duration,
        Setting(
            "As much history as makes the memory bounds trusted; with less they are wider.",
            why="A day has every hour in it once.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(86400)
    humanize_memory: Annotated[
        bool, Setting("Write memory like 1.50Gi, with two decimals.", why="Deprecated upstream, where it is off.")
    ] = False
    round_cpu_millicores: Annotated[
        int, Setting("Round CPU up to a multiple of this.", why="1 rounds nothing.", unit="millicores", minimum=1)
    ] = 1
    round_memory_bytes: Annotated[
        int, Setting("Round memory up to a multiple of this.", why="1 rounds nothing.", unit="bytes", minimum=1)
    ] = 1
    cpu_integer_post_processor_enabled: Annotated[
        bool, Setting("Round CPU up to whole cores for containers whose VPA asks for it.", why="Off, as upstream.")
    ] = False
    container_recommendation_max_allowed_cpu: Annotated[
        Quantity,
        Setting("Most CPU of a container whose VPA sets no maximum.", why="0 sets none.", minimum=Quantity.ZERO),
    ] = Quantity.ZERO
    container_recommendation_max_allowed_memory: Annotated[
        Quantity,
        Setting("Most memory of a container whose VPA sets no maximum.", why="0 sets none.", minimum=Quantity.ZERO),
    ] = Quantity.ZERO


class MemorySettings(Settings, frozen=True):
    """How usage is remembered."""

    memory_aggregation_interval: Annotated[
        Duration, Setting("Memory counts by its peak in each such window.", why="A day has every hour in it once.")
    ] = Duration.from_seconds(86400)
    memory_aggregation_interval_count: Annotated[
        int, Setting("Windows after which what has no new samples is forgotten.", why="Upstream's figure.", minimum=1)
    ] = 8
    memory_histogram_decay_half_life: Annotated[
        Duration, Setting("After this long a memory peak weighs half.", why="Upstream's figure.")
    ] = Duration.from_seconds(86400)
    cpu_histogram_decay_half_life: Annotated[
        Duration, Setting("After this long a CPU sample weighs half.", why="Upstream's figure.")
    ] = Duration.from_seconds(86400)
    oom_bump_up_ratio: Annotated[
        float,
        Setting("After an out-of-memory kill, this many times the memory.", why="Upstream's figure.", minimum=1.0),
    ] = 1.2
    oom_min_bump_up_bytes: Annotated[
        float,
        Setting(
            "After an out-of-memory kill, at least so much more.",
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
    """Where history comes from and goes to, and when something is written."""

    storage: Annotated[
        str,
        Setting(
            "Where history comes from at start: `prometheus`, or checkpoints (anything else, as upstream).",
            why="Checkpoints need nothing but the API server.",
        ),
    ] = ""
    checkpoints_gc_interval: Annotated[
        Duration,
        Setting(
            "How often checkpoints without a VPA are removed; 0s in every pass.",
            why="Upstream's figure.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)
    checkpoints_timeout: Annotated[
        Duration,
        Setting("How long writing checkpoints may take in a pass.", why="Upstream's figure.", check=check_interval),
    ] = Duration.from_seconds(60)
    checkpoint_writes_per_pass: Annotated[
        int,
        Setting(
            "Most checkpoints written in a pass, those that have waited longest first.",
            why="Up to this many containers lose at most one pass when the process is killed; more take turns.",
            minimum=1,
        ),
    ] = 200
    checkpoint_time_per_pass: Annotated[
        Duration,
        Setting(
            "After this long a pass begins no further checkpoint, but for the first 20; the rest has its turn later.",
            why="A pass must stay short however slow the API server is. In a second a small one takes some 200.",
        ),
    ] = Duration.from_seconds(1)
    status_change_threshold: Annotated[
        float,
        Setting(
            "A status is written when a value has moved by more than this share of what is written.",
            why="Buckets are 5 % wide: what moves less is a bound that creeps closer as history grows.",
            **_SHARE,
        ),
    ] = 0.05
    status_narrowing_threshold: Annotated[
        float,
        Setting(
            "A bound that only comes closer to its target is written when it has moved by more than this share.",
            why="Bounds narrow with every sample of a new container, and until then the wider one is the safer one.",
            **_SHARE,
        ),
    ] = 0.5
    status_max_age: Annotated[
        Duration,
        Setting(
            "A status that differs at all is written when it is older than this.",
            why="Ten minutes are soon enough for a bound that nobody's request is near.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)


class LiveSettings(Settings, frozen=True):
    """Where live usage comes from."""

    use_external_metrics: Annotated[
        bool, Setting("Take live usage from external.metrics.k8s.io.", why="Off: metrics.k8s.io is the usual source.")
    ] = False
    external_metrics_cpu_metric: Annotated[
        str, Setting("Name of the external metric for CPU.", why="Empty: no CPU usage from there.")
    ] = ""
    external_metrics_memory_metric: Annotated[
        str, Setting("Name of the external metric for memory.", why="Empty: no memory usage from there.")
    ] = ""


class RecommenderSettings(Settings, frozen=True):
    """All settings of the recommender."""

    loop: RecommenderLoopSettings = RecommenderLoopSettings()
    plugins: PluginSettings = PluginSettings()
    estimates: EstimateSettings = EstimateSettings()
    memory: MemorySettings = MemorySettings()
    storage: StorageSettings = StorageSettings()
    live: LiveSettings = LiveSettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    recording: RecorderSettings = RecorderSettings()
    health: HealthSettings = HealthSettings(address=":8942")
    logs: LogSettings = LogSettings()

    def conflicts(self) -> Iterator[SettingConflict]:
        """A name may be anything, but that of a lease may not."""
        if self.leader.leader_elect:
            where = self.leader.leader_elect_resource_name, self.leader.leader_elect_resource_namespace
            for name, lease in build_lease_names(self.loop.recommender_name, *where).items():
                if problem := check_dns_subdomain(lease):
                    yield SettingConflict(
                        "recommender-name", f"the lease of {name} would be {lease}, and a name of one {problem}"
                    )


def build_usage_settings(settings: RecommenderSettings) -> UsageSettings:
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
