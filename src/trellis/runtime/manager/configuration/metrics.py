"""Metrics of the configuration file: whether it is valid, what was applied, and what waits for a restart."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from trellis.runtime.telemetry.metrics import CounterSpec, GaugeSpec, Label, Spec


class ReloadResult(StrEnum):
    """The result of reading a changed file."""

    SUCCESS = "success"
    FAILURE = "failure"


RELOADS: Final = CounterSpec(
    "trellis_configuration_reloads_total",
    "Changes of the configuration file that were read, by result. After a failure the former settings stay.",
    (Label("result", values=ReloadResult),),
)
LAST_RELOAD_SUCCESSFUL: Final = GaugeSpec(
    "trellis_configuration_last_reload_successful",
    "1 if the configuration file, as it was last read, is in effect, else 0.",
)
LAST_SUCCESS: Final = GaugeSpec(
    "trellis_configuration_last_reload_success_timestamp_seconds",
    "Time at which the settings in effect were read.",
)
SETTINGS_INFO: Final = GaugeSpec(
    "trellis_configuration_info",
    "1, with a hash of all settings in effect but secrets: replicas with the same settings have the same.",
    (Label("hash", "the first 16 digits of a SHA-256 hash"),),
)
PENDING_RESTART: Final = GaugeSpec(
    "trellis_configuration_pending_restart",
    "1 for each setting that the configuration file changes and only a restart of the process applies.",
    (Label("setting", "field of the file, such as `address` or `admission.port`"),),
)
CONFIGURATION_METRICS: Final[tuple[Spec, ...]] = (
    RELOADS,
    LAST_RELOAD_SUCCESSFUL,
    LAST_SUCCESS,
    SETTINGS_INFO,
    PENDING_RESTART,
)
