"""Calls the provider with a timeout, and turns its errors into results.

What a provider wants written goes through the writer, step by step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.controllers.nodes import metrics as named
from trellis.core.nodes.node_groups import find_group_problem
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.providers.protocol import GroupProblem, Groups, Ordered, Provider, Released, Steps, Tended
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

PROVIDER_SILENT = Reason("ProviderSilent", "The provider did not answer in time.", Severity.WARNING)
PROVIDER_FAILED = Reason("ProviderFailed", "The provider could not answer.", Severity.WARNING)

# A provider that has said nothing for so long counts as one without groups: what is known of its nodes is too old to
# remove one by it, and Buffers and pods are to be told what is true without it.
_BELIEVED_SECONDS: Final = 120.0

T = TypeVar("T")

_log: Final = Logger("trellis.nodes")


class OrderResult(msgspec.Struct, frozen=True):
    """What became of an order: what the provider refused, and what was written."""

    said: DetailedReason | None = None
    outcomes: tuple[WriteOutcome, ...] = ()


class ReleaseResult(msgspec.Struct, frozen=True):
    """What became of instances that were given back: those that were not, and what was written."""

    refused: dict[str, DetailedReason]
    outcomes: tuple[WriteOutcome, ...] = ()


class ProviderClient:
    """One provider, asked with patience of so many seconds."""

    def __init__(self, provider: Provider, writer: Writer, patience: float, metrics: Metrics) -> None:
        self._provider = provider
        self._writer = writer
        self._patience = patience
        self._metrics = metrics
        self._silent_since: float | None = None

    async def groups(self, now: float) -> Groups | None:
        """All groups that can be used; None if the provider does not say, and no groups if it has not for long."""
        answer = await self._asked("groups", Groups, self._provider.groups(now))
        if not isinstance(answer, DetailedReason):
            self._silent_since = None
            return _without_invalid_groups(answer)
        if self._silent_since is None:
            self._silent_since = now
        is_believed = now - self._silent_since < _BELIEVED_SECONDS
        return None if is_believed else Groups(problems=(GroupProblem("", answer),))

    async def tend(self, now: float) -> tuple[float | None, tuple[WriteOutcome, ...]]:
        """Do what instances need; when there will be more to do, and what was written."""
        answer = await self._asked("tend", Tended, self._provider.tend(now))
        if isinstance(answer, DetailedReason):
            return None, ()
        return answer.next, await self._write(answer.steps)

    async def order(self, group: str, target: int, now: float) -> OrderResult:
        """Have a group grow."""
        answer = await self._asked("order", Ordered, self._provider.order(group, target, now), group)
        if isinstance(answer, DetailedReason):
            return OrderResult(answer)
        return OrderResult(answer.error, await self._write(answer.steps))

    async def release(self, group: str, instances: Sequence[str], now: float) -> ReleaseResult:
        """Give instances back."""
        answer = await self._asked("release", Released, self._provider.release(group, instances, now), group)
        if isinstance(answer, DetailedReason):
            return ReleaseResult(dict.fromkeys(instances, answer))
        return ReleaseResult(dict(answer.refused), await self._write(answer.steps))

    async def _asked(self, call: str, kind: type[T], question: Awaitable[T], group: str = "") -> T | DetailedReason:
        try:
            async with asyncio.timeout(self._patience):
                answer = await question
            if isinstance(answer, kind):
                return answer
            said = DetailedReason(PROVIDER_FAILED, f"{self._provider.name} answered with a {type(answer).__name__}")
        except TimeoutError:
            said = DetailedReason(PROVIDER_SILENT, f"{self._provider.name} did not answer in {self._patience:g} s")
        except Exception as error:  # noqa: BLE001 - code of a provider: any error is its answer
            said = DetailedReason(PROVIDER_FAILED, f"{self._provider.name}: {error!r}")
        self._metrics.add(named.PROVIDER_FAILURES, 1, call, said.reason.code)
        _log.warning("the provider did not answer", call=call, group=group, reason=said.reason, why=said)
        return said

    async def _write(self, steps: Steps) -> tuple[WriteOutcome, ...]:
        outcomes: list[WriteOutcome] = []
        for step in steps:
            written = await self._writer.write_all(step)
            outcomes += written
            if not all(outcome.applied for outcome in written):
                break
        return tuple(outcomes)


def _without_invalid_groups(told: Groups) -> Groups:
    """Without the groups of which something is said that cannot be."""
    wrong = {state.group.name: said for state in told.states if (said := find_group_problem(state)) is not None}
    if not wrong:
        return told
    states = tuple(state for state in told.states if state.group.name not in wrong)
    return Groups(states, (*told.problems, *(GroupProblem(name, said) for name, said in wrong.items())))
