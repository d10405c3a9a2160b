"""By which figures are nodes added? Each is named like the flag of Cluster Autoscaler that means the same."""

from __future__ import annotations

import msgspec

from trellis.base.prices import Prices


class UpSettings(msgspec.Struct, frozen=True):
    """Times in seconds; a total of 0 is none.

    `expanders` choose between groups, the first that prefers one decides. `max_node_provision_seconds` is how long a
    node may take to come up before it is given up. `cores_total` is in cores, `memory_total` in bytes.
    `prices` are for nodes of no group, whose price no provider gives; None: they cost nothing.
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
    prices: Prices | None = None
