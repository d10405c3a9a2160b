"""Decides how many replicas a workload has and how big each of them is, both together, by the buckets of its Hvpa.

`plan` is the one decision: it takes the view of an Hvpa and its workload, and returns actions as data, the size to
publish, the reason, what to remember and the time of the next pass. Nothing here knows how an action reaches the
cluster, nor what time it is.

`view_builder` assembles the view, `demand` turns it into totals, `ladder` holds the buckets, `next_step` picks count
and size, and `status` is what is published.
"""

from trellis.core.hvpa.autoscalers import find_conflict_reason
from trellis.core.hvpa.ladder import Ladder, Ladders
from trellis.core.hvpa.plan import HvpaAction, HvpaPlan, HvpaPlanSummary, SetScale, WriteBack, plan_hvpa
from trellis.core.hvpa.remembered_state import HvpaDecision, HvpaMemory, forget_written_replicas
from trellis.core.hvpa.status import build_blocked_steps, build_hpa_demand, build_recommendation, restore_memory
from trellis.core.hvpa.steps import HeldStep, StepDirection, WorkloadShape
from trellis.core.hvpa.view import ContainerView, HpaView, HvpaSettings, HvpaView, ResolvedHvpa
from trellis.core.hvpa.view_builder import read_hpa

__all__ = [
    "ContainerView",
    "HeldStep",
    "HpaView",
    "HvpaAction",
    "HvpaDecision",
    "HvpaMemory",
    "HvpaPlan",
    "HvpaPlanSummary",
    "HvpaSettings",
    "HvpaView",
    "Ladder",
    "Ladders",
    "ResolvedHvpa",
    "SetScale",
    "StepDirection",
    "WorkloadShape",
    "WriteBack",
    "build_blocked_steps",
    "build_hpa_demand",
    "build_recommendation",
    "find_conflict_reason",
    "forget_written_replicas",
    "plan_hvpa",
    "read_hpa",
    "restore_memory",
]
