"""Settings of the Buffer controller: translation, CapacityBuffers, and headroom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.base.names import check_label_key
from trellis.base.prices import EXAMPLE_PRICES, parse_prices
from trellis.base.quantities import Quantity
from trellis.core.buffers import BufferSettings
from trellis.core.nodes.settings import ScaleUpSettings
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


class CapacityBufferSettings(Settings, frozen=True):
    """Whether CapacityBuffers are served, or made of Buffers. Not both: the room of a Buffer would be kept twice."""

    serve_capacity_buffers: Annotated[
        bool,
        Setting(
            "Translate upstream's CapacityBuffers too: their status says which pods they stand for.",
            why="Off: a node autoscaler may have a controller of its own for them, and two must not serve one object.",
        ),
    ] = False
    translate: Annotated[
        bool,
        Setting(
            "Keep one CapacityBuffer for each Buffer, for nodes that Cluster Autoscaler or Karpenter manages.",
            why="Off: whoever reads Buffers would keep the same room again.",
        ),
    ] = False

    def conflicts(self) -> Iterator[SettingConflict]:
        """A process that creates CapacityBuffers must not serve them."""
        if self.serve_capacity_buffers and self.translate:
            yield SettingConflict(
                "translate", "must not go with --serve-capacity-buffers: who makes them does not serve them"
            )


class HeadroomSettings(Settings, frozen=True):
    """Whether the chunks of Buffers fit on ready nodes, and what they cost there."""

    nodes_lease: Annotated[
        str,
        Setting(
            "Namespace and name of the Lease of `trellis nodes`, which writes `Provisioned` while it is held.",
            why="The one that it has unless its flags say otherwise.",
        ),
    ] = "kube-system/trellis-nodes"
    prices: Annotated[
        str,
        Setting(
            "Prices of a core-hour and a GiB-hour, for the metric of what Buffers cost.",
            why="Example prices: no autoscaler says in the cluster what its nodes cost.",
        ),
    ] = f"{EXAMPLE_PRICES.core_hour},{EXAMPLE_PRICES.gib_hour}"

    def figures(self) -> ScaleUpSettings:
        """By which headroom is observed."""
        return ScaleUpSettings(prices=parse_prices(self.prices))

    def conflicts(self) -> Iterator[SettingConflict]:
        """A Lease has a namespace and a name, and prices are two numbers."""
        namespace, _, name = self.nodes_lease.partition("/")
        if not namespace or not name or "/" in name:
            yield SettingConflict("nodes-lease", f'"{self.nodes_lease}" must be written as namespace/name')
        try:
            parse_prices(self.prices)
        except InvalidInput as error:
            yield SettingConflict("prices", str(error))


LEASE: Final = "trellis-buffers"

_DEFAULTS: Final = BufferSettings()


class TranslationSettings(Settings, frozen=True):
    """How Buffers are translated into pods."""

    buffer_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all Buffers.",
            why="Changes and the edges of schedules are acted on at once, whatever this says.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    max_chunks_per_buffer: Annotated[
        int,
        Setting(
            "Most chunks of one Buffer; one that asks for more is cut, and its condition says so.",
            why="A slip of two zeros should not buy a thousand nodes.",
            minimum=1,
            maximum=2**31 - 1,
        ),
    ] = _DEFAULTS.most_chunks
    node_class_labels: Annotated[
        tuple[str, ...],
        Setting(
            "Labels by which nodes show their class, as `Kind=label`. They come before those that are known.",
            why="NodePool, ComputeClass, CustomComputeClass, MachineDeployment and KwokNodeGroup are known.",
        ),
    ] = ()
    set_aside_target_kinds: Annotated[
        tuple[str, ...],
        Setting(
            "Kinds of targets whose Buffers another controller translates; these Buffers are left alone.",
            why="None by default.",
        ),
    ] = ()
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "What the admission controller has been told: most CPU that a container is given for its start.",
            why="A chunk is as big as a pod that starts. Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    metrics_buffers: Annotated[
        int,
        Setting(
            "Buffers with metrics of their own; others are only counted.",
            why="Each has eight series, and a monitoring system pays for every one.",
            minimum=0,
        ),
    ] = 1_000
    concurrent_writes: Annotated[
        int,
        Setting("Buffers looked at at the same time.", why="Enough to hide the latency of requests.", minimum=1),
    ] = 8

    def figures(self) -> BufferSettings:
        """The settings of translation."""
        labels = dict(entry.split("=", 1) for entry in self.node_class_labels if "=" in entry)
        return BufferSettings(
            most_chunks=self.max_chunks_per_buffer,
            node_class_labels=labels,
            set_aside=frozenset(self.set_aside_target_kinds),
        )

    def conflicts(self) -> Iterator[SettingConflict]:
        """Each label of a class is a kind, an equals sign and a label."""
        for entry in self.node_class_labels:
            kind, _, label = entry.partition("=")
            problem = "must be written as Kind=label" if not (kind and label) else check_label_key(label)
            if problem is not None:
                yield SettingConflict("node-class-labels", f'"{entry}" {problem}')


class BufferControllerSettings(Settings, frozen=True):
    """All settings of the Buffer controller."""

    translation: TranslationSettings = TranslationSettings()
    elsewhere: CapacityBufferSettings = CapacityBufferSettings()
    headroom: HeadroomSettings = HeadroomSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8946")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()
