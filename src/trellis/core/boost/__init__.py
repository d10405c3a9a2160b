"""CPU startup boost: how much more CPU a pod has while it starts, until when, and what it has afterwards.

`boosted_size` computes the boost at creation, `annotation` records what the container had before, `phases` decides
when the boost is over, and `unboosted_size` computes what the container goes back to. Admission boosts and the updater
unboosts. A pod is boosted when it is created and at no other time: no function here boosts a running pod.
"""

from trellis.core.boost.annotation import (
    PreBoostResources,
    annotation_key,
    is_boosted,
    read_pre_boost_resources,
    restore_pre_boost_shape,
)
from trellis.core.boost.boosted_size import BoostedContainer, BoostNote, BoostSettings, CpuCeiling, PodBoost, boost_pod
from trellis.core.boost.phases import BoostPhase, ContainerBoostPhase, PodBoostPhases, determine_boost_phases
from trellis.core.boost.unboosted_size import UnboostedContainer, unboost_containers

__all__ = [
    "BoostNote",
    "BoostPhase",
    "BoostSettings",
    "BoostedContainer",
    "ContainerBoostPhase",
    "CpuCeiling",
    "PodBoost",
    "PodBoostPhases",
    "PreBoostResources",
    "UnboostedContainer",
    "annotation_key",
    "boost_pod",
    "determine_boost_phases",
    "is_boosted",
    "read_pre_boost_resources",
    "restore_pre_boost_shape",
    "unboost_containers",
]
