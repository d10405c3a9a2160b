"""Reconciles one Buffer: builds its view, translates it, holds it within quotas, and publishes the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trellis.api.kinds.buffer import Buffer
from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity_buffers.mirror import CapacityBufferMirror, CapacityBufferMirrorRemoval
from trellis.controllers.buffers.events import record_events
from trellis.controllers.buffers.headroom.controller import HeadroomController
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.quota_shares import QuotaShares
from trellis.controllers.buffers.recording import BufferTranslator
from trellis.controllers.buffers.state import (
    RECHECK_SECONDS,
    BufferState,
    BufferStates,
    is_uncertain,
    loop_time,
    may_change_again,
    next_resync,
)
from trellis.controllers.buffers.status import build_release_action, build_status_write
from trellis.controllers.buffers.view import BufferViewBuilder
from trellis.core.buffers import Translation, TranslationFacts
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_problems import TARGET_UNREACHABLE, build_target_problem
from trellis.kube.events import reference_to
from trellis.kube.resources import BUFFERS
from trellis.kube.write.outcomes import Result
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# A question or a write that failed is tried again after so long.
_RETRY_SECONDS: Final = 5.0
# A target of a kind that is not followed, and one that is not there, are looked for again: nobody tells of them.
_UNWATCHED_SECONDS: Final = 10.0
# So much later than the edge of a window, because clocks round.
_EDGE_SECONDS: Final = 0.01

_NOT_ANSWERED: Final = (Result.FAILED, Result.THROTTLED)

_log: Final = Logger("trellis.buffers")


class BufferReconciler:
    """Looks at Buffers, one at a time each. `settle` is told of namespaces whose quotas have to be shared out anew."""

    def __init__(
        self,
        watching: BufferInformers,
        gathering: BufferViewBuilder,
        sharing: QuotaShares,
        keeping: BufferStates,
        writer: Writer,
        *,
        elsewhere: CapacityBufferMirror | CapacityBufferMirrorRemoval,
        headroom: HeadroomController,
        translator: BufferTranslator,
        settle: Callable[[str], None],
        metrics: Metrics,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        self._watching = watching
        self._gathering = gathering
        self._sharing = sharing
        self._writer = writer
        self._elsewhere = elsewhere
        self._headroom = headroom
        self._keeping = keeping
        self._translator = translator
        self._settle = settle
        self._metrics = metrics
        self._record = record
        self._now = now

    async def look(self, key: ObjectKey) -> float | None:
        """Look at one; the answer is in how many seconds to look again, None if only a change is a reason to."""
        buffer = self._watching.buffers.get(*key)
        if buffer is None or buffer.metadata.deletion_timestamp is not None:
            self._keeping.forget(key)
            self._elsewhere.forget(key)
            self._leave(key)
            return None
        known = self._keeping.of(buffer)
        if known.alone is not None:
            self._leave(key)
            known.verdict, known.notes = known.alone.reason.code, frozenset()
            return await self._elsewhere.leave(buffer)
        facts = await self._facts(buffer, known)
        if facts is None:
            return _RETRY_SECONDS
        soon = may_change_again(known, facts)
        made = self._translated(buffer, known, facts)
        again = self._again(made, soon=soon)
        if self._sharing.put(key, _created(buffer), made):
            self._settle(key[0])
            return again
        # Quotas may have been shared out while facts were asked for, and the Buffer may have changed.
        settled = self._sharing.of(key)
        newest = self._watching.buffers.get(*key)
        if settled is None or newest is None or newest.metadata.uid != known.uid:
            return again
        retries = await self._publish(newest, known, settled), await self._elsewhere.keep(newest, settled)
        known.calm_until = next_resync(known) if retries == (None, None) and made.pod_spec is not None else -math.inf
        return min((each for each in (*retries, again) if each is not None), default=None)

    def is_calm(self, buffer: Buffer) -> bool:
        """Whether all has been told of a Buffer, and whatever can make a difference will be told by the watch."""
        key = key_of(buffer)
        known = self._keeping.find(key)
        if known is None or known.uid != buffer.metadata.uid or loop_time() >= known.calm_until:
            return False
        return known.told is not None and known.told[0] is buffer and known.told[1] is self._sharing.of(key)

    async def _facts(self, buffer: Buffer, known: BufferState) -> TranslationFacts | None:
        """What is known; None if somebody did not answer, and what was told before stands."""
        try:
            facts = await self._gathering.facts(buffer, known)
        except (KubeError, UnreadableObject) as error:
            _log.detail(2, "a target could not be asked", buffer=key_of(buffer), error=error)
            facts = TranslationFacts(build_target_problem(TARGET_UNREACHABLE, str(error)))
        return None if is_uncertain(known, facts) and _has_pods(buffer) else facts

    def _translated(self, buffer: Buffer, known: BufferState, facts: TranslationFacts) -> Translation:
        now, made = self._now(), known.made
        if made is not None and known.facts == facts and (made.next_change is None or now < made.next_change):
            return made
        self._metrics.add(named.TRANSLATIONS, 1)
        found = self._translator.translate(buffer, known.meaning, facts, now)
        known.facts = facts
        # The same answer stays the same object: whoever has told it sees that at a glance.
        if made is None or made != found:
            known.made = made = found
        return made

    async def _publish(self, buffer: Buffer, known: BufferState, settled: Translation) -> float | None:
        """Tell; in how many seconds to try again, if that failed."""
        provision = self._headroom.provision(buffer)
        told = (buffer, settled, provision)
        if known.told is not None and all(one is other for one, other in zip(known.told, told, strict=True)):
            return None
        known.settled = settled
        write = build_status_write(buffer, settled, provision, self._now())
        if write is not None:
            outcome = await self._writer.write(write.action)
            if not outcome.applied:
                return _RETRY_SECONDS if outcome.result in _NOT_ANSWERED else None
            known.changed = self._now()
            if write.takes_over:
                # If another writer was faster, the next reconcile reads who owns what.
                await self._writer.write(build_release_action(buffer, outcome.resource_version))
        known.told = told
        record_events(self._record, reference_to(BUFFERS, buffer), known, settled)
        return None

    def _again(self, made: Translation, *, soon: bool) -> float | None:
        edge = math.inf if made.next_change is None else max(made.next_change - self._now(), 0.0) + _EDGE_SECONDS
        untold = math.inf if made.pod_spec is not None else _UNWATCHED_SECONDS
        wait = min(edge, RECHECK_SECONDS if soon else untold)
        return None if math.isinf(wait) else wait

    def _leave(self, key: ObjectKey) -> None:
        if self._sharing.drop(key):
            self._settle(key[0])


def _created(buffer: Buffer) -> float:
    created = buffer.metadata.creation_timestamp
    return math.nan if created is None else created.timestamp()


def _has_pods(buffer: Buffer) -> bool:
    return buffer.status is not None and buffer.status.pod_based_buffer_spec is not None
