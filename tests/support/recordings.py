"""Records the controller under test, and checks that a replay decides the same."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader
from trellis.runtime.recorder import Recorder
from trellis.sim.replay.replay import replay


class Recording:
    """The recording of the last process of a component."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._file = io.BytesIO()

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        """A process begins, and its recording with it."""
        self._file = io.BytesIO()
        recorder = Recorder(self._file)
        recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, self._component))
        yield recorder
        recorder.flush()
        report = replay(self.lines)
        assert report.first is None, report

    @property
    def lines(self) -> bytes:
        """All that has been written."""
        return self._file.getvalue()
