"""What is done at a look at one Buffer? Facts are gathered, translated, held within quotas, and told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trellis.api.buffer import Buffer
from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.calming import calm_until, clock
from trellis.controllers.buffers.doubting import LATER_SECONDS, is_unsure, may_follow_up
from trellis.controllers.buffers.gathering import Gathering
from trellis.controllers.buffers.headroom.headroom import Headroom
from trellis.controllers.buffers.keeping import Keeping, Known
from trellis.controllers.buffers.publishing import release_action, status_write
from trellis.controllers.buffers.sharing import Sharing
from trellis.controllers.buffers.telling import tell
from trellis.controllers.buffers.translating import Translating
from trellis.controllers.buffers.translator import Translator
from trellis.controllers.buffers.watching import Watching
from trellis.controllers.buffers.withdrawing import Withdrawing
from trellis.core.buffers import Facts, Translation
from trellis.core.model.keys import Key, key_of
from trellis.core.model.target_problems import TARGET_UNREACHABLE, unread
from trellis.kube.events import reference_to
from trellis.kube.outcomes import Result
from trellis.kube.resources import BUFFERS
from trellis.kube.writer import Writer
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.posting import Record

# A question or a write that failed is tried again after so long.
_RETRY_SECONDS: Final = 5.0
# A target of a kind that is not followed, and one that is not there, are looked for again: nobody tells of them.
_UNTOLD_SECONDS: Final = 10.0
# So much later than the edge of a window, because clocks round.
_EDGE_SECONDS: Final = 0.01

_NOT_ANSWERED: Final = (Result.FAILED, Result.THROTTLED)

_log: Final = Logger("trellis.buffers")


class Looking:
    """Looks at Buffers, one at a time each. `settle` is told of namespaces whose quotas have to be shared out anew."""

    def __init__(
        self,
        watching: Watching,
        gathering: Gathering,
        sharing: Sharing,
        keeping: Keeping,
        writer: Writer,
        *,
        elsewhere: Translating | Withdrawing,
        headroom: Headroom,
        translator: Translator,
        settle: Callable[[str], None],
        metrics: Metrics,
        record: Record,
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

    async def look(self, key: Key) -> float | None:
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
        soon = may_follow_up(known, facts)
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
        known.calm_until = calm_until(known) if retries == (None, None) and made.pod_spec is not None else -math.inf
        return min((each for each in (*retries, again) if each is not None), default=None)

    def is_calm(self, buffer: Buffer) -> bool:
        """Whether all has been told of a Buffer, and whatever can make a difference will be told by the watch."""
        key = key_of(buffer)
        known = self._keeping.find(key)
        if known is None or known.uid != buffer.metadata.uid or clock() >= known.calm_until:
            return False
        return known.told is not None and known.told[0] is buffer and known.told[1] is self._sharing.of(key)

    async def _facts(self, buffer: Buffer, known: Known) -> Facts | None:
        """What is known; None if somebody did not answer, and what was told before stands."""
        try:
            facts = await self._gathering.facts(buffer, known)
        except (KubeError, UnreadableObject) as error:
            _log.detail(2, "a target could not be asked", buffer=key_of(buffer), error=error)
            facts = Facts(unread(TARGET_UNREACHABLE, str(error)))
        return None if is_unsure(known, facts) and _has_pods(buffer) else facts

    def _translated(self, buffer: Buffer, known: Known, facts: Facts) -> Translation:
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

    async def _publish(self, buffer: Buffer, known: Known, settled: Translation) -> float | None:
        """Tell; in how many seconds to try again, if that failed."""
        provision = self._headroom.provision(buffer)
        told = (buffer, settled, provision)
        if known.told is not None and all(one is other for one, other in zip(known.told, told, strict=True)):
            return None
        known.settled = settled
        write = status_write(buffer, settled, provision, self._now())
        if write is not None:
            outcome = await self._writer.write(write.action)
            if not outcome.applied:
                return _RETRY_SECONDS if outcome.result in _NOT_ANSWERED else None
            known.changed = self._now()
            if write.takes_over:
                # If another writer was faster, the next reconcile reads who owns what.
                await self._writer.write(release_action(buffer, outcome.resource_version))
        known.told = told
        tell(self._record, reference_to(BUFFERS, buffer), known, settled)
        return None

    def _again(self, made: Translation, *, soon: bool) -> float | None:
        edge = math.inf if made.next_change is None else max(made.next_change - self._now(), 0.0) + _EDGE_SECONDS
        untold = math.inf if made.pod_spec is not None else _UNTOLD_SECONDS
        wait = min(edge, LATER_SECONDS if soon else untold)
        return None if math.isinf(wait) else wait

    def _leave(self, key: Key) -> None:
        if self._sharing.drop(key):
            self._settle(key[0])


def _created(buffer: Buffer) -> float:
    created = buffer.metadata.creation_timestamp
    return math.nan if created is None else created.timestamp()


def _has_pods(buffer: Buffer) -> bool:
    return buffer.status is not None and buffer.status.pod_based_buffer_spec is not None
