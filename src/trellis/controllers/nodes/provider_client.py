"""Calls the providers with a timeout, and turns their errors into results.

The steps that a provider returns are written by the writer, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.controllers.nodes import metrics as named
from trellis.core.nodes.node_groups import GroupState, find_group_problem
from trellis.kube.write.outcomes import WriteOutcome
from trellis.providers.plugins import RunningProvider
from trellis.providers.protocol import UNKNOWN_GROUP, GroupProblem, Groups, Ordered, Released, Steps, Tended
from trellis.runtime.tasks import cancel_all
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

PROVIDER_TIMED_OUT = Reason("ProviderTimedOut", "The provider did not answer in time.", Severity.WARNING)
PROVIDER_FAILED = Reason("ProviderFailed", "The provider returned an error.", Severity.WARNING)
GROUP_NAME_TAKEN = Reason(
    "NodeGroupNameTaken", "Two providers have a node group of the same name; the first one's counts.", Severity.WARNING
)

# A provider that has not responded for this time counts as one without groups: its last response is too old to remove a
# node by it, and Buffers and pods get the status that holds without it.
_RECENT_SECONDS: Final = 120.0
# How long the other providers wait for one that did not answer the last time.
_SILENT_SECONDS: Final = 1.0

T = TypeVar("T")

_log: Final = Logger("trellis.nodes")


class OrderResult(msgspec.Struct, frozen=True):
    """The result of an order: the refusal of the provider, if any, and the results of writes."""

    refusal: DetailedReason | None = None
    outcomes: tuple[WriteOutcome, ...] = ()


class ReleaseResult(msgspec.Struct, frozen=True):
    """The result of a release: the refused instances with their reasons, and the results of writes."""

    refused: dict[str, DetailedReason]
    outcomes: tuple[WriteOutcome, ...] = ()


class ProviderClient:
    """Calls providers, each with a timeout of `patience` seconds. A group belongs to exactly one of them.

    A provider that does not answer stops no other: after a first timeout the others wait `_SILENT_SECONDS` for it. Its
    groups stay as they were in its last answer, and are suspended.
    """

    def __init__(self, providers: Sequence[RunningProvider], patience: float, metrics: Metrics) -> None:
        self._calls = [_ProviderCalls(running, patience, metrics) for running in providers]
        # The provider of each group, by the last answers.
        self._owners: dict[str, _ProviderCalls] = {}

    async def groups(self, now: float) -> Groups | None:
        """All usable groups; None if no provider answers, and no groups if none has for long."""
        all_silent = all(calls.is_silent for calls in self._calls)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    calls.read_groups(now, _SILENT_SECONDS if calls.is_silent and not all_silent else None)
                )
                for calls in self._calls
            ]
        answers = [task.result() for task in tasks]
        if all(answer is None for answer in answers):
            return None
        return self._merge(
            answer if answer is not None else calls.recall_groups()
            for calls, answer in zip(self._calls, answers, strict=True)
        )

    def _merge(self, answers: Iterable[Groups]) -> Groups:
        self._owners = {}
        states: list[GroupState] = []
        problems: list[GroupProblem] = []
        for calls, answer in zip(self._calls, answers, strict=True):
            problems += answer.problems
            for state in answer.states:
                name = state.group.name
                owner = self._owners.setdefault(name, calls)
                if owner is calls:
                    states.append(state)
                else:
                    taken = DetailedReason(GROUP_NAME_TAKEN, f"{calls.name} and {owner.name} have a group {name}")
                    problems.append(GroupProblem(name, taken))
        return Groups(tuple(states), tuple(problems))

    async def tend(self, now: float) -> tuple[float | None, tuple[WriteOutcome, ...]]:
        """Write what instances need. Returns when the next such write is due, and the results of writes."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(calls.tend(now)) for calls in self._calls if calls.may_tend]
        results = [task.result() for task in tasks]
        times = [next_write_at for next_write_at, _ in results if next_write_at is not None]
        return min(times, default=None), tuple(outcome for _, outcomes in results for outcome in outcomes)

    def list_failures(self) -> tuple[DetailedReason, ...]:
        """Why providers did not answer the last time."""
        return tuple(calls.failure for calls in self._calls if calls.is_silent)

    async def close(self) -> None:
        """End calls that have not been answered."""
        for calls in self._calls:
            await calls.close()

    async def order(self, group: str, target: int, now: float) -> OrderResult:
        """Order nodes, up to the target of a group."""
        owner = self._owners.get(group)
        if owner is None:
            return OrderResult(_build_unknown_group(group))
        return await owner.order(group, target, now)

    async def release(self, group: str, instances: Sequence[str], now: float) -> ReleaseResult:
        """Release instances of a group."""
        owner = self._owners.get(group)
        if owner is None:
            return ReleaseResult(dict.fromkeys(instances, _build_unknown_group(group)))
        return await owner.release(group, instances, now)


