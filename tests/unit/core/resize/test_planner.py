"""What is remembered from one look to the next: who is at rest, what was tried, what the hour has left."""

from __future__ import annotations

import msgspec

from support.worlds.resizes import NOW
from support.worlds.workload_state import WEB, CachedWorkload
from trellis.api.kube.nodes import Node
from trellis.core.cluster.write_results import WriteResult as Answer
from trellis.core.resize.actions import EvictPod
from trellis.core.resize.planner import ADMISSION_ABSENT, PlanResult, UpdateMemory, UpdatePlanner, plans_evictions
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult
from trellis.core.resize.state.node_headroom import NodeHeadroom


class PlannedWorkload:
    """A workload of two pods that need more than they have, and somebody who looks at it."""

    def __init__(self, settings: UpdateSettings | None = None) -> None:
        settings = settings or UpdateSettings()
        self.state = CachedWorkload().put_all()
        self.memory = UpdateMemory(self.state.cache, settings)
        self.state.listeners.append(self.memory.mark_changed)
        self.planner = UpdatePlanner(settings, NodeHeadroom(counts_all=False))

    def plan(self, now: float = NOW, *, sized: bool = True) -> PlanResult:
        [planned] = self.memory.filter_evictions(
            self.planner.plan_all(self.memory.build_batch([WEB], now)), is_admission_live=sized
        )
        self.memory.record_plan(planned)
        return planned

    def rests(self) -> bool:
        return self.memory.select_changed([WEB]) == []


def only(planned: PlanResult) -> EvictPod:
    [action] = planned.plan.actions
    assert isinstance(action, EvictPod)
    return action


def test_a_workload_with_actions_does_not_rest() -> None:
    workload = PlannedWorkload()
    only(workload.plan())
    assert not workload.rests()


def test_a_workload_without_actions_rests_until_a_change() -> None:
    workload = PlannedWorkload(UpdateSettings(in_place=False, min_replicas=3))
    assert not workload.rests()
    assert workload.plan().plan.actions == ()
    assert workload.rests()
    workload.state.cache.put_namespace("shop", {"any": "thing"})
    assert not workload.rests()
    workload.plan()
    workload.memory.mark_all_changed()
    assert not workload.rests()


def test_a_pod_that_needs_resources_is_retried_when_nodes_change() -> None:
    workload = PlannedWorkload(UpdateSettings(min_replicas=3))
    workload.plan()
    assert workload.rests()
    workload.state.cache.put_node("n2", msgspec.convert({"status": {"allocatable": {"cpu": "4"}}}, Node))
    assert not workload.rests()


def test_without_an_admission_controller_no_eviction_is_planned() -> None:
    planned = PlannedWorkload().plan(sized=False)
    assert not plans_evictions(planned.plan)
    assert ADMISSION_ABSENT in [verdict.reason for verdict in planned.plan.decisions]
    assert plans_evictions(PlannedWorkload().plan().plan)


def test_the_result_of_an_attempt_is_known_at_the_next_pass_and_dropped_with_the_pod() -> None:
    workload = PlannedWorkload()
    action = only(workload.plan())
    workload.memory.record_results(WEB, [ActionResult(action, Answer.FAILED)], NOW)
    [(_, attempts)] = workload.memory.build_batch([WEB], NOW).workloads
    assert attempts.pods[action.pod.uid].failures == 1
    before = workload.state.snapshot().pods
    gone = next(pod for pod in before if pod.metadata.uid == action.pod.uid)
    workload.state.cache.put_pod((gone.metadata.namespace, gone.metadata.name), gone, None)
    [(_, attempts)] = workload.memory.build_batch([WEB], NOW).workloads
    assert attempts.pods == {}


def test_actions_in_flight_count_for_the_hourly_budget_and_failed_ones_do_not() -> None:
    workload = PlannedWorkload(UpdateSettings(hourly=1))
    action = only(workload.plan())
    assert workload.memory.build_batch([WEB], NOW).ledger.compute_allowance("shop").cluster == 0
    workload.memory.record_action_end(action, NOW, is_applied=False)
    assert workload.memory.build_batch([WEB], NOW).ledger.compute_allowance("shop").cluster == 1
    only(workload.plan())
    workload.memory.record_action_end(action, NOW, is_applied=True)
    assert workload.memory.build_batch([WEB], NOW).ledger.compute_allowance("shop").cluster == 0
    assert workload.memory.build_batch([WEB], NOW + 3601).ledger.compute_allowance("shop").cluster == 1


def test_workloads_with_pending_writes_are_left_out_and_unknown_ones_are_named() -> None:
    workload = PlannedWorkload()
    workload.state.cache.pending_writes.expect_write("uid-web-1-a", "9")
    other = ("shop", "Deployment", "other")
    batch = workload.memory.build_batch([WEB, other], NOW)
    assert batch.workloads == []
    assert batch.unplannable == (other,)


def test_after_a_failed_plan_the_workload_does_not_rest() -> None:
    workload = PlannedWorkload()
    planned = workload.plan()
    workload.memory.mark_all_changed()
    broken = msgspec.structs.replace(planned, plan=msgspec.structs.replace(planned.plan, actions=()), error=OSError())
    workload.memory.record_plan(broken)
    assert not workload.rests()
