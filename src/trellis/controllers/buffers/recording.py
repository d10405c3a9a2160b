"""Translates Buffers with `core.buffers`; records inputs and results if the recorder is on."""

from __future__ import annotations

from trellis.api.kinds.buffer import Buffer
from trellis.api.resolve import EffectiveBuffer
from trellis.core.buffers import BufferSettings, Translation, TranslationFacts, translate
from trellis.core.recording.buffers import BufferRecordingStart, RecordedTranslation, TranslationInput
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE
from trellis.runtime.recorder import Recorder


class BufferTranslator:
    """Translates Buffers. The input is recorded first, so that a translation that fails can be examined."""

    def __init__(self, figures: BufferSettings, recorder: Recorder) -> None:
        self._figures = figures
        self._recorder = recorder
        recorder.write(START_LINE, BufferRecordingStart(figures))

    def translate(self, buffer: Buffer, meaning: EffectiveBuffer, facts: TranslationFacts, now: float) -> Translation:
        """The pods of a Buffer, as if there were no quotas."""
        if not self._recorder.is_on:
            return translate(meaning, facts, now, self._figures)
        self._recorder.write(INPUT_LINE, TranslationInput.of(buffer, facts, now))
        translation = translate(meaning, facts, now, self._figures)
        self._recorder.write(DECISION_LINE, RecordedTranslation.of(translation))
        self._recorder.flush()
        return translation
