"""Which buckets suit a workload, going by how it lived? Proposed with reasons, and with what they would have cost.

`suggest` is the one door. What is proposed is a whole Hvpa as a manifest; what it would have cost is what the rules of
`trellis.core.hvpa` do with it over the same history.
"""

from trellis.core.hvpa.suggesting.laying import Rung
from trellis.core.hvpa.suggesting.lived import LivedHpa, LivedWorkload, SuggestingRules, Usage
from trellis.core.hvpa.suggesting.outcomes import Outcome
from trellis.core.hvpa.suggesting.rungs import FewestBy, LargestBy, Rungs
from trellis.core.hvpa.suggesting.suggest import Suggestion, suggest

__all__ = [
    "FewestBy",
    "LargestBy",
    "LivedHpa",
    "LivedWorkload",
    "Outcome",
    "Rung",
    "Rungs",
    "SuggestingRules",
    "Suggestion",
    "Usage",
    "suggest",
]
