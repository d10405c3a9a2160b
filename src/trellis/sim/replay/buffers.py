"""Would the Buffer controller decide again what it decided then? Each translation is made once more from its facts."""

from __future__ import annotations

from typing import Final

from trellis.api.buffer import Buffer
from trellis.api.resolve import resolve_buffer
from trellis.core.buffers import translate
from trellis.core.buffers.recorded import Began, Decided, Looked
from trellis.sim.replay.singly import Singly


def _decided(looked: Looked, began: Began) -> Decided:
    meaning = resolve_buffer(Buffer(spec=looked.spec))
    return Decided.of(translate(meaning, looked.facts, looked.now, began.settings))


replay_buffers: Final = Singly("Buffer", Began, Looked, lambda looked: looked.buffer, _decided)
