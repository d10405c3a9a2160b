"""Settings of the Hvpa controller."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from trellis.base.durations import Duration
from trellis.core.hvpa import HvpaSettings
from trellis.runtime.recorder import RecorderSettings
from trellis.runtime.settings.component import AccessSettings, LeaderSettings, NamespaceSettings, check_interval
from trellis.runtime.settings.declarations import Setting, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

LEASE: Final = "trellis-hvpa"


class HvpaLoopSettings(Settings, frozen=True):
    """How often Hvpas are reconciled, and how many at the same time."""

    title: ClassVar[str] = "Reconciling"

    hvpa_interval: Annotated[
        Duration,
        Setting(
            "Time between two passes over all Hvpas.",
            why="Changes and times known in advance do not wait for a pass.",
            check=check_interval,
        ),
    ] = Duration.from_seconds(60)
    ready_patience: Annotated[
        Duration,
        Setting(
            "How long new replicas may take to become Ready before the Hvpa takes its next step without them.",
            why="Longer than most pods take, and short for a pod that never becomes Ready.",
            minimum=Duration(0),
        ),
    ] = Duration.from_seconds(60)
    concurrent_writes: Annotated[
        int,
        Setting(
            "Number of Hvpas reconciled at the same time.",
            why="Enough to hide the latency of the API server.",
            minimum=1,
        ),
    ] = 8

    def figures(self) -> HvpaSettings:
        """By which plans are made."""
        return HvpaSettings(ready_patience=self.ready_patience.total_seconds())


class HvpaControllerSettings(Settings, frozen=True):
    """All settings of the Hvpa controller."""

    most_used: ClassVar[tuple[str, ...]] = (
        "hvpa-interval",
        "ready-patience",
        "concurrent-writes",
        "vpa-object-namespace",
        "ignored-vpa-object-namespaces",
        "kube-api-qps",
        "kubeconfig",
        "read-only",
        "leader-elect",
        "v",
    )

    loop: HvpaLoopSettings = HvpaLoopSettings()
    access: AccessSettings = AccessSettings()
    scope: NamespaceSettings = NamespaceSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect_resource_name=LEASE)
    health: HealthSettings = HealthSettings(address=":8945")
    logs: LogSettings = LogSettings()
    recording: RecorderSettings = RecorderSettings()
