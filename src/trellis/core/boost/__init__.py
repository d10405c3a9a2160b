"""How much more CPU does a pod have while it starts, until when, and what then?

`raising` says how much, `memory` what was there before, `phases` until when, and `lowering` what then. Admission
raises, the updater lowers; nothing here knows how either reaches a pod. Boosts are made when a pod is created and at no
other time, so that nothing here could boost a pod that runs.
"""

from trellis.core.boost.lowering import Lowered, lowered
from trellis.core.boost.memory import Remembered, before_boost, is_boosted, memory_key, read_memory
from trellis.core.boost.notes import BoostNote
from trellis.core.boost.phases import ContainerPhase, Phase, PodPhases, boost_phases
from trellis.core.boost.raising import BoostSettings, CpuCeiling, PodBoost, Raised, boost_pod, is_resizable

__all__ = [
    "BoostNote",
    "BoostSettings",
    "ContainerPhase",
    "CpuCeiling",
    "Lowered",
    "Phase",
    "PodBoost",
    "PodPhases",
    "Raised",
    "Remembered",
    "before_boost",
    "boost_phases",
    "boost_pod",
    "is_boosted",
    "is_resizable",
    "lowered",
    "memory_key",
    "read_memory",
]
