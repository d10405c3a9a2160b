"""Settings of the node autoscaler. Flags that mean the same as a flag of Cluster Autoscaler have its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.quantities import Quantity
from trellis.core.nodes.scale_up.expanders import EXPANDERS
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF
from trellis.providers.kwok import CONFIG_MAP
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
    """How nodes are added."""

    expander: Annotated[
        tuple[str, ...],
        Setting(
            f"How to choose between groups; the first that prefers one decides. There are {', '.join(EXPANDERS)}.",
            why="What somebody has said comes first, then what wastes least, then what costs least.",
        ),
    ] = _SCALE_UP_DEFAULTS.expanders
    balance_similar_node_groups: Annotated[
        bool,
        Setting("Let groups grow evenly that differ by their zone alone.", why="A zone that fails takes its share."),
    ] = _SCALE_UP_DEFAULTS.balance_similar_node_groups
    enforce_node_group_min_size: Annotated[
        bool,
        Setting(
            "Order nodes for groups that have fewer than their minimum, though nobody waits for them.",
            why="As in Cluster Autoscaler: otherwise a minimum only keeps nodes from being given back.",
        ),
    ] = _SCALE_UP_DEFAULTS.enforce_node_group_min_size
    max_nodes_total: Annotated[
        int, Setting("Most nodes of the whole cluster, those of no group included.", why=_NO_LIMIT, minimum=0)
    ] = _SCALE_UP_DEFAULTS.max_nodes_total
    cores_total: Annotated[int, Setting("Most cores of the whole cluster.", why=_NO_LIMIT, minimum=0)] = (
        _SCALE_UP_DEFAULTS.cores_total
    )
    memory_total: Annotated[
        Quantity | None,
        Setting("Most memory of the whole cluster.", why="Unset: no limit.", minimum=Quantity.ZERO),
    ] = None
    max_nodes_per_scaleup: Annotated[
        int,
        Setting(
            "Most nodes of a group that are ordered at once; the rest follows.",
            why="As in Cluster Autoscaler.",
            minimum=1,
        ),
    ] = _SCALE_UP_DEFAULTS.max_nodes_per_scaleup
    max_node_provision_time: Annotated[
        Duration,
        Setting(
            "How long a node may take to come up before it is given back and its group left alone.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.max_node_provision_seconds))
    initial_node_group_backoff_duration: Annotated[
        Duration,
        Setting(
            "How long a group is left alone after it has failed; twice as long each time.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.initial_node_group_backoff_seconds))
    max_node_group_backoff_duration: Annotated[
        Duration, Setting("The longest of these times.", why="As in Cluster Autoscaler.", check=check_interval)
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.max_node_group_backoff_seconds))
    node_group_backoff_reset_timeout: Annotated[
        Duration,
        Setting(
            "After so long without a failure the next one counts as the first.",
            why="As in Cluster Autoscaler.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(int(_SCALE_UP_DEFAULTS.node_group_backoff_reset_seconds))
    expendable_pods_priority_cutoff: Annotated[
        int,
        Setting(
            "Pods of a lower priority make way for all others: they get no node, and keep none.",
            why="As in Cluster Autoscaler.",
        ),
    ] = EXPENDABLE_PODS_PRIORITY_CUTOFF

    def figures(self) -> ScaleUpSettings:
        """By which plans are made."""
        return ScaleUpSettings(
            expanders=self.expander,
            balance_similar_node_groups=self.balance_similar_node_groups,
            enforce_node_group_min_size=self.enforce_node_group_min_size,
            max_nodes_total=self.max_nodes_total,
            max_nodes_per_scaleup=self.max_nodes_per_scaleup,
            cores_total=self.cores_total,
            memory_total=int(self.memory_total.exact()) if self.memory_total is not None else 0,
            max_node_provision_seconds=self.max_node_provision_time.total_seconds(),
            initial_node_group_backoff_seconds=self.initial_node_group_backoff_duration.total_seconds(),
            max_node_group_backoff_seconds=self.max_node_group_backoff_duration.total_seconds(),
            node_group_backoff_reset_seconds=self.node_group_backoff_reset_timeout.total_seconds(),
        )

    def conflicts(self) -> Iterator[SettingConflict]:
        """Every expander is one that there is."""
        for expander in self.expander:
            if expander not in EXPANDERS:
                yield SettingConflict("expander", f'there is no "{expander}": the expanders are {", ".join(EXPANDERS)}')


_SCALE_DOWN_DEFAULTS: Final = ScaleDownSettings()
_AS_UPSTREAM: Final = "As in Cluster Autoscaler."
_NOT_NEGATIVE: Final = Duration(0)


class ScaleDownFlags(Settings, frozen=True):
    """How nodes are removed."""

    scale_down_enabled: Annotated[bool, Setting("Remove nodes that are not needed.", why=_AS_UPSTREAM)] = True
    scale_down_utilization_threshold: Annotated[
        float,
        Setting(
            "Up to this share of what a node offers, of each resource, a node counts as underused.",
            why=_AS_UPSTREAM,
            minimum=0.0,
            maximum=1.0,
        ),
    ] = _SCALE_DOWN_DEFAULTS.scale_down_utilization_threshold
    scale_down_unneeded_time: Annotated[
        Duration, Setting("How long a node must not be needed before it goes.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_unneeded_seconds))
    scale_down_unready_enabled: Annotated[
        bool, Setting("Remove nodes that are not ready as well.", why=_AS_UPSTREAM)
    ] = True
    scale_down_unready_time: Annotated[
        Duration, Setting("The same time for a node that is not ready.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_unready_seconds))
    scale_down_delay_after_add: Annotated[
        Duration,
        Setting("Nothing is removed for so long after nodes were ordered.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_add_seconds))
    scale_down_delay_after_delete: Annotated[
        Duration,
        Setting("Nor for so long after a node went.", why="0s: the next one may follow.", minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_delete_seconds))
    scale_down_delay_after_failure: Annotated[
        Duration, Setting("Nor for so long after one could not be removed.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.scale_down_delay_after_failure_seconds))
    max_scale_down_parallelism: Annotated[
        int, Setting("Most nodes that are on their way out at a time.", why=_AS_UPSTREAM, minimum=1)
    ] = _SCALE_DOWN_DEFAULTS.max_scale_down_parallelism
    max_drain_parallelism: Annotated[
        int, Setting("Most of them with pods that have to be moved.", why=_AS_UPSTREAM, minimum=1)
    ] = _SCALE_DOWN_DEFAULTS.max_drain_parallelism
    node_delete_delay_after_taint: Annotated[
        Duration,
        Setting("How long pods may still come to a node after it was marked.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.node_delete_delay_after_taint_seconds))
    max_pod_eviction_time: Annotated[
        Duration,
        Setting("How long evictions may be refused before the node is kept.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.max_pod_eviction_seconds))
    max_graceful_termination_sec: Annotated[
        int,
        Setting("Most seconds that a pod is given to end when its node goes.", why=_AS_UPSTREAM, unit="s", minimum=0),
    ] = _SCALE_DOWN_DEFAULTS.max_graceful_termination_seconds
    unremovable_node_recheck_timeout: Annotated[
        Duration, Setting("When a node is tried again that could not go.", why=_AS_UPSTREAM, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_SCALE_DOWN_DEFAULTS.unremovable_node_recheck_seconds))
    skip_nodes_with_system_pods: Annotated[
        bool, Setting("Keep nodes with pods of kube-system that have no disruption budget.", why=_AS_UPSTREAM)
    ] = True
    skip_nodes_with_local_storage: Annotated[
        bool, Setting("Keep nodes with pods that have files there.", why=_AS_UPSTREAM)
    ] = True
    skip_nodes_with_custom_controller_pods: Annotated[
        bool,
        Setting("Keep nodes with pods of controllers that are not Kubernetes' own.", why="Nobody knows what they do."),
    ] = True

    def figures(self, max_node_provision_seconds: float) -> ScaleDownSettings:
        """By which plans are made."""
        return ScaleDownSettings(
            scale_down_enabled=self.scale_down_enabled,
            scale_down_utilization_threshold=self.scale_down_utilization_threshold,
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
            max_node_provision_seconds=max_node_provision_seconds,
        )


LEASE: Final = "trellis-nodes"
KWOK: Final = "kwok"


class NodeLoopSettings(Settings, frozen=True):
    """How often everything is looked at, and how it is changed."""

    scan_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all nodes.",
            why="Pods without a node, Buffers that change and nodes that come are acted on at once.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(10)
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "What the admission controller has been told: most CPU that a container is given for its start.",
            why="A pod that is moved starts anew, and may be boosted then. Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    metrics_buffers: Annotated[
        int,
        Setting(
            "Buffers with metrics of their own; others are only counted.",
            why="Each has five series, and a monitoring system pays for every one.",
            minimum=0,
        ),
    ] = 1_000
    concurrent_writes: Annotated[
        int, Setting("Writes at the same time.", why="Enough to hide the latency of requests.", minimum=1)
    ] = 8


class ProviderSettings(Settings, frozen=True):
    """Where nodes come from."""

    cloud_provider: Annotated[
        str, Setting("Where nodes come from.", why="There is only this one so far.", choices=(KWOK,))
    ] = KWOK
    provider_timeout: Annotated[
        Duration,
        Setting(
            "How long a provider may take to answer; a group whose order is not answered is left alone for a while.",
            why="Long enough for a cloud that is busy, and shorter than what probes take for dead.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(30)
    kwok_node_groups: Annotated[
        str, Setting("Namespace and name of the ConfigMap that declares groups of kwok nodes.", why="One for all.")
    ] = CONFIG_MAP

    def conflicts(self) -> Iterator[SettingConflict]:
        """A ConfigMap has a namespace and a name."""
        namespace, _, name = self.kwok_node_groups.partition("/")
        if not namespace or not name or "/" in name:
            yield SettingConflict("kwok-node-groups", f'"{self.kwok_node_groups}" must be written as namespace/name')


class SharedProcessSettings(Settings, frozen=True):
    """What else this process does."""

    with_buffers: Annotated[
        str,
        Setting(
            "A YAML file of settings of `trellis buffers`, named like its flags: this process does its work as well.",
            why="Unset: Buffers are translated by a process of its own, by another controller, or not at all.",
        ),
    ] = ""


class NodeControllerSettings(Settings, frozen=True):
    """All settings of the node autoscaler."""

    loop: NodeLoopSettings = NodeLoopSettings()
    provider: ProviderSettings = ProviderSettings()
    up: ScaleUpFlags = ScaleUpFlags()
    down: ScaleDownFlags = ScaleDownFlags()
    together: SharedProcessSettings = SharedProcessSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8947")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()
