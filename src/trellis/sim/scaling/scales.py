"""Whose `/scale` can be read and written? Workloads of the model cluster, and any kind that comes with its own.

scales = Scales(cluster)
scales.register("Hvpa", hvpas)
scale = scales.get("shop", "Hvpa", "web")
scales.put("shop", "Hvpa", "web", 3, version=scale.metadata.resource_version)
"""

from __future__ import annotations

from typing import Protocol

from trellis.api.kube.scaling import Scale
from trellis.core.model.told import Told


class ServesScales(Protocol):
    """Whoever has objects with a scale: the model cluster is one."""

    def scale(self, namespace: str, kind: str, name: str, /) -> Scale | None:
        """None if there is no such object, or nobody has given it a count yet."""

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, /, *, version: str = "") -> Told:
        """Ask for another count; with a `version`, only if the object is still of that one."""


class Scales:
    """Every scale, by whom serves the kind; the workloads' own for all the rest."""

    def __init__(self, workloads: ServesScales) -> None:
        self._workloads = workloads
        self._kinds: dict[str, ServesScales] = {}

    def register(self, kind: str, serves: ServesScales) -> None:
        """Have the scales of a kind served by somebody."""
        self._kinds[kind] = serves

    def get(self, namespace: str, kind: str, name: str) -> Scale | None:
        """What a scale says; None if there is none."""
        return self._kinds.get(kind, self._workloads).scale(namespace, kind, name)

    def put(self, namespace: str, kind: str, name: str, replicas: int, *, version: str = "") -> Told:
        """Ask for another count; with a `version`, only if the object is still of that one."""
        return self._kinds.get(kind, self._workloads).set_scale(namespace, kind, name, replicas, version=version)
