"""Settings of scale-up and scale-down. Each is named like the Cluster Autoscaler flag with the same meaning."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from trellis.base.prices import Prices
from trellis.core.nodes.node_groups import NO_OPTIONS, GroupOptions
from trellis.core.nodes.state.transient_taints import NO_TRANSIENT_TAINTS, TransientTaints


class ScaleUpSettings(msgspec.Struct, frozen=True):
    """Times in seconds; a total of 0 is none.

    `expanders` choose between groups, the first that prefers one decides. `max_node_provision_seconds` is how long a
    node may take to come up before its order counts as failed. `cores_total` is in cores, `memory_total` in bytes.
    `prices` are for nodes outside all groups, whose price no provider reports; None: they cost nothing. With
    `scale_up_for_resizes` a pod whose resize does not fit on its node counts as demand for its replacement.
    """

    expanders: tuple[str, ...] = ("priority", "least-waste", "price")
    balance_similar_node_groups: bool = True
    enforce_node_group_min_size: bool = False
    max_nodes_total: int = 0
    max_nodes_per_scaleup: int = 1_000
    cores_total: int = 0
    memory_total: int = 0
    max_node_provision_seconds: float = 900.0
    initial_node_group_backoff_seconds: float = 300.0
    max_node_group_backoff_seconds: float = 1_800.0
    node_group_backoff_reset_seconds: float = 10_800.0
    transient_taints: TransientTaints = NO_TRANSIENT_TAINTS
    prices: Prices | None = None
    provisioning_request_initial_backoff_seconds: float = 60.0
    provisioning_request_max_backoff_seconds: float = 600.0
    scale_up_for_resizes: bool = True


class ScaleDownSettings(msgspec.Struct, frozen=True):
    """Times in seconds.

    A node is underused if requests are at most `scale_down_utilization_threshold` of its allocatable, of each resource;
    a node with GPUs or other devices, if they are at most `scale_down_gpu_utilization_threshold` of its devices.
    `max_scale_down_parallelism` is how many nodes may be on their way out at a time, `max_drain_parallelism` how many
    of them with pods to be evicted. `max_pod_eviction_seconds` is how long an eviction, or the mark on a node, may be
    refused before the node is kept. `max_nodes_tried` is how many nodes with pods a plan tries, of those known to be
    unneeded and of others. `max_bulk_soft_taint_count` is how many nodes get or lose the soft taint in one pass; 0: no
    node has it. With `scale_down_recommendation_headroom` nodes that stay keep space for the growth that VPAs and Hvpas
    recommend.
    """

    scale_down_enabled: bool = True
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    scale_down_unneeded_seconds: float = 600.0
    scale_down_unready_enabled: bool = True
    scale_down_unready_seconds: float = 1_200.0
    scale_down_delay_after_add_seconds: float = 600.0
    scale_down_delay_after_delete_seconds: float = 0.0
    scale_down_delay_after_failure_seconds: float = 180.0
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    node_delete_delay_after_taint_seconds: float = 5.0
    max_pod_eviction_seconds: float = 120.0
    max_graceful_termination_seconds: int = 600
    # How long a provider may take to show a released node as leaving.
    node_release_seconds: float = 120.0
    unremovable_node_recheck_seconds: float = 300.0
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    max_node_provision_seconds: float = 900.0
    transient_taints: TransientTaints = NO_TRANSIENT_TAINTS
    max_nodes_tried: int = 100
    max_bulk_soft_taint_count: int = 10
    daemonset_eviction_for_occupied_nodes: bool = True
    daemonset_eviction_for_empty_nodes: bool = False
    scale_down_recommendation_headroom: bool = True


S = TypeVar("S", bound=ScaleUpSettings | ScaleDownSettings)


def apply_options(settings: S, options: GroupOptions) -> S:
    """The settings with the options of a group in place of those that they replace."""
    return settings if options == NO_OPTIONS else _replace(settings, options)


# Called for each node of each pass, with the options of few groups.
@lru_cache(maxsize=1_024)
def _replace(settings: Any, options: GroupOptions) -> Any:
    own = {
        name: value
        for name, value in msgspec.structs.asdict(options).items()
        if value is not None and name in settings.__struct_fields__
    }
    return msgspec.structs.replace(settings, **own)
