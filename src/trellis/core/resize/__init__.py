"""Should pods that run change, may they be disturbed now, and in which way?

`plan` is the one decision: it takes what is known of a workload and gives actions as data, one verdict for each pod,
and the time of the next look. `screen` picks the workloads for which a plan is worth making. Nothing here knows how an
action reaches the cluster, nor what time it is.
"""

from trellis.core.resize.actions import Action, EvictPod, GroupKey, PodRef, ResizePod, UnmarkPod
from trellis.core.resize.attempts import Attempts, Outcome, Told, fold
from trellis.core.resize.budget import HourlyLeft
from trellis.core.resize.freezing import Freeze, freeze_of
from trellis.core.resize.hourly import Disturbed
from trellis.core.resize.hpas import scaled_by
from trellis.core.resize.inplace import Way
from trellis.core.resize.plan import Plan, plan
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.verdicts import Verdict
from trellis.core.resize.views import PodView, WorkloadView, configured_of

__all__ = [
    "Action",
    "Attempts",
    "Disturbed",
    "EvictPod",
    "Freeze",
    "GroupKey",
    "HourlyLeft",
    "HpaConflict",
    "Outcome",
    "Plan",
    "PodRef",
    "PodView",
    "ResizePod",
    "Told",
    "UnmarkPod",
    "UpdateSettings",
    "Verdict",
    "Way",
    "WorkloadView",
    "configured_of",
    "fold",
    "freeze_of",
    "plan",
    "scaled_by",
]
