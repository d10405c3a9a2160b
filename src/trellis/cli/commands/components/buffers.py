"""`trellis buffers`: writes which pods each Buffer stands for, so that a node autoscaler keeps capacity for them."""

from __future__ import annotations

from trellis.cli.component import component_command
from trellis.controllers.buffers.process import buffers_main
from trellis.controllers.buffers.settings import BufferControllerSettings

command = component_command(
    "buffers",
    "Publish how much spare capacity each Buffer asks for.",
    BufferControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=buffers_main,
)
