"""`trellis buffers`: writes which pods each Buffer stands for, so that a node autoscaler keeps room for them."""

from __future__ import annotations

from trellis.cli.component import component
from trellis.controllers.buffers.process import translating
from trellis.controllers.buffers.settings import BufferControllerSettings

command = component(
    "buffers",
    "Say in each Buffer's status for which pods room is to be kept.",
    BufferControllerSettings,
    log_settings=lambda settings: settings.logs,
    start=translating,
)
