"""Settings of the updater: upstream's flags with upstream's defaults, and those that only Trellis has.

`update_settings` combines flags, feature gates and what the API server offers into the parameters of `core.resize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration
from trellis.base.names import check_dns_label, check_dns_subdomain
from trellis.core.resize.freeze import CLUSTER_FREEZE_CONFIG_MAP
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.kube.discovery import Served, ServerVersion
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, ScopeSettings, ShardedLeaderSettings, check_interval
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

LEASE: Final = "vpa-updater"


class UpdaterLoopSettings(Settings, frozen=True):
    """How often pods are checked, and how fast they are changed."""

    title: ClassVar[str] = "Passes and writes"

    updater_interval: Annotated[
        Duration,
        Setting(
            "Time between two passes over all pods.",
            why="Changes and times known in advance, such as the end of a boost, do not wait for a pass.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    concurrent_writes: Annotated[
        int,
        Setting(
            "Number of concurrent writes to the API server.",
            why="The API server accepts about 90 evictions a second with 16, and hardly more with more.",
            minimum=1,
            maximum=1000,
        ),
    ] = 16
    eviction_rate_limit: Annotated[
        float,
        Setting(
            "Maximum number of pods evicted per second, and of pods resized per second; 0 or less: no limit.",
            why="No limit, as upstream.",
            unit="pods/s",
        ),
    ] = -1.0
    eviction_rate_burst: Annotated[
        int,
        Setting(
            "Burst of evictions, and of resizes, allowed by `--eviction-rate-limit`.",
            why="Upstream's default.",
            minimum=1,
        ),
    ] = 1
    dry_run: Annotated[
        bool,
        Setting(
            "Send all changes with `dryRun`, so that the API server checks them and changes nothing.",
            why="For a trial: no Events are recorded, and no Lease is taken.",
        ),
    ] = False
    concurrent_cpu_startup_boost_syncs: Annotated[
        int,
        Setting("Has no effect.", why="Boosts end on time without it.", obsolete=True),
    ] = 1


class DisruptionSettings(Settings, frozen=True):
    """When a pod is changed, and how many pods may be disrupted at the same time."""

    title: ClassVar[str] = "Disruption"

    min_replicas: Annotated[
        int,
        Setting(
            "Minimum number of running replicas of a workload for one of its pods to be evicted or resized.",
            why="Upstream's default.",
            minimum=0,
        ),
    ] = 2
    eviction_tolerance: Annotated[
        float,
        Setting(
            "Fraction of the replicas of a controller that may be disrupted at the same time.",
            why="Upstream's default.",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = 0.5
    pod_update_threshold: Annotated[
        float,
        Setting(
            "Minimum relative change of requests to update a pod within its recommended bounds.",
            why="Upstream's default.",
            minimum=0.0,
        ),
    ] = 0.1
    in_recommendation_bounds_eviction_lifetime_threshold: Annotated[
        Duration,
        Setting(
            "Minimum age of a pod to update it within its recommended bounds.",
            why="Upstream's default.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(12 * 3600)
    evict_after_oom_threshold: Annotated[
        Duration,
        Setting(
            "A container that runs out of memory within this time after its start is updated at once.",
            why="Upstream's default.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(600)
    evict_after_container_down: Annotated[
        Duration,
        Setting(
            "How long a container may be down before a pod that needs a resize is evicted instead.",
            why="A resize waits while a container is down. The kubelet restarts a container at once, then "
            "after 10, 20 and 40 seconds; after that a new pod is faster.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(60)
    boost_give_up_after: Annotated[
        Duration,
        Setting(
            "How long a pod that does not become Ready keeps its startup boost; 0s: until it is Ready.",
            why="0s, as in the proposal. `giveUpAfterSeconds` of an object takes precedence.",
            minimum=Duration(0),
        ),
    ] = Duration(0)
    in_place_skip_disruption_budget: Annotated[
        bool,
        Setting(
            "Exempt in-place resizes that restart no container from `--min-replicas` and `--eviction-tolerance`.",
            why="Off, as upstream. Resizes that an Hvpa decides are always exempt.",
        ),
    ] = False
    evictions_per_hour: Annotated[
        int | None,
        Setting(
            "Maximum number of pods disrupted per hour in the cluster.",
            why="Unset: no limit.",
            minimum=0,
        ),
    ] = None
    evictions_per_hour_per_namespace: Annotated[
        int | None,
        Setting(
            "Maximum number of pods disrupted per hour in each namespace.",
            why="Unset: no limit.",
            minimum=0,
        ),
    ] = None
    require_fit: Annotated[
        bool,
        Setting(
            "Evict a pod only if its replacement fits on some node.",
            why="Off, because nodes may be added for it: a pod that does not fit gets a warning.",
        ),
    ] = False
    hpa_conflict: Annotated[
        str,
        Setting(
            "What to do when an HPA scales the same pods by the utilization of a resource: `warn` updates "
            "the pods and records a warning, `hold` leaves that resource unchanged.",
            why="`warn`, because upstream updates it.",
            choices=tuple(each.value for each in HpaConflict),
        ),
    ] = HpaConflict.WARN.value
    freeze_config_map: Annotated[
        str,
        Setting(
            "ConfigMap, as `namespace/name`, that stops all changes to running pods while it exists.",
            why="Its name is not one to choose by chance. Empty: no ConfigMap stops changes.",
        ),
    ] = f"kube-system/{CLUSTER_FREEZE_CONFIG_MAP}"

    def conflicts(self) -> Iterator[SettingConflict]:
        """The name of the freeze ConfigMap is valid."""
        namespace, _, name = self.freeze_config_map.partition("/")
        if self.freeze_config_map and (problem := check_dns_label(namespace) or check_dns_subdomain(name)):
            yield SettingConflict("freeze-config-map", f"is not the namespace/name of a ConfigMap: {problem}")


class AdmissionStatusSettings(Settings, frozen=True):
    """Check that an admission controller runs, which sizes the replacements of evicted pods."""

    title: ClassVar[str] = "Admission controller check"

    use_admission_controller_status: Annotated[
        bool,
        Setting(
            "Evict pods only while the admission controller renews its status Lease.",
            why="Without an admission controller, the replacement of an evicted pod has the old size.",
        ),
    ] = True
    admission_controller_status_lease_name: Annotated[
        str, Setting("Name of the admission controller's status Lease.", why="The default of the admission controller.")
    ] = "vpa-admission-controller"
    admission_controller_status_lease_namespace: Annotated[
        str,
        Setting(
            "Namespace of the admission controller's status Lease.",
            why="The namespace of upstream's manifests.",
            variable="NAMESPACE",
        ),
    ] = "kube-system"
    admission_controller_status_lease_timeout: Annotated[
        Duration,
        Setting(
            "Time without renewal after which the status Lease no longer counts.",
            why="Upstream's default.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)

    def conflicts(self) -> Iterator[SettingConflict]:
        """Name and namespace of the Lease are valid."""
        if problem := check_dns_subdomain(self.admission_controller_status_lease_name):
            yield SettingConflict(
                "admission-controller-status-lease-name", f"is not a valid name of a Lease: {problem}"
            )
        namespace = self.admission_controller_status_lease_namespace
        if namespace and (problem := check_dns_label(namespace)):
            yield SettingConflict(
                "admission-controller-status-lease-namespace", f"is not a valid namespace name: {problem}"
            )


class UpdaterSettings(Settings, frozen=True):
    """All settings of the updater."""

    most_used: ClassVar[tuple[str, ...]] = (
        "min-replicas",
        "eviction-tolerance",
        "eviction-rate-limit",
        "evictions-per-hour",
        "pod-update-threshold",
        "in-place-skip-disruption-budget",
        "hpa-conflict",
        "dry-run",
        "read-only",
        "leader-elect",
    )

    loop: UpdaterLoopSettings = UpdaterLoopSettings()
    disruption: DisruptionSettings = DisruptionSettings()
    admission: AdmissionStatusSettings = AdmissionStatusSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: ShardedLeaderSettings = ShardedLeaderSettings(leader_elect_resource_name=LEASE)
    recording: RecorderSettings = RecorderSettings()
    health: HealthSettings = HealthSettings(address=":8943")
    logs: LogSettings = LogSettings()


# From this version on a memory limit may be lowered without a restart.
_LOWERS_MEMORY_LIMITS = (1, 34)


def update_settings(settings: UpdaterSettings, served: Served, version: ServerVersion) -> UpdateSettings:
    """The settings of `core.resize`."""
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
