"""PodMetrics of metrics.k8s.io: the current usage of a pod."""

from __future__ import annotations

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import NOTHING, Quantities, Slice, Time


class ContainerMetrics(Slice, frozen=True):
    """One container's usage: `cpu` averaged over the window, `memory` at its end."""

    name: str = ""
    usage: Quantities = NOTHING


class PodMetrics(KubeObject, frozen=True):
    """One pod's usage. `timestamp` ends the window; the same one again is the same sample again.

    Containers that ended within the window may be missing, and init containers, sidecars included, are
    listed like others.
    """

    timestamp: Time | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()
