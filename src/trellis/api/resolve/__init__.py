"""What an object means: defaults filled in, aliases read, deprecated spellings replaced.

Whoever needs an effective value asks here and nowhere else, so that webhook, updater, simulator and `explain` never
differ. Nothing here fails on a stored object: a value that a newer version may have written is read in the way that
changes least, and named in `warnings`. Refusing objects is the business of `trellis.api.validate`.
"""

from trellis.api.resolve.boost import Boost, BoostKind
from trellis.api.resolve.buffer import (
    Capacity,
    EffectiveBuffer,
    FixedReplicas,
    GivenPods,
    NodeClassTotals,
    PercentOfReplicas,
    Strategy,
    resolve_buffer,
)
from trellis.api.resolve.hvpa import (
    EffectiveHvpa,
    ReplicaSizing,
    ScaleMode,
    ScalePolicy,
    resolve_hvpa,
    resolve_hvpa_pods,
)
from trellis.api.resolve.recommenders import BUILT_IN_RECOMMENDERS, DEFAULT_RECOMMENDER, selects
from trellis.api.resolve.requirements import Change, Requirement
from trellis.api.resolve.vpa import (
    COUNTED_MODES,
    NO_MODE,
    WRITTEN_MODES,
    ContainerMeaning,
    EffectiveVpa,
    UpdateMode,
    acts,
    resolve_vpa,
)

__all__ = [
    "BUILT_IN_RECOMMENDERS",
    "COUNTED_MODES",
    "DEFAULT_RECOMMENDER",
    "NO_MODE",
    "WRITTEN_MODES",
    "Boost",
    "BoostKind",
    "Capacity",
    "Change",
    "ContainerMeaning",
    "EffectiveBuffer",
    "EffectiveHvpa",
    "EffectiveVpa",
    "FixedReplicas",
    "GivenPods",
    "NodeClassTotals",
    "PercentOfReplicas",
    "ReplicaSizing",
    "Requirement",
    "ScaleMode",
    "ScalePolicy",
    "Strategy",
    "UpdateMode",
    "acts",
    "resolve_buffer",
    "resolve_hvpa",
    "resolve_hvpa_pods",
    "resolve_vpa",
    "selects",
]
