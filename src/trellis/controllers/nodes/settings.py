"""What of the node autoscaler can be set?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.base.quantity import Quantity
from trellis.controllers.nodes.down_flags import DownFlags
from trellis.controllers.nodes.up_flags import UpFlags
from trellis.providers.kwok import CONFIG_MAP
from trellis.runtime.boosts import why_not_millicores
from trellis.runtime.component_settings import AccessSettings, LeaderSettings, ScopeSettings, why_no_time
from trellis.runtime.health_server import HealthSettings
from trellis.runtime.logs import LogSettings
from trellis.runtime.recording import RecordSettings
from trellis.runtime.settings import Conflict, Setting, Settings

LEASE: Final = "trellis-nodes"
KWOK: Final = "kwok"


class NodeLoopSettings(Settings, frozen=True):
    """How often everything is looked at, and how it is changed."""

    scan_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all nodes.",
            why="Pods without a node, Buffers that change and nodes that come are acted on at once.",
            check=why_no_time,
        ),
    ] = Duration.from_seconds(10)
    max_allowed_cpu_boost: Annotated[
        Quantity | None,
        Setting(
            "What the admission controller has been told: most CPU that a container is given for its start.",
            why="A pod that is moved starts anew, and may be boosted then. Unset: no maximum.",
            minimum=Quantity.ZERO,
            check=why_not_millicores,
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
            check=why_no_time,
        ),
    ] = Duration.from_seconds(30)
    kwok_node_groups: Annotated[
        str, Setting("Namespace and name of the ConfigMap that declares groups of kwok nodes.", why="One for all.")
    ] = CONFIG_MAP

    def conflicts(self) -> Iterator[Conflict]:
        """A ConfigMap has a namespace and a name."""
        namespace, _, name = self.kwok_node_groups.partition("/")
        if not namespace or not name or "/" in name:
            yield Conflict("kwok-node-groups", f'"{self.kwok_node_groups}" must be written as namespace/name')


class TogetherSettings(Settings, frozen=True):
    """What else this process does."""

    with_buffers: Annotated[
        str,
        Setting(
            "A YAML file of settings of `trellis buffers`, named like its flags: this process does its work as well.",
            why="Unset: Buffers are translated by a process of its own, by another controller, or not at all.",
        ),
    ] = ""


class NodeControllerSettings(Settings, frozen=True):
    """All of it."""

    loop: NodeLoopSettings = NodeLoopSettings()
    provider: ProviderSettings = ProviderSettings()
    up: UpFlags = UpFlags()
    down: DownFlags = DownFlags()
    together: TogetherSettings = TogetherSettings()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8947")
    logs: LogSettings = LogSettings()
    recording: RecordSettings = RecordSettings()
