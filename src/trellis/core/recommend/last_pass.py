"""What was decided in the last pass, and about whom? Kept until the next one is over, for whoever asks why.

It holds on to columns that the pass made anyway, and to the entries of the board as they are: nothing is made for each
container, and next to nothing for each VPA. What is said of one VPA is put together when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.recommend.board import Board
from trellis.core.recommend.conditions import Shortage, Texts, Transition
from trellis.core.recommend.results import PassResult
from trellis.core.recommend.served import StatusWrite
from trellis.core.recommend.shortages import shortages
from trellis.core.recommend.vpas import NO_GROUP, Entry, VpaKey
from trellis.core.usage.columns import BoolColumn

_SILENCE = Texts()


class Spoken(msgspec.Struct, frozen=True):
    """A VPA as the pass saw it: what its conditions are made from."""

    generation: int
    texts: Texts
    transitions: Mapping[str, Transition]


class LastPass(msgspec.Struct, frozen=True):
    """The result of a pass without its writes, and the VPAs by number.

    `texts` is what there was to say, of those of whom there was anything. `written` are those whose status was written:
    of the others the status is older.
    """

    time: float
    result: PassResult
    entries: Mapping[int, Entry]
    texts: Mapping[int, Texts]
    written: BoolColumn

    @classmethod
    def of(cls, result: PassResult, board: Board, writes: Iterable[StatusWrite], now: float) -> LastPass:
        """What to keep, once the board knows of these writes."""
        vpas = board.vpas
        written = np.zeros(vpas.reach, dtype=np.bool_)
        written[[vpas.find((write.namespace, write.name)) for write in writes]] = True
        troubled = vpas.problem | vpas.rivals | vpas.failed | vpas.unwarmed | vpas.unboosted | (vpas.group == NO_GROUP)
        entries = dict(vpas.entries)
        texts = {number: entries[number].texts for number in np.flatnonzero(troubled).tolist()}
        return cls(now, msgspec.structs.replace(result, writes=[]), entries, texts, written)

    def find(self, namespace: str, name: str) -> int:
        """The number of a VPA; -1 if it was not served."""
        for number, entry in self.entries.items():
            if entry.vpa.name == name and entry.vpa.namespace == namespace:
                return number
        return -1

    def sorted_keys(self, namespace: str = "") -> list[tuple[VpaKey, int]]:
        """Namespace, name and number of all VPAs, or of those of one namespace, sorted."""
        found = ((entry.vpa, number) for number, entry in self.entries.items())
        return sorted(((vpa.namespace, vpa.name), number) for vpa, number in found if namespace in ("", vpa.namespace))

    def rows(self, number: int) -> Sequence[int]:
        """Where the rows of a VPA's containers are in the columns, in the order of their names."""
        columns = self.result.columns
        own = np.isin(columns.places, np.flatnonzero(columns.owners == number))
        found: list[int] = np.flatnonzero(own).tolist()
        return sorted(found, key=lambda position: columns.keys[position].container)

    def spoken(self, number: int) -> Spoken:
        """What its conditions are made from."""
        entry = self.entries[number]
        return Spoken(entry.generation, self.texts.get(number, _SILENCE), entry.transitions)

    def shortage(self, number: int) -> Shortage | None:
        """Its container that is least known, if that is too little."""
        return shortages(np.array([number]), self.result.answers, self.result.columns).get(number)
