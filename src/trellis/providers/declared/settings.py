"""The rule for settings that name a ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.runtime.settings.declarations import SettingConflict


def find_reference_conflict(flag: str, where: str) -> Iterator[SettingConflict]:
    """A conflict if `where` is not the namespace and the name of a ConfigMap."""
    namespace, _, name = where.partition("/")
    if not namespace or not name or "/" in name:
        yield SettingConflict(flag, f'"{where}" must be written as namespace/name')
