"""The groups in which help and reference show the settings of a component."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.errors import InternalError
from trellis.runtime.settings.declarations import SettingDeclaration, Settings, declared_settings

MOST_USED: Final = "Most used"
COMPATIBILITY: Final = "Compatibility with upstream"
NO_EFFECT: Final = "Accepted so that upstream's manifests start Trellis; without effect."


class SettingGroup(msgspec.Struct, frozen=True):
    """Settings that are shown together; those of an `obsolete` group have no effect."""

    title: str
    meaning: str
    settings: tuple[SettingDeclaration, ...]
    obsolete: bool = False


def list_groups(settings: type[Settings]) -> tuple[SettingGroup, ...]:
    """The most used settings, then the others in the order of declaration, then those without effect.

    Each setting is in one group.
    """
    declared = declared_settings(settings)
    by_name = {setting.name: setting for setting in declared}
    unknown = [name for name in settings.most_used if name not in by_name]
    if unknown:
        raise InternalError(f"{settings.__name__} does not declare {', '.join(unknown)}")
    most_used = tuple(by_name[name] for name in settings.most_used)
    by_owner: dict[type[Settings], list[SettingDeclaration]] = {}
    for setting in declared:
        if setting not in most_used and not setting.setting.obsolete:
            by_owner.setdefault(_owner(settings(), setting), []).append(setting)
    groups = [
        SettingGroup(MOST_USED, "The settings to know first.", most_used),
        *(SettingGroup(owner.title, (owner.__doc__ or "").strip(), tuple(own)) for owner, own in by_owner.items()),
        SettingGroup(
            COMPATIBILITY, NO_EFFECT, tuple(setting for setting in declared if setting.setting.obsolete), obsolete=True
        ),
    ]
    return tuple(group for group in groups if group.settings)


def _owner(settings: Settings, setting: SettingDeclaration) -> type[Settings]:
    """The struct that declares the setting."""
    owner = settings
    for step in setting.path[:-1]:
        owner = getattr(owner, step)
    return type(owner)
