"""What of the Buffer controller can be set?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.names import why_not_label_key
from trellis.base.quantity import Quantity
from trellis.controllers.buffers.elsewhere_settings import ElsewhereSettings
from trellis.controllers.buffers.headroom.settings import HeadroomSettings
from trellis.core.buffers import BufferSettings
from trellis.runtime.boosts import why_not_millicores
from trellis.runtime.component_settings import AccessSettings, LeaderSettings, ScopeSettings, why_no_time
from trellis.runtime.health_server import HealthSettings
from trellis.runtime.logs import LogSettings
from trellis.runtime.recording import RecordSettings
from trellis.runtime.settings import Conflict, Setting, Settings

LEASE: Final = "trellis-buffers"

_FIGURES: Final = BufferSettings()


class TranslationSettings(Settings, frozen=True):
    """How Buffers are translated into pods."""

    buffer_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all Buffers.",
            why="Changes and the edges of schedules are acted on at once, whatever this says.",
            check=why_no_time,
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
    ] = _FIGURES.most_chunks
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
            check=why_not_millicores,
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
        """By which Buffers are translated."""
        labels = dict(each.split("=", 1) for each in self.node_class_labels if "=" in each)
        return BufferSettings(
            most_chunks=self.max_chunks_per_buffer,
            node_class_labels=labels,
            set_aside=frozenset(self.set_aside_target_kinds),
        )

    def conflicts(self) -> Iterator[Conflict]:
        """Each label of a class is a kind, an equals sign and a label."""
        for each in self.node_class_labels:
            kind, _, label = each.partition("=")
            why = "must be written as Kind=label" if not (kind and label) else why_not_label_key(label)
            if why is not None:
                yield Conflict("node-class-labels", f'"{each}" {why}')


class BufferControllerSettings(Settings, frozen=True):
    """All of it."""

    translation: TranslationSettings = TranslationSettings()
    elsewhere: ElsewhereSettings = ElsewhereSettings()
    headroom: HeadroomSettings = HeadroomSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8946")
    logs: LogSettings = LogSettings()
    recording: RecordSettings = RecordSettings()
