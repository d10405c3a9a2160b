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
from trellis.controllers.buffers.state import RECHECK_SECONDS, is_uncertain, may_change_again
from trellis.core.buffers import BufferSettings, Translation, TranslationFacts, is_served, translate_capacity_buffer
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_problems import TARGET_UNREACHABLE, build_target_problem
from trellis.kube.resources import BUFFERS
from trellis.runtime.telemetry.metrics import Metrics

# A target that is not there is looked for again: nobody tells of it.
_UNWATCHED_SECONDS: Final = 10.0


class CapacityBufferReconciler:
    """Looks at CapacityBuffers, one at a time each. `settle` is told of namespaces to be shared out anew."""

    def __init__(
        self,
        watching: CapacityBufferInformers,
        gathering: CapacityBufferViewBuilder,
        sharing: QuotaShares,
        keeping: CapacityBufferStates,
        publishing: CapacityBufferPublisher,
        *,
        figures: BufferSettings,
        settle: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        self.watching = watching
        self._gathering = gathering
        self._sharing = sharing
        self._keeping = keeping
        self._publishing = publishing
        self._figures = figures
        self._settle = settle
        self._metrics = metrics

    async def look(self, key: ObjectKey) -> float | None:
        """Look at one; the answer is in how many seconds to look again, None if only a change is a reason to."""
        buffer = self.watching.buffers.get(key[0], capacity_buffer_name(key))
        if buffer is None or not is_managed(buffer):
            self._forget(key)
            return None
        if not self.watching.seen:
            return _UNWATCHED_SECONDS
        known = self._keeping.of(key, buffer)
        facts = await self._facts(buffer, known)
        if facts is None:
            return RETRY_SECONDS
        soon = RECHECK_SECONDS if may_change_again(known, facts) else None
        made = self._translated(buffer, known, facts)
        again = soon if made.is_ready else _UNWATCHED_SECONDS
        created = buffer.metadata.creation_timestamp
        if self._sharing.put(key, math.nan if created is None else created.timestamp(), made):
            self._settle(key[0])
            return again
        # Quotas may have been shared out while facts were asked for, and the CapacityBuffer may have changed.
        settled, newest = self._sharing.of(key), self.watching.buffers.get(key[0], capacity_buffer_name(key))
        if settled is None or newest is None or self._keeping.of(key, newest) is not known:
            return again
        retry = await self._publishing.publish(newest, known, settled)
        return again if retry is None else retry

    def awaits(self, namespace: str) -> bool:
        """Whether one of a namespace has not been translated yet, and may be older than those that have."""
        keys = self.watching.keys_in(namespace)
        unknown = (
            self.watching.buffers.get(namespace, capacity_buffer_name(key))
            for key in keys
            if not self._sharing.knows(key)
        )
        return any(each is not None and is_managed(each) for each in unknown)

    def forget_templates(self, namespace: str) -> None:
        """What admission makes of pods there may be something else now."""
        self._keeping.forget_templates(namespace)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._keeping.begin_anew()

    def export(self) -> None:
        """Say how all of them are."""
        verdicts = self._keeping.verdicts().items()
        self._metrics.set_all(named.SERVED, {(reason,): float(count) for reason, count in verdicts})

    def _forget(self, key: ObjectKey) -> None:
        self._keeping.forget(key)
        if self._sharing.drop(key):
            self._settle(key[0])

    async def _facts(self, buffer: CapacityBuffer, known: CapacityBufferState) -> TranslationFacts | None:
        """What is known; None if somebody did not answer, and what was told before stands."""
        try:
            facts = await self._gathering.facts(buffer, known)
        except (KubeError, UnreadableObject) as error:
            facts = TranslationFacts(build_target_problem(TARGET_UNREACHABLE, str(error)))
        return None if is_uncertain(known, facts) and buffer.status.replicas is not None else facts

    def _translated(self, buffer: CapacityBuffer, known: CapacityBufferState, facts: TranslationFacts) -> Translation:
        if known.made is None or known.facts != facts:
            self._metrics.add(named.TRANSLATIONS, 1)
            found = translate_capacity_buffer(buffer, facts, self._figures)
            known.facts = facts
            # The same answer stays the same object: whoever has told it sees that at a glance.
            known.made = known.made if known.made == found else found
        return known.made


def is_managed(buffer: CapacityBuffer) -> bool:
    """Whether it is to be served; one that is being deleted is not."""
    if buffer.metadata.deletion_timestamp is not None:
        return False
    owner = buffer.metadata.controller
    of_a_buffer = owner is not None and owner.kind == BUFFERS.kind and owner.api_version.startswith(f"{BUFFERS.group}/")
    return is_served(buffer) and not of_a_buffer
