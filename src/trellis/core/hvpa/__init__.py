"""How many replicas is a workload to have, and how big is each? Decided together, by buckets.

`plan` is the one decision: it takes what is known of an Hvpa and its workload, and gives actions as data, the size to
publish, one verdict, what to remember and the time of the next look. Nothing here knows how an action reaches the
cluster, nor what time it is.
"""

from trellis.core.hvpa.actions import HvpaAction, SetScale, WriteBack
from trellis.core.hvpa.hpas import read_hpa
from trellis.core.hvpa.ladders import Ladder, Ladders
from trellis.core.hvpa.memory import Decision, Memory, unwritten
from trellis.core.hvpa.plan import Plan, Verdict, plan
from trellis.core.hvpa.settings import HvpaSettings
from trellis.core.hvpa.status import blocked_of, hpa_demand_of, recalled, recommendation_of
from trellis.core.hvpa.steps import Blocked, Direction, Shape
from trellis.core.hvpa.views import ContainerView, HpaView, Meaning, View
from trellis.core.hvpa.yielding import yields_to

__all__ = [
    "Blocked",
    "ContainerView",
    "Decision",
    "Direction",
    "HpaView",
    "HvpaAction",
    "HvpaSettings",
    "Ladder",
    "Ladders",
    "Meaning",
    "Memory",
    "Plan",
    "SetScale",
    "Shape",
    "Verdict",
    "View",
    "WriteBack",
    "blocked_of",
    "hpa_demand_of",
    "plan",
    "read_hpa",
    "recalled",
    "recommendation_of",
    "unwritten",
    "yields_to",
]
