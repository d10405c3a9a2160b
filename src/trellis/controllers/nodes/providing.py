"""How is a provider asked? Within a time, so that one that hangs holds nobody up, and its errors become answers.

What it wants written goes through the writer, step by step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.controllers.nodes import metrics as named
from trellis.core.buffers.said import Said
from trellis.kube.outcomes import Outcome
from trellis.kube.writer import Writer
from trellis.providers.protocol import Groups, Provider, Released, Steps, Tended
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics

PROVIDER_SILENT = Reason("ProviderSilent", "The provider did not answer in time.", Severity.WARNING)
PROVIDER_FAILED = Reason("ProviderFailed", "The provider could not answer.", Severity.WARNING)

T = TypeVar("T")

_log: Final = Logger("trellis.nodes")


class Ordering(msgspec.Struct, frozen=True):
    """What became of an order: what the provider refused, and what was written."""

    said: Said | None = None
    outcomes: tuple[Outcome, ...] = ()


class Giving(msgspec.Struct, frozen=True):
    """What became of instances that were given back: those that were not, and what was written."""

    refused: dict[str, Said]
    outcomes: tuple[Outcome, ...] = ()


class Providing:
    """One provider, asked with patience of so many seconds."""

    def __init__(self, provider: Provider, writer: Writer, patience: float, metrics: Metrics) -> None:
        self._provider = provider
        self._writer = writer
        self._patience = patience
        self._metrics = metrics

    async def groups(self, now: float) -> Groups | None:
        """All groups; None if the provider does not say."""
        answer = await self._asked("groups", self._provider.groups(now))
        return None if isinstance(answer, Said) else answer

    async def tend(self, now: float) -> tuple[float | None, tuple[Outcome, ...]]:
        """Do what instances need; when there will be more to do, and what was written."""
        answer: Tended | Said = await self._asked("tend", self._provider.tend(now))
        if isinstance(answer, Said):
            return None, ()
        return answer.next, await self._write(answer.steps)

    async def order(self, group: str, target: int, now: float) -> Ordering:
        """Have a group grow."""
        answer = await self._asked("order", self._provider.order(group, target, now), group)
        if isinstance(answer, Said):
            return Ordering(answer)
        return Ordering(answer.error, await self._write(answer.steps))

    async def release(self, group: str, instances: Sequence[str], now: float) -> Giving:
        """Give instances back."""
        answer: Released | Said = await self._asked("release", self._provider.release(group, instances, now), group)
        if isinstance(answer, Said):
            return Giving(dict.fromkeys(instances, answer))
        return Giving(dict(answer.refused), await self._write(answer.steps))

    async def _asked(self, call: str, question: Awaitable[T], group: str = "") -> T | Said:
        try:
            async with asyncio.timeout(self._patience):
                return await question
        except TimeoutError:
            said = Said(PROVIDER_SILENT, f"{self._provider.name} did not answer in {self._patience:g} s")
        except Exception as error:  # noqa: BLE001 - somebody else's code, and whatever it raises is its answer
            said = Said(PROVIDER_FAILED, f"{self._provider.name}: {error!r}")
        self._metrics.add(named.PROVIDER_FAILURES, 1, call, said.reason.code)
        _log.warning("the provider did not answer", call=call, group=group, reason=said.reason, why=said)
        return said

    async def _write(self, steps: Steps) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        for step in steps:
            written = await self._writer.write_all(step)
            outcomes += written
            if not all(each.applied for each in written):
                break
        return tuple(outcomes)
