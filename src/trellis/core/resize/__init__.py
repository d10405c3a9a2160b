"""Should pods that run change, may they be disturbed now, and in which way?

`plan` is the one decision: it takes what is known of a workload and gives actions as data, one verdict for each pod,
and the time of the next look. Around it, `Gathering` knows the cluster by workload, `Planner` makes plans for many, and
`Memory` keeps what is needed from one look to the next. Nothing here knows how an action reaches the cluster, nor what
time it is.
"""

from trellis.core.model.told import Told
from trellis.core.resize.actions import Action, EvictPod, GroupKey, PodRef, ResizePod, UnmarkPod
from trellis.core.resize.attempts import Attempts, Outcome, fold
from trellis.core.resize.budget import HourlyLeft
from trellis.core.resize.freezing import Freeze, freeze_of
from trellis.core.resize.gathering import Gathered, Gathering
from trellis.core.resize.governed import Workload
from trellis.core.resize.hourly import Disturbed
from trellis.core.resize.hpas import scaled_by
from trellis.core.resize.inplace import Way
from trellis.core.resize.memory import Memory
from trellis.core.resize.plan import Plan, plan
from trellis.core.resize.planning import Batch, Planned, Planner
from trellis.core.resize.rooms import Rooms
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.verdicts import Verdict
from trellis.core.resize.views import PodView, WorkloadView, configured_of
from trellis.core.resize.withheld import evicts, without_evictions

__all__ = [
    "Action",
    "Attempts",
    "Batch",
    "Disturbed",
    "EvictPod",
    "Freeze",
    "Gathered",
    "Gathering",
    "GroupKey",
    "HourlyLeft",
    "HpaConflict",
    "Memory",
    "Outcome",
    "Plan",
    "Planned",
    "Planner",
    "PodRef",
    "PodView",
    "ResizePod",
    "Rooms",
    "Told",
    "UnmarkPod",
    "UpdateSettings",
    "Verdict",
    "Way",
    "Workload",
    "WorkloadView",
    "configured_of",
    "evicts",
    "fold",
    "freeze_of",
    "plan",
    "scaled_by",
    "without_evictions",
]
