"""What is kept for each setting that VPAs have? One thing of a kind, made when a setting is first met.

Most VPAs have the defaults, a few something of their own. If there are more settings at once than anybody should have,
everything is forgotten and made anew: that costs time, and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_MOST: Final = 32

SettingT = TypeVar("SettingT", bound=Hashable)
KeptT = TypeVar("KeptT")


class BySetting(Generic[SettingT, KeptT]):
    """Something for each setting, made by a function of it."""

    def __init__(self, make: Callable[[SettingT], KeptT]) -> None:
        self._make = make
        self._kept: dict[SettingT, KeptT] = {}

    def of(self, setting: SettingT) -> KeptT:
        """What belongs to a setting."""
        if setting not in self._kept:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[setting] = self._make(setting)
        return self._kept[setting]
