"""Where the settings of a process come from: flags, environment and a configuration file, which may change."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trellis.cli.process.catalog import CATALOG
from trellis.cli.process.links import link_process
from trellis.runtime.manager.configuration.file import ConfigurationFile, read_configuration, read_text
from trellis.runtime.manager.configuration.reload import RunningConfiguration, SettingsSource
from trellis.runtime.manager.layers import (
    LoadedProcess,
    SettingTypes,
    environment_layer,
    flags_layer,
    isolate_component,
    list_sources,
    load_process,
)
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.settings.loader import from_environment, from_flags, load_settings


def configure_process(types: SettingTypes, parameters: Mapping[str, object], path: Path | None) -> RunningConfiguration:
    """The configuration of several components in one process."""
    layers = [flags_layer(types, parameters), environment_layer(types, os.environ)]

    def load(text: bytes | None, running: Sequence[str] | None) -> LoadedProcess:
        file = _read(types, path, text)
        if file is None:
            return load_process(types, *layers, running=running)
        loaded = load_process(types, *layers, file.layer, running=running)
        return msgspec.structs.replace(loaded, warnings=file.warnings)

    return _configure(SettingsSource(load=load, link=link_process, manage=_manage, path=path))


def configure_component(
    component: str, settings: type[Settings], parameters: Mapping[str, object], path: Path
) -> RunningConfiguration:
    """The configuration of one component in a process of its own. Objects of other components are not read."""
    sources = [from_flags(settings, parameters), from_environment(settings, os.environ)]

    def load(text: bytes | None, _running: Sequence[str] | None) -> LoadedProcess:
        file = _read({component: settings}, path, text)
        written = list_sources(component, [file.layer]) if file is not None else []
        return isolate_component(component, load_settings(settings, *sources, *written))

    return _configure(SettingsSource(load=load, link=lambda loaded: loaded, manage=_manage, path=path))


def _configure(source: SettingsSource) -> RunningConfiguration:
    return RunningConfiguration(source, read_text(source.path) if source.path is not None else None)


def _manage(name: str, settings: Any) -> Any:
    return CATALOG[name].manage(settings)


def _read(types: SettingTypes, path: Path | None, text: bytes | None) -> ConfigurationFile | None:
    return None if path is None or text is None else read_configuration(types, path, text)
