"""What a changed configuration file changes in a process that runs.

A setting that needs a restart of the process keeps its value until then. Of the others, those of a component restart
that component, and those of the process that are applied at once are read by the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trellis.base.errors import InvalidInput
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.settings.declarations import Reload, SettingDeclaration, Settings, declared_settings
from trellis.runtime.settings.loader import LoadedSettings, find_conflicts, get_setting, replace_settings


class PendingChange(msgspec.Struct, frozen=True):
    """A setting that keeps its value until the process restarts, and the value that it has then.

    `component` is empty for a setting of the process.
    """

    component: str
    declared: SettingDeclaration
    value: Any

    @property
    def field(self) -> str:
        """The field as messages name it: `address`, or `admission.port`."""
        return f"{self.component}.{self.declared.field}" if self.component else self.declared.field


def keep_until_restart(current: LoadedProcess, new: LoadedProcess) -> tuple[LoadedProcess, tuple[PendingChange, ...]]:
    """The new settings as far as they can be applied, and those that cannot.

    Raises `InvalidInput` if the new ones do not go together with those that are kept.
    """
    process, pending = _keep("", current.process, new.process)
    components: dict[str, LoadedSettings[Any]] = {}
    for name, own in new.components.items():
        components[name], more = _keep(name, current.components[name], own)
        pending += more
    return LoadedProcess(process, components), tuple(pending)


def find_changed_components(before: LoadedProcess, after: LoadedProcess) -> tuple[str, ...]:
    """The components that must restart to have their settings."""
    return tuple(
        name
        for name, own in after.components.items()
        if any(_find_differences(before.components[name].settings, own.settings, Reload.RESTART_OF_COMPONENT))
    )


def replace_component(loaded: LoadedProcess, name: str, own: LoadedSettings[Any]) -> LoadedProcess:
    """The settings with those of one component replaced."""
    return LoadedProcess(loaded.process, {**loaded.components, name: own})


def _keep(
    component: str, current: LoadedSettings[Any], new: LoadedSettings[Any]
) -> tuple[LoadedSettings[Any], list[PendingChange]]:
    kept = list(_find_differences(current.settings, new.settings, Reload.RESTART_OF_PROCESS))
    if not kept:
        return new, []
    values = {declared.path: get_setting(current.settings, declared) for declared in kept}
    settings = replace_settings(new.settings, values)
    for declared, rule in find_conflicts(settings):
        names = ", ".join(other.field for other in kept)
        why = f"{rule}; the change takes effect only together with {names}, which a restart of the process applies"
        raise InvalidInput(declared.show(get_setting(settings, declared)), f"{declared.field}: {why}")
    # What all components of a process have in common is reported once, for the process.
    pending = [
        PendingChange(component, declared, get_setting(new.settings, declared))
        for declared in kept
        if not (component and declared.setting.of_process)
    ]
    return LoadedSettings(settings, _keep_origins(kept, current.origins, new.origins)), pending


def _find_differences(before: Any, after: Any, reload: Reload) -> Iterator[SettingDeclaration]:
    settings: type[Settings] = type(after)
    for declared in declared_settings(settings):
        if declared.reload is reload and get_setting(before, declared) != get_setting(after, declared):
            yield declared


def _keep_origins(
    kept: list[SettingDeclaration], current: Mapping[str, str], new: Mapping[str, str]
) -> Mapping[str, str]:
    names = {declared.name for declared in kept}
    others = {name: origin for name, origin in new.items() if name not in names}
    return others | {name: origin for name, origin in current.items() if name in names}
