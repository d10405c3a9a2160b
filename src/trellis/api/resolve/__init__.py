"""The effective meaning of an object: defaults filled in, aliases read, deprecated spellings replaced.

Every component takes effective values from here, so that webhook, updater, simulator and `explain` never differ.
Nothing here fails on a stored object: an unknown value, which a newer version may have written, is read in the way
that changes least, and listed in `warnings`. Validation refuses objects.
"""

from trellis.api.resolve.buffer import (
    Capacity,
    EffectiveBuffer,
    FixedPods,
    FixedReplicas,
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
from trellis.api.resolve.vpa import (
    BUILT_IN_RECOMMENDERS,
    COUNTED_MODES,
    DEFAULT_RECOMMENDER,
    NO_MODE,
    WRITTEN_MODES,
    Boost,
    BoostKind,
    ChangeRequirement,
    EffectiveContainerPolicy,
    EffectiveRequirement,
    EffectiveVpa,
    UpdateMode,
    is_applied_to_pods,
    resolve_vpa,
    selects_recommender,
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
    "ChangeRequirement",
    "EffectiveBuffer",
    "EffectiveContainerPolicy",
    "EffectiveHvpa",
    "EffectiveRequirement",
    "EffectiveVpa",
    "FixedPods",
    "FixedReplicas",
    "NodeClassTotals",
    "PercentOfReplicas",
    "ReplicaSizing",
    "ScaleMode",
    "ScalePolicy",
    "Strategy",
    "UpdateMode",
    "is_applied_to_pods",
    "resolve_buffer",
    "resolve_hvpa",
    "resolve_hvpa_pods",
    "resolve_vpa",
    "selects_recommender",
]
