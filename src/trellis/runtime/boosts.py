"""Do pods start boosted in this cluster, and with how much at most? As flags and API server have it, for everybody."""

from __future__ import annotations

from trellis.api.gates import Gates
from trellis.base.quantity import Quantity
from trellis.core.boost.raising import BoostSettings
from trellis.kube.served import Served


def why_not_millicores(found: Quantity) -> str | None:
    """What is wrong with an amount of CPU in a flag: it is counted in whole millicores."""
    return None if found.is_whole_milli else "must be a whole number of milli CPUs"


def boosts_in_force(gates: Gates, most: Quantity | None, served: Served) -> BoostSettings:
    """Whether pods are boosted: a boost that could not be taken back would last for the pod's life."""
    enabled = gates.cpu_startup_boost and served.resizes_pods
    return BoostSettings(enabled=enabled, max_cpu=most.milli if most is not None else None)
