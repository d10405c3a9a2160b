"""What of removing nodes can be set? Flags are named like those of Cluster Autoscaler that mean the same."""

from __future__ import annotations

from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.core.nodes.down_settings import DownSettings
from trellis.runtime.settings import Setting, Settings

_FIGURES: Final = DownSettings()
_USUAL: Final = "As in Cluster Autoscaler."
_NOT_NEGATIVE: Final = Duration(0)


class DownFlags(Settings, frozen=True):
    """How nodes are removed."""

    scale_down_enabled: Annotated[bool, Setting("Remove nodes that are not needed.", why=_USUAL)] = True
    scale_down_utilization_threshold: Annotated[
        float,
        Setting(
            "Up to this share of what a node offers, of each resource, a node counts as underused.",
            why=_USUAL,
            minimum=0.0,
            maximum=1.0,
        ),
    ] = _FIGURES.scale_down_utilization_threshold
    scale_down_unneeded_time: Annotated[
        Duration, Setting("How long a node must not be needed before it goes.", why=_USUAL, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_FIGURES.scale_down_unneeded_seconds))
    scale_down_unready_enabled: Annotated[bool, Setting("Remove nodes that are not ready as well.", why=_USUAL)] = True
    scale_down_unready_time: Annotated[
        Duration, Setting("The same time for a node that is not ready.", why=_USUAL, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_FIGURES.scale_down_unready_seconds))
    scale_down_delay_after_add: Annotated[
        Duration, Setting("Nothing is removed for so long after nodes were ordered.", why=_USUAL, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_FIGURES.scale_down_delay_after_add_seconds))
    scale_down_delay_after_delete: Annotated[
        Duration,
        Setting("Nor for so long after a node went.", why="0s: the next one may follow.", minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_FIGURES.scale_down_delay_after_delete_seconds))
    scale_down_delay_after_failure: Annotated[
        Duration, Setting("Nor for so long after one could not be removed.", why=_USUAL, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_FIGURES.scale_down_delay_after_failure_seconds))
    max_scale_down_parallelism: Annotated[
        int, Setting("Most nodes that are on their way out at a time.", why=_USUAL, minimum=1)
    ] = _FIGURES.max_scale_down_parallelism
    max_drain_parallelism: Annotated[
        int, Setting("Most of them with pods that have to be moved.", why=_USUAL, minimum=1)
    ] = _FIGURES.max_drain_parallelism
    node_delete_delay_after_taint: Annotated[
        Duration,
        Setting("How long pods may still come to a node after it was marked.", why=_USUAL, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_FIGURES.node_delete_delay_after_taint_seconds))
    max_pod_eviction_time: Annotated[
        Duration,
        Setting("How long evictions may be refused before the node is kept.", why=_USUAL, minimum=_NOT_NEGATIVE),
    ] = Duration.from_seconds(int(_FIGURES.max_pod_eviction_seconds))
    max_graceful_termination_sec: Annotated[
        int,
        Setting("Most seconds that a pod is given to end when its node goes.", why=_USUAL, unit="s", minimum=0),
    ] = _FIGURES.max_graceful_termination_seconds
    unremovable_node_recheck_timeout: Annotated[
        Duration, Setting("When a node is tried again that could not go.", why=_USUAL, minimum=_NOT_NEGATIVE)
    ] = Duration.from_seconds(int(_FIGURES.unremovable_node_recheck_seconds))
    skip_nodes_with_system_pods: Annotated[
        bool, Setting("Keep nodes with pods of kube-system that have no disruption budget.", why=_USUAL)
    ] = True
    skip_nodes_with_local_storage: Annotated[
        bool, Setting("Keep nodes with pods that have files there.", why=_USUAL)
    ] = True
    skip_nodes_with_custom_controller_pods: Annotated[
        bool,
        Setting("Keep nodes with pods of controllers that are not Kubernetes' own.", why="Nobody knows what they do."),
    ] = True

    def figures(self, max_node_provision_seconds: float) -> DownSettings:
        """By which plans are made."""
        return DownSettings(
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
