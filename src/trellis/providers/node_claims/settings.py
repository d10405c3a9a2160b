"""Settings of the provider karpenter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from trellis.base.durations import Duration
from trellis.providers.declared.settings import find_reference_conflict
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings

# Where groups are declared, unless a setting says otherwise.
CLAIM_CONFIG_MAP: Final = "kube-system/trellis-karpenter-node-groups"


class NodeClaimSettings(Settings, frozen=True):
    """Node groups whose machines Karpenter launches."""

    title: ClassVar[str] = "Node provider karpenter"

    karpenter_node_groups: Annotated[
        str,
        Setting(
            "ConfigMap that declares the node groups of NodeClaims, as `namespace/name`.",
            why="Where the manifests have it.",
        ),
    ] = CLAIM_CONFIG_MAP
    karpenter_launch_timeout: Annotated[
        Duration,
        Setting(
            "How long Karpenter may fail to launch a NodeClaim, before the node counts as failed and its group backs "
            "off.",
            why="A short refusal of the cloud passes. Karpenter itself gives up after 5 minutes.",
        ),
    ] = Duration.from_seconds(60)

    def conflicts(self) -> Iterator[SettingConflict]:
        """A ConfigMap has a namespace and a name."""
        yield from find_reference_conflict("karpenter-node-groups", self.karpenter_node_groups)
