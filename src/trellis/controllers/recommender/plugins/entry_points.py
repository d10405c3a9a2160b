"""Finds recommenders that installed packages announce as entry points.

A package announces a recommender in its `pyproject.toml`; the object named there is called without arguments and
returns one:

    [project.entry-points."trellis.recommenders"]
    peak-of-week = "trellis_peak_of_week:PeakOfWeek"

Only the announcements are read here. A worker process imports what they name, and only when it is used.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

import msgspec

ENTRY_POINTS: Final = "trellis.recommenders"


class RecommenderPlugin(msgspec.Struct, frozen=True, order=True):
    """An entry point: the name of the recommender, its value, and the package that has it."""

    name: str
    value: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def find_plugins() -> dict[str, tuple[RecommenderPlugin, ...]]:
    """All entry points by name; several packages may have the same name."""
    plugins_by_name: dict[str, set[RecommenderPlugin]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown package", "")
        plugins_by_name.setdefault(entry.name, set()).add(RecommenderPlugin(entry.name, entry.value, package, version))
    return {name: tuple(sorted(plugins)) for name, plugins in sorted(plugins_by_name.items())}
