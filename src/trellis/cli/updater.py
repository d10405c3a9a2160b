"""`trellis updater`: changes pods that run to what is recommended for them."""

from __future__ import annotations

from trellis.cli.component import component
from trellis.controllers.updater.process import updating
from trellis.controllers.updater.settings import UpdaterSettings

command = component(
    "updater",
    "Resize running pods to what is recommended, in place or by eviction.",
    UpdaterSettings,
    log_settings=lambda settings: settings.logs,
    start=updating,
)
