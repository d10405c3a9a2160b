"""The class of `trellis run`: shared flags, and the flags of each component under its name."""

from __future__ import annotations

from typing import Any

from trellis.cli.component import config_option
from trellis.cli.process.help import GroupedHelpCommand
from trellis.runtime.manager.settings import ProcessSettings
from trellis.runtime.settings.declarations import Settings, component_settings
from trellis.runtime.settings.groups import SettingGroup, list_groups


class RunCommand(GroupedHelpCommand):
    """A command that shares flags among components, and has the flags of each, under its name."""

    def __init__(self, *args: Any, settings_by_component: dict[str, type[Settings]], **attributes: Any) -> None:
        own = (list_own_settings(component, settings) for component, settings in settings_by_component.items())
        super().__init__(*args, groups=(*list_groups(ProcessSettings), *own), general=(config_option(),), **attributes)


def list_own_settings(component: str, settings: type[Settings]) -> SettingGroup:
    """What is set for one component alone, without what `ProcessSettings` sets for all."""
    shared = {declared.name for group in list_groups(ProcessSettings) for declared in group.settings}
    own = tuple(
        declared
        for declared in component_settings(settings, component)
        if declared.name not in shared and not declared.setting.obsolete
    )
    return SettingGroup(f"Component {component}", (settings.__doc__ or "").strip(), own)
