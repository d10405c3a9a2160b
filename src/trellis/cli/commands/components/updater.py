"""`trellis updater`: changes running pods to what is recommended for them."""

from __future__ import annotations

from trellis.cli.component import component_command
from trellis.controllers.updater.process import updater_main
from trellis.controllers.updater.settings import UpdaterSettings

command = component_command(
    "updater",
    "Resize running pods, in place or by eviction.",
    UpdaterSettings,
    log_settings=lambda settings: settings.logs,
    start=updater_main,
)
