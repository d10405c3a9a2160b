"""Settings of the node autoscaler. Flags that mean the same as a flag of Cluster Autoscaler have its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

import msgspec

from trellis.base.durations import Duration
from trellis.base.quantities import Quantity
from trellis.core.nodes.node_groups import GroupOptions
from trellis.core.nodes.scale_up.expanders import EXPANDERS
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF
from trellis.core.nodes.state.transient_taints import TransientTaints
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.external_grpc.settings import ExternalGrpcSettings
from trellis.providers.kwok.settings import KwokSettings
from trellis.providers.node_claims.settings import NodeClaimSettings
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import (
    AccessSettings,
    LeaderSettings,
    ScopeSettings,
    check_interval,
    check_millicores,
)
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

_SCALE_UP_DEFAULTS: Final = ScaleUpSettings()
_NO_LIMIT: Final = "0: no limit."


class ScaleUpFlags(Settings, frozen=True):
    """How nodes are ordered."""

    title: ClassVar[str] = "Scale-up"

    expander: Annotated[
        tuple[str, ...],
        Setting(
            "Expanders, which choose the node group to scale up, separated by commas; the first that "
            f"prefers one group decides. Available: {', '.join(EXPANDERS)}.",
            why="Configured priorities first, then the least waste, then the lowest price.",
        ),
    ] = _SCALE_UP_DEFAULTS.expanders
    balance_similar_node_groups: Annotated[
        bool,
        Setting(
            "Distribute new nodes evenly over node groups that differ only in their zone.",
            why="On: if a zone fails, the nodes of the others remain.",
        ),
    ] = _SCALE_UP_DEFAULTS.balance_similar_node_groups
    enforce_node_group_min_size: Annotated[
        bool,
        Setting(
            "Scale up node groups that are below their minimum size, even if no pod needs the nodes.",
            why="Off, as in Cluster Autoscaler: then a minimum only stops scale-down.",
        ),
    ] = _SCALE_UP_DEFAULTS.enforce_node_group_min_size
    max_nodes_total: Annotated[
        int,
        Setting(
            "Maximum number of nodes in the cluster, including nodes outside node groups.",
            why=_NO_LIMIT,
            minimum=0,
        ),
    ] = _SCALE_UP_DEFAULTS.max_nodes_total
    cores_total: Annotated[int, Setting("Maximum number of cores in the cluster.", why=_NO_LIMIT, minimum=0)] = (
        _SCALE_UP_DEFAULTS.cores_total
    )
    memory_total: Annotated[
        Quantity | None,
        Setting("Maximum memory of all nodes in the cluster.", why="Unset: no limit.", minimum=Quantity.ZERO),
    ] = None
    max_nodes_per_scaleup: Annotated[
        int,
        Setting(
            "Maximum number of nodes ordered for a group in one scale-up; more follow in the next passes.",
            why="As in Cluster Autoscaler.",
            minimum=1,
        ),
    ] = _SCALE_UP_DEFAULTS.max_nodes_per_scaleup
    max_node_provision_time: Annotated[
        Duration,
        Setting(
            "How long a node may take to become ready before it is removed and its group backs off.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.max_node_provision_seconds))
    startup_taint: Annotated[
        tuple[str, ...],
        Setting(
            "Key of a taint that nodes have until they are prepared; until then a node is not ready. Templates of node "
            "groups leave it out. May be repeated.",
            why="Taints whose keys begin with `startup-taint.cluster-autoscaler.kubernetes.io/` need no flag.",
        ),
    ] = ()
    status_taint: Annotated[
        tuple[str, ...],
        Setting(
            "Key of a taint that reports a passing condition of a ready node. Templates of node groups leave it out. "
            "May be repeated.",
            why="Taints whose keys begin with `status-taint.cluster-autoscaler.kubernetes.io/` need no flag.",
        ),
    ] = ()
    initial_node_group_backoff_duration: Annotated[
        Duration,
        Setting(
            "First backoff of a node group after a failed scale-up; doubles with each failure.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.initial_node_group_backoff_seconds))
    max_node_group_backoff_duration: Annotated[
        Duration, Setting("Maximum backoff of a node group.", why="As in Cluster Autoscaler.", check=check_interval)
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.max_node_group_backoff_seconds))
    node_group_backoff_reset_timeout: Annotated[
        Duration,
        Setting(
            "Time without a failure after which the backoff of a node group starts again at its first value.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.node_group_backoff_reset_seconds))
    expendable_pods_priority_cutoff: Annotated[
        int,
        Setting(
            "Pods with a priority below this are expendable: they trigger no scale-up and stop no scale-down.",
            why="As in Cluster Autoscaler.",
        ),
    ] = EXPENDABLE_PODS_PRIORITY_CUTOFF
    scale_up_for_resizes: Annotated[
        bool,
        Setting(
            "Scale up for the replacement of a pod whose in-place resize is deferred or infeasible on its node, if the "
            "updater evicts such pods.",
            why="On: the replacement has a node when the pod is evicted.",
        ),
    ] = _SCALE_UP_DEFAULTS.scale_up_for_resizes

    def figures(self) -> ScaleUpSettings:
        """The settings of `core.nodes`."""
        return ScaleUpSettings(
            expanders=self.expander,
            balance_similar_node_groups=self.balance_similar_node_groups,
            enforce_node_group_min_size=self.enforce_node_group_min_size,
            max_nodes_total=self.max_nodes_total,
            max_nodes_per_scaleup=self.max_nodes_per_scaleup,
            cores_total=self.cores_total,
            memory_total=int(self.memory_total.exact()) if self.memory_total is not None else 0,
            max_node_provision_seconds=self.max_node_provision_time.total_seconds(),
            transient_taints=TransientTaints(self.startup_taint, self.status_taint),
            initial_node_group_backoff_seconds=self.initial_node_group_backoff_duration.total_seconds(),
            max_node_group_backoff_seconds=self.max_node_group_backoff_duration.total_seconds(),
            node_group_backoff_reset_seconds=self.node_group_backoff_reset_timeout.total_seconds(),
            scale_up_for_resizes=self.scale_up_for_resizes,
        )

    def conflicts(self) -> Iterator[SettingConflict]:
        """Every expander exists."""
        for expander in self.expander:
            if expander not in EXPANDERS:
                yield SettingConflict(
                    "expander", f'there is no expander "{expander}"; available: {", ".join(EXPANDERS)}'
                )


_SCALE_DOWN_DEFAULTS: Final = ScaleDownSettings()
_AS_UPSTREAM: Final = "As in Cluster Autoscaler."
_NOT_NEGATIVE: Final = Duration(0)


class ScaleDownFlags(Settings, frozen=True):
    """How nodes are removed."""

    title: ClassVar[str] = "Scale-down"

    scale_down_enabled: Annotated[bool, Setting("Remove unneeded nodes.", why=_AS_UPSTREAM)] = True
    scale_down_utilization_threshold: Annotated[
        float,
        Setting(
            "A node may be removed while pods request at most this share of its allocatable CPU and of its memory.",
            why=_AS_UPSTREAM,
            minimum=0.0,
            maximum=1.0,
        ),
    ] = _SCALE_DOWN_DEFAULTS.scale_down_utilization_threshold
    scale_down_gpu_utilization_threshold: Annotated[
        float,
        Setting(
            "A node with GPUs or other devices may be removed while pods request at most this share of its devices; "
            "its CPU and its memory do not count.",
            why=_AS_UPSTREAM,
            minimum=0.0,
            maximum=1.0,
        ),
    ] = _SCALE_DOWN_DEFAULTS.scale_down_gpu_utilization_threshold
    scale_down_unneeded_time: Annotated[
        Duration,
        Setting("How long a node must be unneeded before it is removed.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_unneeded_seconds))
    scale_down_unready_enabled: Annotated[bool, Setting("Also remove nodes that are not ready.", why=_AS_UPSTREAM)] = (
        True
    )
    scale_down_unready_time: Annotated[
        Duration,
        Setting(
            "How long a node that is not ready must be unneeded before it is removed.",
            why=_AS_UPSTREAM,
            minimum=_NOT_NEGATIVE,
        ),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_unready_seconds))
    scale_down_delay_after_add: Annotated[
        Duration,
        Setting("Time after a scale-up during which no node is removed.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_add_seconds))
    scale_down_delay_after_delete: Annotated[
        Duration,
        Setting(
            "Time after the removal of a node during which no other node is removed.",
            why="0s: the next removal may follow at once.",
            minimum=_NOT_NEGATIVE,
        ),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_delete_seconds))
    scale_down_delay_after_failure: Annotated[
        Duration,
        Setting(
            "Time after a failed removal during which no node is removed.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE
        ),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_failure_seconds))
    max_scale_down_parallelism: Annotated[
        int, Setting("Maximum number of nodes being removed at the same time.", why=_AS_UPSTREAM, minimum=1)
    ] = _SCALE_DOWN_DEFAULTS.max_scale_down_parallelism
    max_drain_parallelism: Annotated[
        int, Setting("Maximum number of nodes being drained at the same time.", why=_AS_UPSTREAM, minimum=1)
    ] = _SCALE_DOWN_DEFAULTS.max_drain_parallelism
    max_bulk_soft_taint_count: Annotated[
        int,
        Setting(
            "Maximum number of nodes that get or lose the taint of unneeded nodes in one pass. The scheduler prefers "
            "nodes without it. 0: no node gets the taint, and existing ones are removed.",
            why=_AS_UPSTREAM,
            minimum=0,
        ),
    ] = _SCALE_DOWN_DEFAULTS.max_bulk_soft_taint_count
    node_delete_delay_after_taint: Annotated[
        Duration,
        Setting("How long to wait before removing a node after tainting it.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.node_delete_delay_after_taint_seconds))
    max_pod_eviction_time: Annotated[
        Duration,
        Setting(
            "How long evictions from a node may be refused before its removal is cancelled.",
            why=_AS_UPSTREAM,
            minimum=_NOT_NEGATIVE,
        ),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.max_pod_eviction_seconds))
    max_graceful_termination_sec: Annotated[
        int,
        Setting(
            "Maximum termination grace period of a pod that is evicted from a drained node.",
            why=_AS_UPSTREAM,
            unit="seconds",
            minimum=0,
        ),
    ] = _SCALE_DOWN_DEFAULTS.max_graceful_termination_seconds
    daemonset_eviction_for_occupied_nodes: Annotated[
        bool, Setting("Evict DaemonSet pods from a drained node after its other pods.", why=_AS_UPSTREAM)
    ] = _SCALE_DOWN_DEFAULTS.daemonset_eviction_for_occupied_nodes
    daemonset_eviction_for_empty_nodes: Annotated[
        bool,
        Setting("Also evict DaemonSet pods from a node without other pods before its removal.", why=_AS_UPSTREAM),
    ] = _SCALE_DOWN_DEFAULTS.daemonset_eviction_for_empty_nodes
    unremovable_node_recheck_timeout: Annotated[
        Duration,
        Setting(
            "Time after which a node that was found unremovable is checked again.",
            why=_AS_UPSTREAM,
            minimum=_NOT_NEGATIVE,
        ),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.unremovable_node_recheck_seconds))
    skip_nodes_with_system_pods: Annotated[
        bool, Setting("Never remove nodes with pods of kube-system that have no PodDisruptionBudget.", why=_AS_UPSTREAM)
    ] = True
    skip_nodes_with_local_storage: Annotated[
        bool,
        Setting("Never remove nodes with pods that use local storage, such as emptyDir or hostPath.", why=_AS_UPSTREAM),
    ] = True
    skip_nodes_with_custom_controller_pods: Annotated[
        bool,
        Setting(
            "Never remove nodes with pods of custom controllers.",
            why="On: it is not known whether they replace their pods.",
        ),
    ] = True
    scale_down_recommendation_headroom: Annotated[
        bool,
        Setting(
            "Keep enough space on the remaining nodes for pods to grow to the size that VPAs and Hvpas recommend.",
            why="On: otherwise resizes are deferred after a scale-down, pods are evicted, and nodes are added again.",
        ),
    ] = _SCALE_DOWN_DEFAULTS.scale_down_recommendation_headroom

    def figures(self, up: ScaleUpSettings) -> ScaleDownSettings:
        """The settings of `core.nodes`. What both plans need to know of nodes is among those of scale-up."""
        return ScaleDownSettings(
            scale_down_enabled=self.scale_down_enabled,
            scale_down_utilization_threshold=self.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold=self.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_seconds=self.scale_down_unneeded_time.total_seconds(),
            scale_down_unready_enabled=self.scale_down_unready_enabled,
            scale_down_unready_seconds=self.scale_down_unready_time.total_seconds(),
            scale_down_delay_after_add_seconds=self.scale_down_delay_after_add.total_seconds(),
            scale_down_delay_after_delete_seconds=self.scale_down_delay_after_delete.total_seconds(),
            scale_down_delay_after_failure_seconds=self.scale_down_delay_after_failure.total_seconds(),
            max_scale_down_parallelism=self.max_scale_down_parallelism,
            max_drain_parallelism=self.max_drain_parallelism,
            node_delete_delay_after_taint_seconds=self.node_delete_delay_after_taint.total_seconds(),
            max_pod_eviction_seconds=self.max_pod_eviction_time.total_seconds(),
            max_graceful_termination_seconds=self.max_graceful_termination_sec,
            unremovable_node_recheck_seconds=self.unremovable_node_recheck_timeout.total_seconds(),
            skip_nodes_with_system_pods=self.skip_nodes_with_system_pods,
            skip_nodes_with_local_storage=self.skip_nodes_with_local_storage,
            skip_nodes_with_custom_controller_pods=self.skip_nodes_with_custom_controller_pods,
            max_node_provision_seconds=up.max_node_provision_seconds,
            transient_taints=up.transient_taints,
            max_bulk_soft_taint_count=self.max_bulk_soft_taint_count,
            daemonset_eviction_for_occupied_nodes=self.daemonset_eviction_for_occupied_nodes,
            daemonset_eviction_for_empty_nodes=self.daemonset_eviction_for_empty_nodes,
            scale_down_recommendation_headroom=self.scale_down_recommendation_headroom,
        )


LEASE: Final = "trellis-nodes"
KWOK: Final = "kwok"


class NodeLoopSettings(Settings, frozen=True):
    """How often the cluster is checked, and how fast nodes are changed."""

    title: ClassVar[str] = "Passes and writes"

    scan_interval: Annotated[
        Duration,
        Setting(
            "Time between two passes over all nodes.",
            why="Unschedulable pods, changed Buffers and new nodes do not wait for a pass.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(10)
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "Maximum CPU that a startup boost may give to a container; set it as for the admission controller.",
            why="A pod that moves to another node starts again, and may be boosted. Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    metrics_buffers: Annotated[
        int,
        Setting(
            "Maximum number of Buffers with metrics of their own; the others are only counted.",
            why="Each Buffer has five series.",
            minimum=0,
        ),
    ] = 1_000
    concurrent_writes: Annotated[
        int,
        Setting(
            "Number of concurrent writes to the API server.",
            why="Enough to hide the latency of the API server.",
            minimum=1,
        ),
    ] = 8


class ProviderSettings(Settings, frozen=True):
    """Providers of nodes."""

    title: ClassVar[str] = "Node providers"

    cloud_provider: Annotated[
        tuple[str, ...],
        Setting(
            "Providers of nodes, separated by commas. Packages may add others. Of two node groups with one name, that "
            "of the provider named first counts.",
            why="Nodes without machines, which need nothing else.",
        ),
    ] = (KWOK,)
    provider_timeout: Annotated[
        Duration,
        Setting(
            "How long a provider may take to answer; after a timeout the node group backs off.",
            why="Long enough for a busy cloud, and shorter than the deadline of the liveness probe.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(30)
    provider_option: Annotated[
        tuple[str, ...],
        Setting(
            "Setting of a provider from another package, as `provider.name=value`; may be repeated.",
            why="The providers of Trellis have flags of their own.",
        ),
    ] = ()

    def options(self) -> dict[str, dict[str, str]]:
        """The options of providers, by the provider's name."""
        result: dict[str, dict[str, str]] = {}
        for option in self.provider_option:
            key, _, value = option.partition("=")
            provider, _, name = key.partition(".")
            result.setdefault(provider, {})[name] = value
        return result

    def conflicts(self) -> Iterator[SettingConflict]:
        """There is a provider, and each option belongs to one."""
        if not self.cloud_provider:
            yield SettingConflict("cloud-provider", "name at least one provider")
        for option in self.provider_option:
            key, equals, _ = option.partition("=")
            provider, _, name = key.partition(".")
            if not equals or not name or provider not in self.cloud_provider:
                yield SettingConflict(
                    "provider-option",
                    f'"{option}" must be written as provider.name=value, with a provider of --cloud-provider',
                )


