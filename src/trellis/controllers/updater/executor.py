"""Executes plans: the actions of a pod in their order, all pods concurrently, each result kept for the next plan.

Right before a write, the state is compared with the one the plan was made from. An action is dropped, and a new plan
made, if the workload was frozen in the meantime, if its governor changed, or if a pod that the disruption budget
counted on is gone.

Writes wait in a priority queue. The end of a boost goes first: a boost costs CPU for as long as it lasts, and an
eviction that waits a few seconds harms nothing. A workload that exceeds `--eviction-rate-limit` is planned again when
its write may go next, because its plan may be minutes old by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from enum import IntEnum
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.pods import READY, Pod
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.metrics import UpdaterMetrics
from trellis.controllers.updater.state import StateFeed
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION
from trellis.core.resize import actions as core
from trellis.core.resize.actions import PodDecision
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.planner import PlanResult, UpdateMemory
from trellis.core.resize.state.attempts import ActionResult, find_requeue_delay
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.sizing.governors import Governor
from trellis.kube.flow_control import Rate, TokenBucket
from trellis.kube.resources import PODS
from trellis.kube.write import outcomes as kube
from trellis.kube.write.actions import Action, CreateEviction, PatchObject, PatchResize, Target
from trellis.kube.write.patches import json_patch, merge_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.logs import Logger

WriteJob: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class WritePriority(IntEnum):
    """Who goes first."""

    UNBOOST = 0
    RESIZE = 1
    EVICT = 2


class WriteQueue:
    """A priority queue of jobs, and its workers. `run` in a task of its own. A job raises nothing."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._waiting: asyncio.PriorityQueue[tuple[int, int, WriteJob]] = asyncio.PriorityQueue()
        self._numbers = count()
        self._closed = False

    def __len__(self) -> int:
        return self._waiting.qsize()

    def add(self, priority: WritePriority, job: WriteJob) -> None:
        """Add a job with this priority."""
        self._waiting.put_nowait((priority, next(self._numbers), job))

    async def run(self) -> None:
        """Run jobs until the queue is closed, and then finish those that have started."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"write-{number}")

    def close(self) -> None:
        """Start no further job."""
        self._closed = True
        for _ in range(self._workers):
            self._waiting.put_nowait((-1, next(self._numbers), _no_job))

    async def _work(self) -> None:
        while not self._closed:
            _, _, job = await self._waiting.get()
            if not self._closed:
                await job()


async def _no_job() -> None:
    return


class WriteRateLimiter:
    """Limits writes to a rate. `call` is called with a workload whose write may go next."""

    def __init__(self, rate: Rate, on_admitted: Callable[[WorkloadKey], None]) -> None:
        self._rate = rate
        self._on_admitted = on_admitted
        self._bucket = TokenBucket(rate, _clock())
        self._waiting: dict[WorkloadKey, None] = {}
        self._admitted: dict[WorkloadKey, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def set_rate(self, rate: Rate) -> None:
        """Limit to another rate from now on."""
        if rate != self._rate:
            self._rate, self._bucket = rate, TokenBucket(rate, _clock())

    def admit(self, workload: WorkloadKey) -> bool:
        """Whether one pod of a workload may be changed now; if not, the workload will be called."""
        if workload in self._admitted:
            del self._admitted[workload]
            return True
        if not self._waiting and self._bucket.try_take(_clock()):
            return True
        self._waiting[workload] = None
        self._arm()
        return False

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0 / self._rate.per_second, self._next)

    def _next(self) -> None:
        self._timer = None
        while self._waiting and self._bucket.try_take(_clock()):
            workload = next(iter(self._waiting))
            del self._waiting[workload]
            self._admitted[workload] = None
            self._on_admitted(workload)
        if self._waiting:
            self._arm()


def _clock() -> float:
    return asyncio.get_running_loop().time()


def find_staleness(
    state: StateFeed, snapshot: WorkloadSnapshot, uid: str, now: float, *, ignored: Collection[str]
) -> str | None:
    """Why an action on a pod must not be executed any more, if so; changes of `ignored` pods beside it do not count."""
    cache = state.cache
    governor, frozen = _current_governor(cache, snapshot, now)
    if governor is not snapshot.governor:
        return "the object that governs the pod changed"
    if frozen is not None:
        return str(frozen)
    for pod in snapshot.pods:
        is_target = pod.metadata.uid == uid
        if is_target or pod.metadata.uid not in ignored:
            current = state.get_pod(pod.metadata.namespace, pod.metadata.name)
            current = cache.pending_writes.apply_to(current, now) if current is not None else None
            if _readiness(current) != _readiness(pod):
                return "the pod changed" if is_target else f"pod {pod.metadata.name} of the same workload changed"
    return None


def _current_governor(
    cache: WorkloadCache, snapshot: WorkloadSnapshot, now: float
) -> tuple[Governor | None, Freeze | None]:
    """What governs the workload now, and what freezes it."""
    if not snapshot.governor.is_object:
        current = cache.build_snapshot(snapshot.workload, now)
        return (current.governor, current.freeze) if current is not None else (None, None)
    governing = cache.governors.find(snapshot.workload)
    if governing is None:
        return None, None
    return governing.governor, cache.find_freeze(snapshot.workload[0], governing)


def _readiness(pod: Pod | None) -> tuple[str, str, str]:
    """What disruption budgets count of a pod; one that is being deleted counts as gone."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return "", "", ""
    ready = pod.status.find_condition(READY)
    return pod.metadata.uid, pod.status.phase, ready.status if ready else ""


