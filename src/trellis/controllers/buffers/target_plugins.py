"""Which kinds of targets do other packages know? Those that they announce as entry points.

A package announces a kind in its `pyproject.toml`; what stands there is called without arguments and gives a
`TargetKind`:

    [project.entry-points."trellis.buffer_targets"]
    game-server-set = "trellis_game_servers:GameServerSets"

One that cannot be loaded is logged and left out, and so is a second one for the same kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias

from trellis.core.buffers import TargetKind
from trellis.runtime.logs import Logger

ENTRY_POINTS: Final = "trellis.buffer_targets"

# Group and kind: people write any version that the kind ever had.
GroupKind: TypeAlias = tuple[str, str]

_log: Final = Logger("trellis.buffers")


def installed_targets(announced: Iterable[EntryPoint] | None = None) -> dict[GroupKind, TargetKind]:
    """The kinds that can be read, in the order of their announcements' names."""
    entries = entry_points(group=ENTRY_POINTS) if announced is None else announced
    found: dict[GroupKind, TargetKind] = {}
    for entry in sorted(entries, key=lambda each: (each.name, each.value)):
        try:
            kind = entry.load()()
        except Exception as error:  # noqa: BLE001 - somebody else's code must not keep all other Buffers waiting
            _log.error("a kind of targets cannot be loaded", name=entry.name, value=entry.value, error=error)
            continue
        if not isinstance(kind, TargetKind) or not all((kind.api_version, kind.kind, kind.plural)):
            _log.error("what is announced is no kind of targets", name=entry.name, value=entry.value)
            continue
        about = group_kind(kind.api_version, kind.kind)
        if about in found:
            _log.error("a kind of targets is announced twice", name=entry.name, value=entry.value, kind=kind.kind)
            continue
        _log.info("a kind of targets is known", name=entry.name, kind=kind.kind, api_version=kind.api_version)
        found[about] = kind
    return found


def group_kind(api_version: str, kind: str) -> GroupKind:
    """The group of an `apiVersion`, and the kind."""
    return api_version.rpartition("/")[0], kind
