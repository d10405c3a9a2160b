"""Settings of the provider kwok."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from trellis.providers.declared.settings import find_reference_conflict
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings

# Where groups are declared, unless a setting says otherwise.
CONFIG_MAP: Final = "kube-system/trellis-kwok-node-groups"


class KwokSettings(Settings, frozen=True):
    """Node groups of kwok."""

    title: ClassVar[str] = "Node provider kwok"

    kwok_node_groups: Annotated[
        str,
        Setting(
            "ConfigMap that declares the node groups of kwok, as `namespace/name`.", why="Where the manifests have it."
        ),
    ] = CONFIG_MAP

    def conflicts(self) -> Iterator[SettingConflict]:
        """A ConfigMap has a namespace and a name."""
        yield from find_reference_conflict("kwok-node-groups", self.kwok_node_groups)
