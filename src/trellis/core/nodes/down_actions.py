"""What is to be done so that a node goes, or stays after all? Actions as data."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from trellis.api.kube.nodes import Taint


class SetTaints(msgspec.Struct, frozen=True):
    """Give a node these taints and no others, if nobody has changed it since it was seen."""

    node: str
    uid: str
    resource_version: str
    taints: tuple[Taint, ...]


class EvictPod(msgspec.Struct, frozen=True):
    """Ask for a pod to go, disruption budgets permitting. None leaves it its own grace period."""

    node: str
    namespace: str
    name: str
    uid: str
    grace_period_seconds: int | None = None


class ReleaseNode(msgspec.Struct, frozen=True):
    """Give an instance back to its group: nothing runs on its node any more that is worth keeping."""

    node: str
    group: str
    instance: str


DownAction: TypeAlias = SetTaints | EvictPod | ReleaseNode