class _ProviderCalls:
    """The calls of one provider, its last answer, and since when it has not answered."""

    def __init__(self, running: RunningProvider, patience: float, metrics: Metrics) -> None:
        self._provider, self._writer = running
        self._patience = patience
        self._metrics = metrics
        self._silent_since: float | None = None
        self._failure = DetailedReason(PROVIDER_TIMED_OUT, f"{running.provider.name} has not answered yet")
        self._last_groups = Groups()
        self._reading: asyncio.Task[Groups | DetailedReason] | None = None

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def failure(self) -> DetailedReason:
        """Why it did not answer, if it did not the last time."""
        return self._failure

    @property
    def is_silent(self) -> bool:
        """Whether it did not answer the last time."""
        return self._silent_since is not None

    @property
    def may_tend(self) -> bool:
        """Whether no other call is in flight."""
        return self._reading is None

    async def read_groups(self, now: float, patience: float | None) -> Groups | None:
        """Its usable groups; None if it does not answer, and no groups if it has not for long.

        A call that takes longer than `patience` goes on, and may be answered by the next pass.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._call("groups", Groups, self._provider.groups(now)))
        await asyncio.wait({self._reading}, timeout=patience)
        if self._reading.done():
            response, self._reading = self._reading.result(), None
            if not isinstance(response, DetailedReason):
                self._silent_since = None
                self._last_groups = _without_invalid_groups(response)
                return self._last_groups
            self._failure = response
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since < _RECENT_SECONDS:
            return None
        self._last_groups = Groups(problems=(GroupProblem("", self._failure),))
        return self._last_groups

    async def close(self) -> None:
        """End a call that has not been answered."""
        if self._reading is not None:
            await cancel_all([self._reading])

    def recall_groups(self) -> Groups:
        """The groups of its last answer, suspended: it is not known how they are now."""
        states = tuple(msgspec.structs.replace(state, suspended=self._failure) for state in self._last_groups.states)
        return Groups(states, (*self._last_groups.problems, GroupProblem("", self._failure)))

    async def tend(self, now: float) -> tuple[float | None, tuple[WriteOutcome, ...]]:
        """Write what instances need. Returns when the next such write is due, and the results of writes."""
        response = await self._call("tend", Tended, self._provider.tend(now))
        if isinstance(response, DetailedReason):
            return None, ()
        return response.next, await self._write(response.steps)

    async def order(self, group: str, target: int, now: float) -> OrderResult:
        """Order nodes, up to the target of a group."""
        response = await self._call("order", Ordered, self._provider.order(group, target, now), group)
        if isinstance(response, DetailedReason):
            return OrderResult(response)
        return OrderResult(response.error, await self._write(response.steps))

    async def release(self, group: str, instances: Sequence[str], now: float) -> ReleaseResult:
        """Release instances of a group."""
        response = await self._call("release", Released, self._provider.release(group, instances, now), group)
        if isinstance(response, DetailedReason):
            return ReleaseResult(dict.fromkeys(instances, response))
        return ReleaseResult(dict(response.refused), await self._write(response.steps))

    async def _call(self, call: str, kind: type[T], request: Awaitable[T], group: str = "") -> T | DetailedReason:
        try:
            async with asyncio.timeout(self._patience):
                response = await request
            if isinstance(response, kind):
                return response
            failure = DetailedReason(PROVIDER_FAILED, f"{self._provider.name} returned a {type(response).__name__}")
        except TimeoutError:
            failure = DetailedReason(
                PROVIDER_TIMED_OUT, f"{self._provider.name} did not answer in {self._patience:g} s"
            )
        except Exception as error:  # noqa: BLE001 - code of a provider: any error is a failed call
            failure = DetailedReason(PROVIDER_FAILED, f"{self._provider.name}: {error!r}")
        self._metrics.add(named.PROVIDER_FAILURES, 1, call, failure.reason.code)
        _log.warning(
            "the provider did not answer",
            provider=self.name,
            call=call,
            group=group,
            reason=failure.reason,
            why=failure,
        )
        return failure

    async def _write(self, steps: Steps) -> tuple[WriteOutcome, ...]:
        outcomes: list[WriteOutcome] = []
        for step in steps:
            written = await self._writer.write_all(step)
            outcomes += written
            if not all(outcome.applied for outcome in written):
                break
        return tuple(outcomes)


def _build_unknown_group(group: str) -> DetailedReason:
    return DetailedReason(UNKNOWN_GROUP, f"no provider has a node group {group}")


def _without_invalid_groups(groups: Groups) -> Groups:
    """The groups without those whose state is invalid, which become problems."""
    wrong = {state.group.name: problem for state in groups.states if (problem := find_group_problem(state)) is not None}
    if not wrong:
        return groups
    states = tuple(state for state in groups.states if state.group.name not in wrong)
    return Groups(states, (*groups.problems, *(GroupProblem(name, problem) for name, problem in wrong.items())))
