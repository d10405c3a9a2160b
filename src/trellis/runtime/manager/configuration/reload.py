"""Reads the configuration file again when it changes, and applies it as far as that is safe.

The file is read every few seconds, because a mounted ConfigMap changes by a link, which not every file system reports.
An invalid file changes nothing. A valid one restarts the components whose settings it changes, each alone. What needs a
restart of the process is reported. A component that refuses its new settings at its start goes on with the former ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from trellis.base.errors import InvalidConfiguration, InvalidInput
from trellis.runtime.manager.configuration.changes import (
    PendingChange,
    find_changed_components,
    keep_until_restart,
    replace_component,
)
from trellis.runtime.manager.configuration.rendering import compute_settings_hash
from trellis.runtime.manager.configuration.reports import ReloadReports
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.manager.supervisor import ManagedComponent, OnRefused
from trellis.runtime.settings.loader import LoadedSettings
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.logs import LogSettings

POLL_SECONDS: Final = 3.0


class SettingsSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the settings of a process come from.

    `load` returns those of a text of the file, or without a file: for these components, or for those that the settings
    name. `link` sets what follows from another component's settings. `manage` makes a component of its settings, and
    `read` returns the text of the file.
    """

    load: Callable[[bytes | None, Sequence[str] | None], LoadedProcess]
    link: Callable[[LoadedProcess], LoadedProcess]
    manage: Callable[[str, Any], ManagedComponent]
    path: Path | None = None
    read: Callable[[Path], bytes] = Path.read_bytes


class Reconfigurable(Protocol):
    """A component that runs, and can be restarted with other settings."""

    def reconfigure(self, managed: ManagedComponent, on_refused: OnRefused) -> None: ...


class RunningConfiguration:
    """The settings that a process runs with.

    `effective` includes what follows from other components. `pending` waits for a restart of the process. `warnings`
    are what the file says without effect. `text` is the file as it was read at the start.
    """

    def __init__(self, source: SettingsSource, text: bytes | None = None) -> None:
        self.source = source
        self.text = text
        self.pending: tuple[PendingChange, ...] = ()
        self._loaded = source.load(text, None)
        self.warnings = self._loaded.warnings
        self.effective = source.link(self._loaded)

    @property
    def hash(self) -> str:
        """The hash of the settings in effect."""
        return compute_settings_hash(self.effective)

    def manage_all(self) -> list[ManagedComponent]:
        """The components with their settings."""
        return [self.source.manage(name, own.settings) for name, own in self.effective.components.items()]

    def change(self, text: bytes) -> dict[str, ManagedComponent]:
        """Take over another text of the file, and return the components to restart; raises `InvalidInput`."""
        new = self.source.load(text, tuple(self._loaded.components))
        loaded, pending = keep_until_restart(self._loaded, new)
        effective = self.source.link(loaded)
        changed = {
            name: self.source.manage(name, effective.components[name].settings)
            for name in find_changed_components(self.effective, effective)
        }
        self._loaded, self.effective, self.pending, self.warnings = loaded, effective, pending, new.warnings
        return changed

    def restore(self, name: str, settings: Any, former: LoadedProcess) -> None:
        """Take back the settings of one component, which have the origins that they had in the `former` ones."""
        own = LoadedSettings(settings, former.components[name].origins)
        self.effective = replace_component(self.effective, name, own)
        self._loaded = replace_component(self._loaded, name, own)


class ConfigurationReloader:
    """Applies changes of the file to the components that run. `configure_logs` applies those of the log."""

    def __init__(
        self,
        configuration: RunningConfiguration,
        components: Mapping[str, Reconfigurable],
        reports: ReloadReports,
        configure_logs: Callable[[LogSettings], object],
    ) -> None:
        self._configuration = configuration
        self._components = components
        self._reports = reports
        self._configure_logs = configure_logs
        # What was read last, valid or not: a text or an error is reported once.
        self._last: bytes | str | None = configuration.text
        reports.warn(str(configuration.source.path), configuration.warnings)
        reports.mark_valid()
        reports.show_state(configuration.hash, ())

    async def run(self, stop: Shutdown) -> None:
        """Look at the file until the process stops."""
        path = self._configuration.source.path
        while path is not None and not await _is_stopped(stop):
            self._read_again(path)
        await stop.wait()

    def _read_again(self, path: Path) -> None:
        try:
            text = self._configuration.source.read(path)
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
            if why != self._last:
                self._last = why
                self._reports.refuse(str(path), why)
            return
        if text == self._last:
            return
        self._last = text
        former = self._configuration.effective
        try:
            changed = self._configuration.change(text)
        except InvalidInput as error:
            problems = error.problems if isinstance(error, InvalidConfiguration) else (str(error),)
            self._reports.refuse(str(path), "; ".join(problems))
            return
        effective = self._configuration.effective
        if effective.process.settings.logs != former.process.settings.logs:
            self._configure_logs(effective.process.settings.logs)
        self._reports.warn(str(path), self._configuration.warnings)
        self._reports.accept(str(path), tuple(changed), self._configuration.pending)
        self._reports.show_state(self._configuration.hash, self._configuration.pending)
        for name, managed in changed.items():
            self._components[name].reconfigure(managed, partial(self._take_back, path, name, former))

    def _take_back(
        self, path: Path, name: str, former: LoadedProcess, error: InvalidInput, restored: ManagedComponent
    ) -> None:
        self._configuration.restore(name, restored.settings, former)
        self._reports.refuse(str(path), f"{name} refuses its settings: {error}")
        self._reports.show_state(self._configuration.hash, self._configuration.pending)


async def _is_stopped(stop: Shutdown) -> bool:
    """Wait for the next time to look, or for the end of the process."""
    with suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            await stop.wait()
    return stop.reason is not None
