"""The components that a process can run: where their settings and their composition are.

They are imported only when asked for: a process that runs two components holds no code of the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trellis.runtime.manager.settings import ADMISSION, BUFFERS, COMPONENTS, HVPA, NODES, RECOMMENDER, UPDATER

if TYPE_CHECKING:
    from trellis.runtime.manager.supervisor import ManagedComponent
    from trellis.runtime.settings.declarations import Settings


class ComponentEntry(msgspec.Struct, frozen=True):
    """A component: the command that runs it alone, and the name of its settings."""

    name: str
    command: str
    settings: str

    def import_settings(self) -> type[Settings]:
        """The struct of its settings."""
        module = importlib.import_module(f"trellis.controllers.{self.name}.settings")
        settings: type[Settings] = getattr(module, self.settings)
        return settings

    def manage(self, settings: Any) -> ManagedComponent:
        """The component with these settings, as a process of several runs it."""
        module = importlib.import_module(f"trellis.controllers.{self.name}.process")
        managed: ManagedComponent = getattr(module, f"manage_{self.name}")(settings)
        return managed


_ENTRIES: Final = (
    ComponentEntry(RECOMMENDER, "recommender", "RecommenderSettings"),
    ComponentEntry(ADMISSION, "admission-controller", "AdmissionSettings"),
    ComponentEntry(UPDATER, "updater", "UpdaterSettings"),
    ComponentEntry(HVPA, "hvpa", "HvpaControllerSettings"),
    ComponentEntry(BUFFERS, "buffers", "BufferControllerSettings"),
    ComponentEntry(NODES, "nodes", "NodeControllerSettings"),
)
CATALOG: Final = {entry.name: entry for entry in _ENTRIES}
assert tuple(CATALOG) == COMPONENTS  # noqa: S101 -- the order of help and of `--components`


def find_component(command: str) -> str:
    """The component that a command runs alone."""
    return next(entry.name for entry in _ENTRIES if entry.command == command)


def import_all_settings() -> dict[str, type[Settings]]:
    """The settings of every component, by its name."""
    return {name: entry.import_settings() for name, entry in CATALOG.items()}