class ProvisioningRequestFlags(Settings, frozen=True):
    """ProvisioningRequests, which queues create."""

    title: ClassVar[str] = "ProvisioningRequests"

    enable_provisioning_requests: Annotated[
        bool,
        Setting(
            "Serve ProvisioningRequests: book capacity, or order nodes, for all pods of a request or for none.",
            why="Off, as in Cluster Autoscaler: the kind is installed separately, and needs further rights.",
        ),
    ] = False
    provisioning_request_initial_backoff_time: Annotated[
        Duration,
        Setting(
            "Time until a ProvisioningRequest without capacity is tried again; doubles with each attempt.",
            why=_AS_UPSTREAM,
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.provisioning_request_initial_backoff_seconds))
    provisioning_request_max_backoff_time: Annotated[
        Duration,
        Setting(
            "Maximum time until a ProvisioningRequest without capacity is tried again.",
            why=_AS_UPSTREAM,
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.provisioning_request_max_backoff_seconds))


class SharedProcessSettings(Settings, frozen=True):
    """Other controllers in the same process."""

    title: ClassVar[str] = "Controllers in the same process"
    of_process: ClassVar[bool] = True

    with_buffers: Annotated[
        str,
        Setting(
            "YAML file of settings of `trellis buffers`, which then runs in this process too.",
            why="Unset: `trellis buffers` runs in a process of its own, or not at all.",
        ),
    ] = ""


