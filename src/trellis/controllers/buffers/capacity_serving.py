"""What is done at a look at one of upstream's CapacityBuffers? The same as at a Buffer, told in upstream's words.

CapacityBuffers with another strategy are left alone, and so are those that a Buffer owns: its room is kept already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity_gathering import CapacityGathering
from trellis.controllers.buffers.capacity_keeping import CapacityKeeping, KnownCapacity
from trellis.controllers.buffers.capacity_publishing import CapacityPublishing
from trellis.controllers.buffers.capacity_watching import CapacityWatching, name_in
from trellis.controllers.buffers.doubting import LATER_SECONDS, is_unsure, may_follow_up
from trellis.controllers.buffers.owned import RETRY_SECONDS
from trellis.controllers.buffers.sharing import Sharing
from trellis.core.buffers import BufferSettings, Facts, Translation, is_served, translate_capacity_buffer
from trellis.core.model.keys import Key
from trellis.core.model.target_problems import TARGET_UNREACHABLE, unread
from trellis.kube.resources import BUFFERS
from trellis.runtime.metrics import Metrics

# A target that is not there is looked for again: nobody tells of it.
_UNTOLD_SECONDS: Final = 10.0


class Serving:
    """Looks at CapacityBuffers, one at a time each. `settle` is told of namespaces to be shared out anew."""

    def __init__(
        self,
        watching: CapacityWatching,
        gathering: CapacityGathering,
        sharing: Sharing,
        keeping: CapacityKeeping,
        publishing: CapacityPublishing,
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

    async def look(self, key: Key) -> float | None:
        """Look at one; the answer is in how many seconds to look again, None if only a change is a reason to."""
        buffer = self.watching.buffers.get(key[0], name_in(key))
        if buffer is None or not is_ours(buffer):
            self._forget(key)
            return None
        if not self.watching.seen:
            return _UNTOLD_SECONDS
        known = self._keeping.of(key, buffer)
        facts = await self._facts(buffer, known)
        if facts is None:
            return RETRY_SECONDS
        soon = LATER_SECONDS if may_follow_up(known, facts) else None
        made = self._translated(buffer, known, facts)
        again = soon if made.is_ready else _UNTOLD_SECONDS
        created = buffer.metadata.creation_timestamp
        if self._sharing.put(key, math.nan if created is None else created.timestamp(), made):
            self._settle(key[0])
            return again
        # Quotas may have been shared out while facts were asked for, and the CapacityBuffer may have changed.
        settled, newest = self._sharing.of(key), self.watching.buffers.get(key[0], name_in(key))
        if settled is None or newest is None or self._keeping.of(key, newest) is not known:
            return again
        retry = await self._publishing.publish(newest, known, settled)
        return again if retry is None else retry

    def awaits(self, namespace: str) -> bool:
        """Whether one of a namespace has not been translated yet, and may be older than those that have."""
        keys = self.watching.keys_in(namespace)
        unknown = (self.watching.buffers.get(namespace, name_in(key)) for key in keys if not self._sharing.knows(key))
        return any(each is not None and is_ours(each) for each in unknown)

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

    def _forget(self, key: Key) -> None:
        self._keeping.forget(key)
        if self._sharing.drop(key):
            self._settle(key[0])

    async def _facts(self, buffer: CapacityBuffer, known: KnownCapacity) -> Facts | None:
        """What is known; None if somebody did not answer, and what was told before stands."""
        try:
            facts = await self._gathering.facts(buffer, known)
        except (KubeError, UnreadableObject) as error:
            facts = Facts(unread(TARGET_UNREACHABLE, str(error)))
        return None if is_unsure(known, facts) and buffer.status.replicas is not None else facts

    def _translated(self, buffer: CapacityBuffer, known: KnownCapacity, facts: Facts) -> Translation:
        if known.made is None or known.facts != facts:
            self._metrics.add(named.TRANSLATIONS, 1)
            found = translate_capacity_buffer(buffer, facts, self._figures)
            known.facts = facts
            # The same answer stays the same object: whoever has told it sees that at a glance.
            known.made = known.made if known.made == found else found
        return known.made


def is_ours(buffer: CapacityBuffer) -> bool:
    """Whether it is to be served; one that is being deleted is not."""
    if buffer.metadata.deletion_timestamp is not None:
        return False
    owner = buffer.metadata.controller
    of_a_buffer = owner is not None and owner.kind == BUFFERS.kind and owner.api_version.startswith(f"{BUFFERS.group}/")
    return is_served(buffer) and not of_a_buffer
