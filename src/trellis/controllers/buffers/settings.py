"""Settings of the Buffer controller: translation, CapacityBuffers, and headroom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

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
    """Whether CapacityBuffers are served, or created from Buffers.

    With both, the capacity of a Buffer would be provisioned twice.
    """

    title: ClassVar[str] = "CapacityBuffers"

    serve_capacity_buffers: Annotated[
        bool,
        Setting(
            "Serve upstream's CapacityBuffers too: publish in their status the pods they stand for.",
            why="Off: the cluster's node autoscaler may serve them; only one controller may serve an object.",
        ),
    ] = False
    translate: Annotated[
        bool,
        Setting(
            "Create a CapacityBuffer for each Buffer, for nodes managed by Cluster Autoscaler or Karpenter.",
            why="Off: `trellis nodes` reads Buffers directly, and would provision the same capacity again.",
        ),
    ] = False

    def conflicts(self) -> Iterator[SettingConflict]:
        """A process that creates CapacityBuffers must not serve them."""
        if self.serve_capacity_buffers and self.translate:
            yield SettingConflict(
                "translate",
                "must not be combined with --serve-capacity-buffers: a process that creates CapacityBuffers "
                "does not serve them",
            )


class HeadroomSettings(Settings, frozen=True):
    """Metrics of the capacity that Buffers provision, and of its cost."""

    title: ClassVar[str] = "Headroom"

    nodes_lease: Annotated[
        str,
        Setting(
            "Lease of `trellis nodes`, as `namespace/name`; while it is held, `trellis nodes` publishes "
            "the condition `Provisioned`.",
            why="The default of `trellis nodes`.",
        ),
    ] = "kube-system/trellis-nodes"
    prices: Annotated[
        str,
        Setting(
            "Prices of a core-hour and a GiB-hour, for the metric of the cost of Buffers.",
            why="Example prices: the cluster does not say what its nodes cost.",
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
    """How Buffers become chunks, each a virtual pod."""

    title: ClassVar[str] = "Chunks of Buffers"

    buffer_interval: Annotated[
        Duration,
        Setting(
            "Time between two passes over all Buffers.",
            why="Changes, and the start and end of schedule windows, do not wait for a pass.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    max_chunks_per_buffer: Annotated[
        int,
        Setting(
            "Maximum number of chunks of one Buffer; a Buffer that asks for more gets this many, and a condition.",
            why="A typing error of two zeros should not order a thousand nodes.",
            minimum=1,
            maximum=2**31 - 1,
        ),
    ] = _DEFAULTS.most_chunks
    node_class_labels: Annotated[
        tuple[str, ...],
        Setting(
            "Node labels that hold the name of the node's class, as `Kind=label`, separated by commas; "
            "these take precedence over the known ones.",
            why="The labels of NodePool, ComputeClass, CustomComputeClass, MachineDeployment, "
            "KwokNodeGroup and ClaimNodeGroup are known.",
        ),
    ] = ()
    set_aside_target_kinds: Annotated[
        tuple[str, ...],
        Setting(
            "Kinds of targets whose Buffers are ignored, because another controller translates them.",
            why="None by default.",
        ),
    ] = ()
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "Maximum CPU that a startup boost may give to a container; set it as for the admission controller.",
            why="A chunk is as large as a starting pod. Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=check_millicores,
        ),
    ] = None
    admission_dry_run: Annotated[
        bool,
        Setting(
            "Send the template of a target without pods to the API server as a dry run, to see what admission changes.",
            why="Off: it needs the right to create pods, which lets its holder run a pod under any ServiceAccount. "
            "Without it a template gets the defaults of LimitRanges only.",
        ),
    ] = False
    metrics_buffers: Annotated[
        int,
        Setting(
            "Maximum number of Buffers with metrics of their own; the others are only counted.",
            why="Each Buffer has eight series.",
            minimum=0,
        ),
    ] = 1_000
    concurrent_writes: Annotated[
        int,
        Setting(
            "Number of Buffers reconciled at the same time.",
            why="Enough to hide the latency of the API server.",
            minimum=1,
        ),
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

    most_used: ClassVar[tuple[str, ...]] = (
        "max-chunks-per-buffer",
        "node-class-labels",
        "set-aside-target-kinds",
        "serve-capacity-buffers",
        "translate",
        "nodes-lease",
        "prices",
        "vpa-object-namespace",
        "read-only",
        "leader-elect",
    )

    translation: TranslationSettings = TranslationSettings()
    elsewhere: CapacityBufferSettings = CapacityBufferSettings()
    headroom: HeadroomSettings = HeadroomSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8946")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()