class NodeControllerSettings(Settings, frozen=True):
    """All settings of the node autoscaler."""

    most_used: ClassVar[tuple[str, ...]] = (
        "cloud-provider",
        "expander",
        "max-nodes-total",
        "max-node-provision-time",
        "scale-down-enabled",
        "scale-down-utilization-threshold",
        "scale-down-unneeded-time",
        "scale-down-delay-after-add",
        "read-only",
        "leader-elect",
    )

    loop: NodeLoopSettings = NodeLoopSettings()
    provider: ProviderSettings = ProviderSettings()
    kwok: KwokSettings = KwokSettings()
    cluster_api: ClusterApiSettings = ClusterApiSettings()
    karpenter: NodeClaimSettings = NodeClaimSettings()
    external_grpc: ExternalGrpcSettings = ExternalGrpcSettings()
    up: ScaleUpFlags = ScaleUpFlags()
    down: ScaleDownFlags = ScaleDownFlags()
    requests: ProvisioningRequestFlags = ProvisioningRequestFlags()
    together: SharedProcessSettings = SharedProcessSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8947")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()

    @property
    def provider_sections(self) -> tuple[Settings, ...]:
        """The settings of the providers of Trellis."""
        return (self.kwok, self.cluster_api, self.karpenter, self.external_grpc)

    @property
    def scale_up_figures(self) -> ScaleUpSettings:
        """The settings of scale-up in `core.nodes`."""
        flags = self.requests
        return msgspec.structs.replace(
            self.up.figures(),
            provisioning_request_initial_backoff_seconds=flags.provisioning_request_initial_backoff_time.total_seconds(),
            provisioning_request_max_backoff_seconds=flags.provisioning_request_max_backoff_time.total_seconds(),
        )

    @property
    def group_defaults(self) -> GroupOptions:
        """The settings that the options of a group replace."""
        return GroupOptions(
            scale_down_utilization_threshold=self.down.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold=self.down.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_seconds=self.down.scale_down_unneeded_time.total_seconds(),
            scale_down_unready_seconds=self.down.scale_down_unready_time.total_seconds(),
            max_node_provision_seconds=self.up.max_node_provision_time.total_seconds(),
        )
