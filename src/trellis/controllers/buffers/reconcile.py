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
    may_be_outdated,
    next_resync,
)
from trellis.controllers.buffers.status import build_release_action, build_status_write
from trellis.controllers.buffers.view import BufferViewBuilder
from trellis.core.buffers import Translation, TranslationFacts
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_problems import TARGET_UNREACHABLE, build_target_problem
from trellis.kube.events import build_reference
from trellis.kube.resources import BUFFERS
from trellis.kube.write.outcomes import Result
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.runtime.telemetry.tracing import current_trace

# Seconds until a read or a write that failed is tried again.
_RETRY_SECONDS: Final = 5.0
# A target of a kind that is not watched, and one that does not exist, are read again: no watch reports them.
_UNWATCHED_SECONDS: Final = 10.0
# So much later than the edge of a schedule's window, because clocks round.
_EDGE_SECONDS: Final = 0.01

_NOT_ANSWERED: Final = (Result.FAILED, Result.THROTTLED)

_log: Final = Logger("trellis.buffers")


class BufferReconciler:
    """Reconciles Buffers, each of them by one worker at a time.

    `enqueue_division` is called with namespaces whose quotas have to be divided again.
    """

    def __init__(
        self,
        informers: BufferInformers,
        view: BufferViewBuilder,
        shares: QuotaShares,
        states: BufferStates,
        writer: Writer,
        *,
        mirror: CapacityBufferMirror | CapacityBufferMirrorRemoval,
        headroom: HeadroomController,
        translator: BufferTranslator,
        enqueue_division: Callable[[str], None],
        metrics: Metrics,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._view = view
        self._shares = shares
        self._states = states
        self._writer = writer
        self._mirror = mirror
        self._headroom = headroom
        self._translator = translator
        self._enqueue_division = enqueue_division
        self._metrics = metrics
        self._record = record
        self._now = now

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one Buffer; returns the seconds until it is reconciled again, None if only after a change."""
        buffer = self._informers.buffers.get(*key)
        if buffer is None or buffer.metadata.deletion_timestamp is not None:
            self._states.forget(key)
            self._mirror.forget(key)
            self._drop(key)
            return None
        state = self._states.get_or_create(buffer)
        if state.skip_reason is not None:
            self._drop(key)
            state.reason_code, state.notes = state.skip_reason.reason.code, frozenset()
            return await self._mirror.remove(buffer)
        trace = current_trace()
        facts = await self._build_facts(buffer, state)
        trace.step("view")
        if facts is None:
            return _RETRY_SECONDS
        soon = may_be_outdated(state, facts)
        translation = self._translate(buffer, state, facts)
        trace.step("plan")
        requeue_after = self._find_requeue_delay(translation, soon=soon)
        if self._shares.put(key, _read_created(buffer), translation):
            self._enqueue_division(key[0])
            return requeue_after
        # Quotas may have been divided while facts were read, and the Buffer may have changed.
        within_quotas = self._shares.find(key)
        newest = self._informers.buffers.get(*key)
        if within_quotas is None or newest is None or newest.metadata.uid != state.uid:
            return requeue_after
        retries = await self._publish(newest, state, within_quotas), await self._mirror.update(newest, within_quotas)
        trace.step("execute")
        trace.describe(chunks=within_quotas.chunks)
        is_at_rest = retries == (None, None) and translation.pod_spec is not None
        state.at_rest_until = next_resync(state) if is_at_rest else -math.inf
        return min((delay for delay in (*retries, requeue_after) if delay is not None), default=None)

    def is_at_rest(self, buffer: Buffer) -> bool:
        """Whether the status of a Buffer is published, and the watch reports all changes that can affect it."""
        key = key_of(buffer)
        state = self._states.find(key)
        if state is None or state.uid != buffer.metadata.uid or loop_time() >= state.at_rest_until:
            return False
        return (
            state.published is not None
            and state.published[0] is buffer
            and state.published[1] is self._shares.find(key)
        )

    def is_awaited(self, namespace: str) -> bool:
        """Whether a Buffer of a namespace still has to be translated."""
        for buffer in self._informers.list_buffers_in(namespace):
            state, is_going = self._states.find(key_of(buffer)), buffer.metadata.deletion_timestamp is not None
            unknown = state is None or (state.skip_reason is None and not self._shares.is_translated(key_of(buffer)))
            if unknown and not is_going:
                return True
        return False

    async def _build_facts(self, buffer: Buffer, state: BufferState) -> TranslationFacts | None:
        """The facts of a translation; None if a request failed and the published status stays."""
        try:
            facts = await self._view.facts(buffer, state)
        except (KubeError, UnreadableObject) as error:
            _log.detail(2, "reading a target failed", buffer=key_of(buffer), error=error)
            facts = TranslationFacts(build_target_problem(TARGET_UNREACHABLE, str(error)))
        return None if is_uncertain(state, facts) and _has_pods(buffer) else facts

    def _translate(self, buffer: Buffer, state: BufferState, facts: TranslationFacts) -> Translation:
        now, previous = self._now(), state.translation
        if (
            previous is not None
            and state.facts == facts
            and (previous.next_change is None or now < previous.next_change)
        ):
            return previous
        self._metrics.add(named.TRANSLATIONS, 1)
        translation = self._translator.translate(buffer, state.meaning, facts, now)
        state.facts = facts
        # An equal translation stays the same object, so that published translations can be compared by identity.
        if previous is None or previous != translation:
            state.translation = previous = translation
        return previous

    async def _publish(self, buffer: Buffer, state: BufferState, translation: Translation) -> float | None:
        """Write the status and record Events; returns the seconds to a retry if that failed."""
        provision = self._headroom.provision(buffer)
        published = (buffer, translation, provision)
        if state.published is not None and all(
            published_part is current_part
            for published_part, current_part in zip(state.published, published, strict=True)
        ):
            return None
        state.within_quotas = translation
        write = build_status_write(buffer, translation, provision, self._now())
        if write is not None:
            outcome = await self._writer.write(write.action)
            if not outcome.applied:
                return _RETRY_SECONDS if outcome.result in _NOT_ANSWERED else None
            state.changed = self._now()
            if write.takes_over:
                # If another writer was faster, the next reconcile reads the owners of the fields.
                await self._writer.write(build_release_action(buffer, outcome.resource_version))
        state.published = published
        record_events(self._record, build_reference(BUFFERS, buffer), state, translation)
        return None

    def _find_requeue_delay(self, translation: Translation, *, soon: bool) -> float | None:
        change = translation.next_change
        edge = math.inf if change is None else max(change - self._now(), 0.0) + _EDGE_SECONDS
        unwatched = math.inf if translation.pod_spec is not None else _UNWATCHED_SECONDS
        delay = min(edge, RECHECK_SECONDS if soon else unwatched)
        return None if math.isinf(delay) else delay

    def _drop(self, key: ObjectKey) -> None:
        if self._shares.drop(key):
            self._enqueue_division(key[0])


def _read_created(buffer: Buffer) -> float:
    created = buffer.metadata.creation_timestamp
    return math.nan if created is None else created.timestamp()


def _has_pods(buffer: Buffer) -> bool:
    return buffer.status is not None and buffer.status.pod_based_buffer_spec is not None
