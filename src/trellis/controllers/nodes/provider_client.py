"""Calls the provider with a timeout, and turns its errors into results.

The steps that a provider returns are written by the writer, one after the other.
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

PROVIDER_TIMED_OUT = Reason("ProviderTimedOut", "The provider did not answer in time.", Severity.WARNING)
PROVIDER_FAILED = Reason("ProviderFailed", "The provider returned an error.", Severity.WARNING)

# A provider that has not responded for so long counts as one without groups: its last response is too old to remove a
# node by it, and Buffers and pods get the status that holds without it.
_RECENT_SECONDS: Final = 120.0

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
    """Calls a provider, with a timeout of `patience` seconds."""

    def __init__(self, provider: Provider, writer: Writer, patience: float, metrics: Metrics) -> None:
        self._provider = provider
        self._writer = writer
        self._patience = patience
        self._metrics = metrics
        self._silent_since: float | None = None

    async def groups(self, now: float) -> Groups | None:
        """All usable groups; None if the provider does not answer, and no groups if it has not for long."""
        response = await self._call("groups", Groups, self._provider.groups(now))
        if not isinstance(response, DetailedReason):
            self._silent_since = None
            return _without_invalid_groups(response)
        if self._silent_since is None:
            self._silent_since = now
        is_recent = now - self._silent_since < _RECENT_SECONDS
        return None if is_recent else Groups(problems=(GroupProblem("", response),))

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
        _log.warning("the provider did not answer", call=call, group=group, reason=failure.reason, why=failure)
        return failure

    async def _write(self, steps: Steps) -> tuple[WriteOutcome, ...]:
        outcomes: list[WriteOutcome] = []
        for step in steps:
            written = await self._writer.write_all(step)
            outcomes += written
            if not all(outcome.applied for outcome in written):
                break
        return tuple(outcomes)


def _without_invalid_groups(groups: Groups) -> Groups:
    """The groups without those whose state is invalid, which become problems."""
    wrong = {state.group.name: problem for state in groups.states if (problem := find_group_problem(state)) is not None}
    if not wrong:
        return groups
    states = tuple(state for state in groups.states if state.group.name not in wrong)
    return Groups(states, (*groups.problems, *(GroupProblem(name, problem) for name, problem in wrong.items())))
