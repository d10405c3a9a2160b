"""Records what headroom is observed from, in the thread of the observations, before each is made."""

from __future__ import annotations

from trellis.core.nodes.news import News
from trellis.core.nodes.observing import Observed, Observer
from trellis.core.nodes.recorded import NEWS
from trellis.core.nodes.recorded_news import NewsWriting
from trellis.core.nodes.recorded_observations import (
    OBSERVED,
    OBSERVER,
    OBSERVING,
    Observations,
    ObserverBegan,
    Observing,
)
from trellis.core.nodes.up_settings import UpSettings
from trellis.runtime.recording import Recorder


def observer_by(settings: UpSettings, recorder: Recorder) -> Observer:
    """An observer; one that records if that goes anywhere."""
    return RecordedObserver(settings, recorder) if recorder.is_on else Observer(settings)


class RecordedObserver(Observer):
    """Observes, and records both sides."""

    def __init__(self, settings: UpSettings, recorder: Recorder) -> None:
        super().__init__(settings)
        self._recorder = recorder
        self._news = NewsWriting()
        self._observations = Observations()
        recorder.write(OBSERVER, ObserverBegan(settings))

    def take_in(self, news: News) -> None:
        """Record what is new, and update the snapshot."""
        for line in self._news.lines(news):
            self._recorder.write(NEWS, line)
        super().take_in(news)

    def observe(self, news: News, now: float) -> Observed:
        """Observe, and record what was found."""
        self._recorder.write(OBSERVING, Observing(now))
        observed = super().observe(news, now)
        self._recorder.write(OBSERVED, self._observations.of(observed, now))
        self._recorder.flush()
        return observed
