"""The updater's decisions: which running pods change, in which way, and whether they may be disrupted now.

`plan` is the one decision: it takes the view of a workload and returns actions as data, one decision for each pod, and
the time of the next plan. `planner` makes plans for many workloads. `state` holds the cluster state by workload, and
the results of earlier attempts. Actions are executed elsewhere, and `now` is an argument.
"""

from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import (
    Action,
    ControllerKey,
    DecisionKind,
    EvictPod,
    PodDecision,
    PodRef,
    ResizePod,
    UnmarkPod,
)
from trellis.core.resize.disruption_budget import HourlyAllowance, RecentDisruptions
from trellis.core.resize.freeze import Freeze, find_freeze
from trellis.core.resize.plan import UpdatePlan, plan_updates
from trellis.core.resize.planner import (
    PlanningBatch,
    PlanResult,
    UpdateMemory,
    UpdatePlanner,
    plans_evictions,
    withhold_evictions,
)
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.state.attempts import ActionResult, WorkloadAttempts, record_result
from trellis.core.resize.state.indexes import WorkloadKey, find_utilization_resources
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.resize.view import PodView, WorkloadView, read_configured_replicas

__all__ = [
    "Action",
    "ActionResult",
    "ControllerKey",
    "DecisionKind",
    "EvictPod",
    "Freeze",
    "HourlyAllowance",
    "HpaConflict",
    "NodeHeadroom",
    "PlanResult",
    "PlanningBatch",
    "PodDecision",
    "PodRef",
    "PodView",
    "RecentDisruptions",
    "ResizePod",
    "UnmarkPod",
    "UpdateMemory",
    "UpdatePlan",
    "UpdatePlanner",
    "UpdateSettings",
    "WorkloadAttempts",
    "WorkloadCache",
    "WorkloadKey",
    "WorkloadSnapshot",
    "WorkloadView",
    "WriteResult",
    "find_freeze",
    "find_utilization_resources",
    "plan_updates",
    "plans_evictions",
    "read_configured_replicas",
    "record_result",
    "withhold_evictions",
]
