"""How does the controller come to a translation? The core makes it, and both sides are written down if asked for."""

from __future__ import annotations

from trellis.api.buffer import Buffer
from trellis.api.resolve import EffectiveBuffer
from trellis.core.buffers import BufferSettings, Facts, Translation, translate
from trellis.core.buffers.recorded import Began, Decided, Looked
from trellis.core.model.recording import BEGAN, DECIDED, LOOKED
from trellis.runtime.recording import Recorder


class Translator:
    """Translates. What it is made from is written before, so that a translation that fails can be looked into."""

    def __init__(self, figures: BufferSettings, recorder: Recorder) -> None:
        self._figures = figures
        self._recorder = recorder
        recorder.write(BEGAN, Began(figures))

    def translate(self, buffer: Buffer, meaning: EffectiveBuffer, facts: Facts, now: float) -> Translation:
        """The pods of a Buffer, as if there were no quotas."""
        if not self._recorder.is_on:
            return translate(meaning, facts, now, self._figures)
        self._recorder.write(LOOKED, Looked.of(buffer, facts, now))
        made = translate(meaning, facts, now, self._figures)
        self._recorder.write(DECIDED, Decided.of(made))
        self._recorder.flush()
        return made
