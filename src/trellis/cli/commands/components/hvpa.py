"""`trellis hvpa`: decides how many replicas a workload has and how big each is."""

from __future__ import annotations

from trellis.cli.component import component_command
from trellis.controllers.hvpa.process import hvpa_main
from trellis.controllers.hvpa.settings import HvpaControllerSettings

command = component_command(
    "hvpa",
    "Scale replica counts and pod sizes together.",
    HvpaControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=hvpa_main,
)
