"""Reports what became of a changed configuration file: in the log, in metrics and as an Event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason, Severity
from trellis.kube.resources import LEASES, PODS
from trellis.runtime.manager.configuration.changes import PendingChange
from trellis.runtime.manager.configuration.metrics import (
    LAST_RELOAD_SUCCESSFUL,
    LAST_SUCCESS,
    PENDING_RESTART,
    RELOADS,
    SETTINGS_INFO,
    ReloadResult,
)
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

CONFIGURATION_RELOADED: Final = Reason(
    "ConfigurationReloaded", "The changed configuration file is in effect.", Severity.INFO
)
CONFIGURATION_REFUSED: Final = Reason(
    "ConfigurationRefused",
    "The changed configuration file is invalid; the former settings stay in effect.",
    Severity.WARNING,
)

_log: Final = Logger("trellis.configuration")


def find_own_object(environment: Mapping[str, str], lease_namespace: str, lease: str) -> ObjectReference:
    """The object for Events of this process: its pod if the environment names it, else a Lease."""
    name = environment.get("POD_NAME", "")
    namespace = environment.get("POD_NAMESPACE") or environment.get("NAMESPACE", "")
    if name and namespace:
        uid = environment.get("POD_UID", "")
        return ObjectReference(PODS.kind, namespace, name, uid=uid, api_version=PODS.api_version)
    return ObjectReference(LEASES.kind, lease_namespace, lease, api_version=LEASES.api_version)


class ReloadReports:
    """Reports about one file. `about` is the object of its Events."""

    def __init__(
        self, metrics: Metrics, record_event: EventSink, about: ObjectReference, now: Callable[[], float]
    ) -> None:
        self._metrics = metrics
        self._record_event = record_event
        self._about = about
        self._now = now
        for result in ReloadResult:
            metrics.add(RELOADS, 0, result)

    def show_state(self, settings_hash: str, pending: Sequence[PendingChange]) -> None:
        """Export what is in effect."""
        self._metrics.set_all(SETTINGS_INFO, {(settings_hash,): 1.0})
        self._metrics.set_all(PENDING_RESTART, {(change.field,): 1.0 for change in pending})

    def accept(self, path: str, restarted: Sequence[str], pending: Sequence[PendingChange]) -> None:
        """Report a valid file: which components restart, and what waits for a restart of the process."""
        self.mark_valid()
        self._metrics.add(RELOADS, 1, ReloadResult.SUCCESS)
        waiting = ", ".join(change.field for change in pending)
        _log.info("configuration reloaded", file=path, restarts=",".join(restarted) or "nothing")
        if waiting:
            _log.warning("settings need a restart of the process", file=path, settings=waiting)
        effects = [f"restarts {', '.join(restarted)}" if restarted else "restarts no component"]
        effects += [f"needs a restart of the process for {waiting}"] if waiting else []
        self._record_event(self._about, CONFIGURATION_RELOADED, f"{path}: {'; '.join(effects)}")

    def warn(self, path: str, warnings: Sequence[str]) -> None:
        """Log what a valid file says without effect."""
        for warning in warnings:
            _log.warning("a part of the configuration has no effect", file=path, warning=warning)

    def mark_valid(self) -> None:
        """Export that the file is in effect."""
        self._metrics.set(LAST_RELOAD_SUCCESSFUL, 1.0)
        self._metrics.set(LAST_SUCCESS, self._now())

    def refuse(self, path: str, why: str) -> None:
        """Report a file that is not applied."""
        self._metrics.add(RELOADS, 1, ReloadResult.FAILURE)
        self._metrics.set(LAST_RELOAD_SUCCESSFUL, 0.0)
        _log.error("configuration refused; the former settings stay in effect", error=None, file=path, why=why)
        self._record_event(self._about, CONFIGURATION_REFUSED, f"{path} is not applied: {why}")
