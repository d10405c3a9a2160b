"""What of adding nodes can be set? Flags are named like those of Cluster Autoscaler that mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.quantity import Quantity
from trellis.core.nodes.expanders import EXPANDERS
from trellis.core.nodes.population import EXPENDABLE_BELOW
from trellis.core.nodes.up_settings import UpSettings
from trellis.runtime.component_settings import why_no_time
from trellis.runtime.settings import Conflict, Setting, Settings

_FIGURES: Final = UpSettings()
_NO_TOTAL: Final = "0: no limit."


class UpFlags(Settings, frozen=True):
    """How nodes are added."""

    expander: Annotated[
        tuple[str, ...],
        Setting(
            f"How to choose between groups; the first that prefers one decides. There are {', '.join(EXPANDERS)}.",
            why="What somebody has said comes first, then what wastes least, then what costs least.",
        ),
    ] = _FIGURES.expanders
    balance_similar_node_groups: Annotated[
        bool,
        Setting("Let groups grow evenly that differ by their zone alone.", why="A zone that fails takes its share."),
    ] = _FIGURES.balance_similar_node_groups
    enforce_node_group_min_size: Annotated[
        bool,
        Setting(
            "Order nodes for groups that have fewer than their minimum, though nobody waits for them.",
            why="As in Cluster Autoscaler: otherwise a minimum only keeps nodes from being given back.",
        ),
    ] = _FIGURES.enforce_node_group_min_size
    max_nodes_total: Annotated[
        int, Setting("Most nodes of the whole cluster, those of no group included.", why=_NO_TOTAL, minimum=0)
    ] = _FIGURES.max_nodes_total
    cores_total: Annotated[int, Setting("Most cores of the whole cluster.", why=_NO_TOTAL, minimum=0)] = (
        _FIGURES.cores_total
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
    ] = _FIGURES.max_nodes_per_scaleup
    max_node_provision_time: Annotated[
        Duration,
        Setting(
            "How long a node may take to come up before it is given back and its group left alone.",
            why="As in Cluster Autoscaler.",
            check=why_no_time,
        ),
    ] = Duration.from_seconds(int(_FIGURES.max_node_provision_seconds))
    initial_node_group_backoff_duration: Annotated[
        Duration,
        Setting(
            "How long a group is left alone after it has failed; twice as long each time.",
            why="As in Cluster Autoscaler.",
            check=why_no_time,
        ),
    ] = Duration.from_seconds(int(_FIGURES.initial_node_group_backoff_seconds))
    max_node_group_backoff_duration: Annotated[
        Duration, Setting("The longest of these times.", why="As in Cluster Autoscaler.", check=why_no_time)
    ] = Duration.from_seconds(int(_FIGURES.max_node_group_backoff_seconds))
    node_group_backoff_reset_timeout: Annotated[
        Duration,
        Setting(
            "After so long without a failure the next one counts as the first.",
            why="As in Cluster Autoscaler.",
            check=why_no_time,
        ),
    ] = Duration.from_seconds(int(_FIGURES.node_group_backoff_reset_seconds))
    expendable_pods_priority_cutoff: Annotated[
        int,
        Setting(
            "Pods of a lower priority make way for all others: they get no node, and keep none.",
            why="As in Cluster Autoscaler.",
        ),
    ] = EXPENDABLE_BELOW

    def figures(self) -> UpSettings:
        """By which plans are made."""
        return UpSettings(
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

    def conflicts(self) -> Iterator[Conflict]:
        """Every expander is one that there is."""
        for each in self.expander:
            if each not in EXPANDERS:
                yield Conflict("expander", f'there is no "{each}": the expanders are {", ".join(EXPANDERS)}')
