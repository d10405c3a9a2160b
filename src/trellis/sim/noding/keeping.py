"""How well did Buffers keep their room? Sums over the time that is scored, one entry for each Buffer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.core.model.keys import Key
from trellis.core.nodes.verdicts import BufferVerdict
from trellis.sim.results import BufferFigures

_HOUR = 3600.0


class _Sums(msgspec.Struct):
    chunks: float = 0.0
    full: float = 0.0
    money: float = 0.0
    hits: int = 0
    misses: int = 0


class Keeping:
    """What verdicts say holds from one plan to the next."""

    def __init__(self, scored_from: float) -> None:
        self._scored_from = scored_from
        self._since = scored_from
        self._now: tuple[BufferVerdict, ...] = ()
        self._sums: dict[Key, _Sums] = {}

    @property
    def chunks(self) -> int:
        """How many there are to be now."""
        return sum(each.chunks for each in self._now)

    def told(self, verdicts: Iterable[BufferVerdict], now: float) -> None:
        """A plan was made."""
        self._advance(now)
        self._now = tuple(verdicts)
        if now < self._scored_from:
            return
        for each in self._now:
            sums = self._sums.setdefault(each.key, _Sums())
            sums.hits += each.hits
            sums.misses += each.misses

    def figures(self, now: float) -> list[BufferFigures]:
        """All of them, by name."""
        self._advance(now)
        whole = max(now - self._scored_from, 1.0)
        return [
            BufferFigures(*key, sums.chunks / whole, sums.full / whole, sums.money / _HOUR, sums.hits, sums.misses)
            for key, sums in sorted(self._sums.items())
        ]

    def _advance(self, now: float) -> None:
        seconds = now - self._since
        if seconds <= 0:
            return
        self._since = now
        for each in self._now:
            sums = self._sums.setdefault(each.key, _Sums())
            sums.chunks += each.chunks * seconds
            sums.full += seconds if each.is_provisioned else 0.0
            sums.money += each.price * seconds
