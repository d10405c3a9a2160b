"""Loads the settings of a process of several components, from layers: flags, then environment, then the file.

    loaded = load_process({"updater": UpdaterSettings}, flags_layer(...), environment_layer(...), file.layer)
    loaded.process.settings.choice.chosen
    loaded.components["updater"].settings

The first layer with a value wins. Within a layer the value for one component wins over the shared one. A shared setting
without any value has the default of `ProcessSettings`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trellis.base.errors import InvalidInput
from trellis.runtime.manager.settings import ProcessSettings
from trellis.runtime.settings.declarations import Settings, declared_settings
from trellis.runtime.settings.loader import (
    LoadedSettings,
    WrittenValue,
    from_environment,
    from_flags,
    get_setting,
    load_settings,
    replace_settings,
)

SettingTypes = Mapping[str, type[Settings]]


class SettingsLayer(msgspec.Struct, frozen=True):
    """One source: the values that all components share, and those of each component, by setting.

    A strict one has no values for components that do not run.
    """

    shared: Mapping[str, WrittenValue]
    components: Mapping[str, Mapping[str, WrittenValue]]
    is_strict: bool = False


class LoadedProcess(msgspec.Struct, frozen=True):
    """The settings of the process, and those of each component that it runs; `warnings` are about their file."""

    process: LoadedSettings[ProcessSettings]
    components: Mapping[str, LoadedSettings[Any]]
    warnings: tuple[str, ...] = ()


def flags_layer(types: SettingTypes, parameters: Mapping[str, object]) -> SettingsLayer:
    """The values of the command line, from click's parameters."""
    own = {name: from_flags(settings, parameters, name) for name, settings in types.items()}
    return SettingsLayer(from_flags(ProcessSettings, parameters), own, is_strict=True)


def environment_layer(types: SettingTypes, environment: Mapping[str, str]) -> SettingsLayer:
    """The values of environment variables, such as `TRELLIS_UPDATER_MIN_REPLICAS`; a pod may have some for others."""
    own = {name: from_environment(settings, environment, name) for name, settings in types.items()}
    return SettingsLayer(from_environment(ProcessSettings, environment), own)


def load_process(types: SettingTypes, *layers: SettingsLayer, running: Sequence[str] | None = None) -> LoadedProcess:
    """The settings of the chosen components, or of those that are `running`. `types` are those of all components."""
    process = load_settings(ProcessSettings, *(layer.shared for layer in layers))
    chosen = process.settings.choice.chosen
    _refuse_values_for_others(chosen, layers)
    names = chosen if running is None else running
    return LoadedProcess(process, {name: load_component(name, types[name], layers) for name in names})


def load_component(name: str, settings: type[Settings], layers: Sequence[SettingsLayer]) -> LoadedSettings[Any]:
    """The settings of a component of a process of several."""
    sources = [*list_sources(name, layers), list_defaults(settings)]
    return _without_origins_of_defaults(load_settings(settings, *sources), sources[:-1])


def list_sources(name: str, layers: Iterable[SettingsLayer]) -> list[Mapping[str, WrittenValue]]:
    """The values of a component in these layers; the first source that has one wins."""
    return [source for layer in layers for source in (layer.components.get(name, {}), layer.shared)]


def list_defaults(settings: type[Settings]) -> dict[str, WrittenValue]:
    """The defaults of the process that differ from those of a component."""
    own = {declared.name: declared.default for declared in declared_settings(settings)}
    return {
        shared.name: WrittenValue(shared.show(shared.default), f"default of {shared.name} in a process of several")
        for shared in declared_settings(ProcessSettings)
        if shared.name in own and own[shared.name] != shared.default
    }


def _without_origins_of_defaults(
    loaded: LoadedSettings[Any], sources: Iterable[Mapping[str, WrittenValue]]
) -> LoadedSettings[Any]:
    written = {setting for source in sources for setting in source}
    origins = {setting: origin for setting, origin in loaded.origins.items() if setting in written}
    return LoadedSettings(loaded.settings, origins)


def isolate_component(name: str, own: LoadedSettings[Any]) -> LoadedProcess:
    """A process of this component alone: what components share elsewhere has the values of this one."""
    settings: type[Settings] = type(own.settings)
    declared = {setting.name: setting for setting in declared_settings(settings)}
    shared = [setting for setting in declared_settings(ProcessSettings) if setting.name in declared]
    values = {setting.path: get_setting(own.settings, declared[setting.name]) for setting in shared}
    process = replace_settings(ProcessSettings(), {**values, ("choice", "components"): (name,)})
    names = {setting.name for setting in shared}
    origins = {setting: origin for setting, origin in own.origins.items() if setting in names}
    return LoadedProcess(LoadedSettings(process, origins), {name: own})


def _refuse_values_for_others(chosen: Collection[str], layers: Sequence[SettingsLayer]) -> None:
    strict = (layer for layer in layers if layer.is_strict)
    for name, values in (item for layer in strict for item in layer.components.items()):
        if name not in chosen and values:
            written = next(iter(values.values()))
            rule = f"{written.origin}: {name} is not among the components to run, {', '.join(chosen)}"
            raise InvalidInput(written.value, rule)
