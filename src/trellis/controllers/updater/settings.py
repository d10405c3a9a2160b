"""Settings of the updater: upstream's flags with upstream's defaults, and those that only Trellis has.

`update_settings` combines flags, feature gates and what the API server offers into the parameters of `core.resize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration
from trellis.base.names import check_dns_label, check_dns_subdomain
from trellis.core.resize.freeze import CLUSTER_FREEZE_CONFIG_MAP
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.kube.discovery import Served, ServerVersion
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, LeaderSettings, ScopeSettings, check_interval
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

LEASE: Final = "vpa-updater"


class UpdaterLoopSettings(Settings, frozen=True):
    """How often everything is looked at, and how fast it is changed."""

    updater_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all pods.",
            why="Changes and moments that are known in advance are acted on at once, whatever this says.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    concurrent_writes: Annotated[
        int,
        Setting(
            "Writes under way at the same time.",
            why="The API server takes some 90 evictions a second with 16, and hardly more with more.",
            minimum=1,
            maximum=1000,
        ),
    ] = 16
    eviction_rate_limit: Annotated[
        float,
        Setting("Most pods evicted a second, and as many resized.", why="0 or less: no limit.", unit="pods/s"),
    ] = -1.0
    eviction_rate_burst: Annotated[
        int, Setting("Most of them at once, where `--eviction-rate-limit` limits them.", why="Upstream's.", minimum=1)
    ] = 1
    dry_run: Annotated[
        bool,
        Setting(
            "Decide and report, and have the API server check each change without carrying it out.",
            why="To see what would happen. No Events are posted, and no lease is taken.",
        ),
    ] = False
    concurrent_cpu_startup_boost_syncs: Annotated[
        int,
        Setting("Taken for the sake of upstream's manifests.", why="Boosts end when it is time to.", obsolete=True),
    ] = 1


class DisruptionSettings(Settings, frozen=True):
    """When a pod is changed, and how many at a time."""

    min_replicas: Annotated[
        int,
        Setting("Least pods of a controller before one of them is disturbed.", why="Upstream's figure.", minimum=0),
    ] = 2
    eviction_tolerance: Annotated[
        float,
        Setting(
            "Share of a controller's pods that may be out of service at a time.",
            why="Upstream's figure.",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = 0.5
    pod_update_threshold: Annotated[
        float,
        Setting(
            "A pod within its bounds changes only if that makes so much of a difference, as a share.",
            why="Upstream's figure.",
            minimum=0.0,
        ),
    ] = 0.1
    in_recommendation_bounds_eviction_lifetime_threshold: Annotated[
        Duration,
        Setting("A pod within its bounds is left alone until it is so old.", why="Upstream's.", minimum=Duration(0)),
    ] = Duration.from_seconds(12 * 3600)
    evict_after_oom_threshold: Annotated[
        Duration,
        Setting(
            "A container that ran out of memory this soon after its start is changed at once.",
            why="Upstream's figure.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)
    evict_after_container_down: Annotated[
        Duration,
        Setting(
            "How long a container may be down before a pod that has to be resized is evicted instead.",
            why="A pod is not resized in place while one of its containers is down. The kubelet restarts a container "
            "at once, then after 10, 20 and 40 seconds; later a new pod is there sooner.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(60)
    boost_give_up_after: Annotated[
        Duration,
        Setting(
            "How long after its start a pod that is not Ready keeps its startup boost; 0: until it is Ready.",
            why="Off, as the proposal has it. `giveUpAfterSeconds` of an object goes first.",
            minimum=Duration(0),
        ),
    ] = Duration(0)
    in_place_skip_disruption_budget: Annotated[
        bool,
        Setting(
            "Exempt resizes that restart no container from the minimum of replicas and the eviction tolerance.",
            why="Off, as upstream. What an Hvpa decides is exempt in any case.",
        ),
    ] = False
    evictions_per_hour: Annotated[
        int | None,
        Setting("Most pods disturbed within an hour, in the cluster.", why="Unset: any number.", minimum=0),
    ] = None
    evictions_per_hour_per_namespace: Annotated[
        int | None,
        Setting("Most pods disturbed within an hour, in each namespace.", why="Unset: any number.", minimum=0),
    ] = None
    require_fit: Annotated[
        bool,
        Setting(
            "Evict a pod only if some node has room for the one that takes its place.",
            why="Off: nodes may come and go, and then only a warning is given.",
        ),
    ] = False
    hpa_conflict: Annotated[
        str,
        Setting(
            "What becomes of a resource by whose utilization an HPA scales the same pods.",
            why="With `warn` it is changed all the same, as upstream does; `hold` leaves it alone.",
            choices=tuple(each.value for each in HpaConflict),
        ),
    ] = HpaConflict.WARN.value
    freeze_config_map: Annotated[
        str,
        Setting(
            "ConfigMap that stops all changes as long as it is there, as `namespace/name`.",
            why="Nobody has it by chance. Empty: there is no such switch.",
        ),
    ] = f"kube-system/{CLUSTER_FREEZE_CONFIG_MAP}"

    def conflicts(self) -> Iterator[SettingConflict]:
        """The switch has a name and stands somewhere."""
        namespace, _, name = self.freeze_config_map.partition("/")
        if self.freeze_config_map and (problem := check_dns_label(namespace) or check_dns_subdomain(name)):
            yield SettingConflict("freeze-config-map", f"is no namespace/name of a ConfigMap: {problem}")


class AdmissionStatusSettings(Settings, frozen=True):
    """Whether somebody sizes the pods that come after evictions."""

    use_admission_controller_status: Annotated[
        bool,
        Setting(
            "Evict only while the admission controller renews its Lease.",
            why="A pod that nobody sizes comes back as it was.",
        ),
    ] = True
    admission_controller_status_lease_name: Annotated[
        str, Setting("Name of that Lease.", why="The admission controller's own default.")
    ] = "vpa-admission-controller"
    admission_controller_status_lease_namespace: Annotated[
        str,
        Setting("Namespace of that Lease.", why="Where upstream's manifests run it.", variable="NAMESPACE"),
    ] = "kube-system"
    admission_controller_status_lease_timeout: Annotated[
        Duration,
        Setting(
            "A Lease that nobody renews for so long counts as gone.", why="Upstream's figure.", check=check_interval
        ),
    ] = Duration.from_seconds(60)

    def conflicts(self) -> Iterator[SettingConflict]:
        """A Lease has a name and stands somewhere."""
        if problem := check_dns_subdomain(self.admission_controller_status_lease_name):
            yield SettingConflict("admission-controller-status-lease-name", f"is no name of a Lease: {problem}")
        namespace = self.admission_controller_status_lease_namespace
        if namespace and (problem := check_dns_label(namespace)):
            yield SettingConflict(
                "admission-controller-status-lease-namespace", f"is no name of a namespace: {problem}"
            )


class UpdaterSettings(Settings, frozen=True):
    """All settings of the updater."""

    loop: UpdaterLoopSettings = UpdaterLoopSettings()
    disruption: DisruptionSettings = DisruptionSettings()
    admission: AdmissionStatusSettings = AdmissionStatusSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    recording: RecorderSettings = RecorderSettings()
    health: HealthSettings = HealthSettings(address=":8943")
    logs: LogSettings = LogSettings()


# From this version on a memory limit may be lowered without a restart.
_LOWERS_MEMORY_LIMITS = (1, 34)


def update_settings(settings: UpdaterSettings, served: Served, version: ServerVersion) -> UpdateSettings:
    """The settings of plans."""
    disruption: DisruptionSettings = settings.disruption
    # Upstream tries again in every pass: with a short interval, retries are as frequent.
    soon = min(settings.loop.updater_interval.total_seconds(), UpdateSettings().retry)
    gates: FeatureGates = settings.scope.feature_gates
    return UpdateSettings(
        min_replicas=disruption.min_replicas,
        eviction_tolerance=disruption.eviction_tolerance,
        update_threshold=disruption.pod_update_threshold,
        lifetime=disruption.in_recommendation_bounds_eviction_lifetime_threshold.total_seconds(),
        evict_after_oom=disruption.evict_after_oom_threshold.total_seconds(),
        down_patience=disruption.evict_after_container_down.total_seconds(),
        skip_disruption_budget=disruption.in_place_skip_disruption_budget,
        resizes=served.resizes_pods,
        lowers_memory_limits=version.number >= _LOWERS_MEMORY_LIMITS,
        in_place=gates.in_place,
        startup_boost=gates.cpu_startup_boost,
        per_vpa_config=gates.per_vpa_config,
        hpa_conflict=HpaConflict(disruption.hpa_conflict),
        require_fit=disruption.require_fit,
        hourly=disruption.evictions_per_hour,
        namespace_hourly=disruption.evictions_per_hour_per_namespace,
        boost_give_up_after=disruption.boost_give_up_after.total_seconds() or None,
        retry=soon,
        budget_retry=soon,
    )
