"""What does an Hvpa do to the cluster? Actions as data; the size it decides is in its status."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class SetScale(msgspec.Struct, frozen=True):
    """Write this count to the target's `/scale`."""

    replicas: int


class WriteBack(msgspec.Struct, frozen=True):
    """Write this count to the Hvpa's own `spec.replicas`, where an HPA takes it for what runs."""

    replicas: int


HvpaAction: TypeAlias = SetScale | WriteBack