# By then the watch has shown an eviction without an answer, if it was carried out.
_UNCERTAIN_SECONDS: Final = 30.0
_FAILED_SECONDS: Final = 30.0

_log: Final = Logger("trellis.updater")


class UpdatePlanResult(msgspec.Struct, frozen=True):
    """The results of a plan; `retry_in` is in how many seconds to plan again, None if only after a change."""

    workload: WorkloadKey
    results: tuple[ActionResult, ...]
    retry_in: float | None


OnExecuted: TypeAlias = Callable[[UpdatePlanResult], None]


class _PlanExecution:
    """A plan that is being executed. `open_pods` counts the pods whose actions have not ended."""

    def __init__(self, planned: PlanResult, pods: int, on_executed: OnExecuted) -> None:
        self.snapshot: WorkloadSnapshot = planned.snapshot
        self.pods_with_actions = frozenset(action.pod.uid for action in planned.plan.actions)
        self.decisions = {decision.pod.uid: decision for decision in planned.plan.decisions}
        self.results: list[ActionResult] = []
        self.delays: list[float] = []
        self.open_pods = pods
        self.on_executed = on_executed


class UpdateExecutor:
    """Executes plans. `requeue` is called with a workload that is to be planned for again."""

    def __init__(
        self,
        writer: Writer,
        state: StateFeed,
        queue: WriteQueue,
        *,
        memory: UpdateMemory,
        events: UpdaterEvents,
        counters: UpdaterMetrics,
        rate: Rate | None,
        now: Callable[[], float],
        requeue: Callable[[WorkloadKey], None],
    ) -> None:
        self._writer = writer
        self._state = state
        self._queue = queue
        self._memory = memory
        self._events = events
        self._counters = counters
        self._now = now
        self._requeue = requeue
        # As upstream: evictions and resizes have the same rate, each for itself.
        limited = (WritePriority.EVICT, WritePriority.RESIZE) if rate is not None else ()
        self._limiters = {priority: WriteRateLimiter(rate, requeue) for priority in limited if rate is not None}

    def set_rate(self, rate: Rate) -> None:
        """Limit evictions, and resizes, to another rate; without a limit at the start there is none."""
        for limiter in self._limiters.values():
            limiter.set_rate(rate)

    def execute(self, planned: PlanResult, on_executed: OnExecuted) -> None:
        """Start to execute a plan that has actions; `on_executed` is called with the results when all have ended."""
        by_pod: dict[str, list[core.Action]] = {}
        for action in planned.plan.actions:
            by_pod.setdefault(action.pod.uid, []).append(action)
        execution = _PlanExecution(planned, len(by_pod), on_executed)
        for actions in by_pod.values():
            priority = min(map(_priority, actions))
            limiter = self._limiters.get(priority)
            if limiter is None or limiter.admit(planned.snapshot.workload):
                self._queue.add(priority, partial(self._run, execution, actions))
            else:
                self._drop(execution, actions)

    def _drop(self, execution: _PlanExecution, actions: Sequence[core.Action]) -> None:
        """The rate is used up: another plan will be made of what is known then."""
        for action in actions:
            self._memory.record_action_end(action, self._now(), is_applied=False)
        # Not before the caller is done with this plan.
        asyncio.get_running_loop().call_soon(self._close, execution)

    async def _run(self, execution: _PlanExecution, actions: Sequence[core.Action]) -> None:
        try:
            for action in actions:
                await self._execute(execution, action)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the writes of others
            _log.error("executing an action failed", pod=actions[0].pod.name, error=error)
            execution.delays.append(_FAILED_SECONDS)
        finally:
            self._close(execution)

    def _close(self, execution: _PlanExecution) -> None:
        execution.open_pods -= 1
        if not execution.open_pods:
            snapshot, results = execution.snapshot, execution.results
            self._events.record_refusals(snapshot.governor, results)
            retry_in = min(execution.delays) if execution.delays else None
            execution.on_executed(UpdatePlanResult(snapshot.workload, tuple(results), retry_in))

    async def _execute(self, execution: _PlanExecution, action: core.Action) -> None:
        snapshot = execution.snapshot
        # What ends a boost is right whatever has become of the pods beside it.
        ignored = {pod.metadata.uid for pod in snapshot.pods} if _ends_boost(action) else execution.pods_with_actions
        stale_reason = find_staleness(self._state, snapshot, action.pod.uid, self._now(), ignored=ignored)
        if stale_reason is not None:
            self._events.log_outdated(snapshot.governor, action, stale_reason)
            self._counters.count_outdated()
            self._memory.record_action_end(action, self._now(), is_applied=False)
            execution.delays.append(0.0)
            return
        began = asyncio.get_running_loop().time()
        outcome = await self._writer.write(_to_kube_action(action))
        now = self._now()
        self._memory.record_action_end(action, now, is_applied=outcome.applied)
        self._expect_write(snapshot.workload, action, outcome, now)
        decision: PodDecision | None = execution.decisions.get(action.pod.uid)
        self._events.record_execution(snapshot.governor, action, decision, outcome)
        self._counters.observe_execution(snapshot, action, outcome, asyncio.get_running_loop().time() - began)
        execution.results.append(ActionResult(action, outcome.result, outcome.retry_after, outcome.message))
        if (delay := find_requeue_delay(outcome.result)) is not None:
            execution.delays.append(delay)
        if outcome.applied and isinstance(action, core.ResizePod) and not action.unboosts:
            await self._annotate_resized(action)

    def _expect_write(self, workload: WorkloadKey, action: core.Action, outcome: kube.WriteOutcome, now: float) -> None:
        """Keep what was written until the watch shows it."""
        pending = self._state.cache.pending_writes
        if isinstance(action, core.EvictPod):
            if outcome.applied:
                pending.expect_eviction(action.pod.uid)
            elif outcome.uncertain:
                pending.expect_eviction(action.pod.uid, now + _UNCERTAIN_SECONDS)
                # If it was not carried out nothing changes, and no watch would enqueue the workload.
                asyncio.get_running_loop().call_later(_UNCERTAIN_SECONDS, self._requeue, workload)
        elif outcome.applied:
            pending.expect_write(action.pod.uid, outcome.resource_version)

    async def _annotate_resized(self, action: core.ResizePod) -> None:
        """Set upstream's annotation on a pod that was resized; if that fails, the pod is resized all the same."""
        pod = self._state.get_pod(action.pod.namespace, action.pod.name)
        if pod is not None and IN_PLACE_UPDATED_ANNOTATION in pod.metadata.annotations:
            return
        patch = merge_patch({"metadata": {"annotations": {IN_PLACE_UPDATED_ANNOTATION: "true"}}})
        outcome = await self._writer.write(PatchObject(_target(action), patch))
        if outcome.applied:
            self._state.cache.pending_writes.expect_write(action.pod.uid, outcome.resource_version)


def _priority(action: core.Action) -> WritePriority:
    if _ends_boost(action):
        return WritePriority.UNBOOST
    return WritePriority.EVICT if isinstance(action, core.EvictPod) else WritePriority.RESIZE


def _ends_boost(action: core.Action) -> bool:
    return isinstance(action, core.UnmarkPod) or (isinstance(action, core.ResizePod) and action.unboosts)


def _target(action: core.Action) -> Target:
    return Target(PODS, action.pod.name, action.pod.namespace, action.pod.uid)


def _to_kube_action(action: core.Action) -> Action:
    """The action as the writer takes it. Patches carry their own tests of the uid."""
    match action:
        case core.EvictPod():
            return CreateEviction(_target(action))
        case core.ResizePod(patch=patch):
            return PatchResize(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))
        case core.UnmarkPod(patch=patch):
            return PatchObject(Target(PODS, action.pod.name, action.pod.namespace), json_patch(map(_operation, patch)))


def _operation(op: PatchOp) -> dict[str, object]:
    operation: dict[str, object] = msgspec.to_builtins(op)
    return operation
