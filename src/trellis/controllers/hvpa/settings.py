"""Settings of the Hvpa controller."""

from __future__ import annotations

from typing import Annotated, Final

from trellis.base.durations import Duration
from trellis.core.hvpa import HvpaSettings
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, LeaderSettings, NamespaceSettings, check_interval
from trellis.runtime.settings.declarations import Setting, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

LEASE: Final = "trellis-hvpa"


class HvpaLoopSettings(Settings, frozen=True):
    """How often everything is looked at, and how it is changed."""

    hvpa_interval: Annotated[
        Duration,
        Setting(
            "How often to look at all Hvpas.",
            why="Changes and moments that are known in advance are acted on at once, whatever this says.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    ready_patience: Annotated[
        Duration,
        Setting(
            "How long new replicas may take to become Ready before the next step is taken without them.",
            why="A minute: longer than most pods take, and short enough for a pod that never will.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(60)
    concurrent_writes: Annotated[
        int,
        Setting("Hvpas looked at at the same time.", why="Enough to hide the latency of requests.", minimum=1),
    ] = 8

    def figures(self) -> HvpaSettings:
        """By which plans are made."""
        return HvpaSettings(ready_patience=self.ready_patience.total_seconds())


class HvpaControllerSettings(Settings, frozen=True):
    """All settings of the Hvpa controller."""

    loop: HvpaLoopSettings = HvpaLoopSettings()
    access: AccessSettings = AccessSettings()
    scope: NamespaceSettings = NamespaceSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8945")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()
