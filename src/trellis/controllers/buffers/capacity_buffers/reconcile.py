"""Reconciles one CapacityBuffer as a Buffer is reconciled, with the status that upstream defines.

CapacityBuffers with another strategy are left alone, and so are those that a Buffer owns: the capacity of that Buffer
is kept already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity_buffers.informers import CapacityBufferInformers, capacity_buffer_name
from trellis.controllers.buffers.capacity_buffers.owned_objects import RETRY_SECONDS
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferState, CapacityBufferStates
from trellis.controllers.buffers.capacity_buffers.status import CapacityBufferPublisher
from trellis.controllers.buffers.capacity_buffers.view import CapacityBufferViewBuilder
from trellis.controllers.buffers.quota_shares import QuotaShares
from trellis.controllers.buffers.state import RECHECK_SECONDS, is_uncertain, may_be_outdated
from trellis.core.buffers import BufferSettings, Translation, TranslationFacts, is_served, translate_capacity_buffer
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_problems import TARGET_UNREACHABLE, build_target_problem
from trellis.kube.resources import BUFFERS
from trellis.runtime.telemetry.metrics import Metrics

# A target that does not exist is read again: no watch reports it.
_UNWATCHED_SECONDS: Final = 10.0


class CapacityBufferReconciler:
    """Reconciles CapacityBuffers, each of them by one worker at a time.

    `enqueue_division` is called with namespaces whose quotas have to be divided again.
    """

    def __init__(
        self,
        informers: CapacityBufferInformers,
        view: CapacityBufferViewBuilder,
        shares: QuotaShares,
        states: CapacityBufferStates,
        publisher: CapacityBufferPublisher,
        *,
        settings: BufferSettings,
        enqueue_division: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        self.informers = informers
        self._view = view
        self._shares = shares
        self._states = states
        self._publisher = publisher
        self._settings = settings
        self._enqueue_division = enqueue_division
        self._metrics = metrics

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one CapacityBuffer; returns the seconds until it is reconciled again, if any."""
        buffer = self.informers.buffers.get(key[0], capacity_buffer_name(key))
        if buffer is None or not is_managed(buffer):
            self._forget(key)
            return None
        if not self.informers.is_synced:
            return _UNWATCHED_SECONDS
        state = self._states.get_or_create(key, buffer)
        facts = await self._build_facts(buffer, state)
        if facts is None:
            return RETRY_SECONDS
        recheck = RECHECK_SECONDS if may_be_outdated(state, facts) else None
        translation = self._translate(buffer, state, facts)
        requeue_after = recheck if translation.is_ready else _UNWATCHED_SECONDS
        created = buffer.metadata.creation_timestamp
        if self._shares.put(key, math.nan if created is None else created.timestamp(), translation):
            self._enqueue_division(key[0])
            return requeue_after
        # Quotas may have been divided while facts were read, and the CapacityBuffer may have changed.
        within_quotas, newest = self._shares.find(key), self.informers.buffers.get(key[0], capacity_buffer_name(key))
        if within_quotas is None or newest is None or self._states.get_or_create(key, newest) is not state:
            return requeue_after
        retry = await self._publisher.publish(newest, state, within_quotas)
        return requeue_after if retry is None else retry

    def is_awaited(self, namespace: str) -> bool:
        """Whether one of a namespace is not translated yet, and may be older than those that are."""
        keys = self.informers.keys_in(namespace)
        unknown = (
            self.informers.buffers.get(namespace, capacity_buffer_name(key))
            for key in keys
            if not self._shares.is_translated(key)
        )
        return any(buffer is not None and is_managed(buffer) for buffer in unknown)

    def forget_templates(self, namespace: str) -> None:
        """Forget templates of a namespace, because its LimitRanges have changed."""
        self._states.forget_templates(namespace)

    def clear(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self._states.begin_anew()

    def export(self) -> None:
        counts = self._states.count_by_reason().items()
        self._metrics.set_all(named.SERVED, {(reason,): float(count) for reason, count in counts})

    def _forget(self, key: ObjectKey) -> None:
        self._states.forget(key)
        if self._shares.drop(key):
            self._enqueue_division(key[0])

    async def _build_facts(self, buffer: CapacityBuffer, state: CapacityBufferState) -> TranslationFacts | None:
        """The facts of a translation; None if a request failed and the published status stays."""
        try:
            facts = await self._view.facts(buffer, state)
        except (KubeError, UnreadableObject) as error:
            facts = TranslationFacts(build_target_problem(TARGET_UNREACHABLE, str(error)))
        return None if is_uncertain(state, facts) and buffer.status.replicas is not None else facts

    def _translate(self, buffer: CapacityBuffer, state: CapacityBufferState, facts: TranslationFacts) -> Translation:
        if state.translation is None or state.facts != facts:
            self._metrics.add(named.TRANSLATIONS, 1)
            translation = translate_capacity_buffer(buffer, facts, self._settings)
            state.facts = facts
            # An equal translation stays the same object, so that published translations can be compared by identity.
            state.translation = state.translation if state.translation == translation else translation
        return state.translation


def is_managed(buffer: CapacityBuffer) -> bool:
    """Whether a CapacityBuffer is translated here; one that is being deleted is not."""
    if buffer.metadata.deletion_timestamp is not None:
        return False
    owner = buffer.metadata.controller
    is_mirror = owner is not None and owner.kind == BUFFERS.kind and owner.api_version.startswith(f"{BUFFERS.group}/")
    return is_served(buffer) and not is_mirror
