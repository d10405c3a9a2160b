"""`trellis admission-controller`: sizes and boosts new pods, and validates autoscaling objects."""

from __future__ import annotations

import asyncio
import sys

from trellis.cli.component import component_command
from trellis.controllers.admission.process import admission_main
from trellis.controllers.admission.settings import AdmissionSettings


def _new_loop() -> asyncio.AbstractEventLoop:
    """The faster loop where there is one: a review costs half of what it costs on the other."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 - only admission needs it, and not every platform has it

    return uvloop.new_event_loop()


command = component_command(
    "admission-controller",
    "Size new pods, and validate autoscaling objects.",
    AdmissionSettings,
    log_settings=lambda settings: settings.logs,
    start=admission_main,
    new_loop=_new_loop,
)
