"""How is what plans are made from written down, where somebody wants to look at them again?

In the thread of the plans, before they are made, so that one that fails can be looked into. What becomes of the
recording is no concern of theirs.
"""

from __future__ import annotations

from msgspec.structs import replace

from trellis.core.model.recording import BEGAN, DECIDED, LOOKED
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.news import News
from trellis.core.nodes.planning import Planning, Plans, Question
from trellis.core.nodes.recorded import BOOSTED, NEWS, Began, Boosts
from trellis.core.nodes.recorded_news import NewsWriting
from trellis.core.nodes.recorded_plans import Decisions
from trellis.core.nodes.recorded_questions import QuestionWriting
from trellis.core.nodes.up_settings import UpSettings
from trellis.runtime.recording import Recorder


def planning_by(up: UpSettings, down: DownSettings, expendable_below: int, recorder: Recorder) -> Planning:
    """Who makes plans by these figures, and writes down from what if that goes anywhere."""
    if not recorder.is_on:
        return Planning(up, down, expendable_below)
    return RecordedPlanning(up, down, expendable_below, recorder)


class RecordedPlanning(Planning):
    """Plans, and both sides of them written down."""

    def __init__(self, up: UpSettings, down: DownSettings, expendable_below: int, recorder: Recorder) -> None:
        super().__init__(up, down, expendable_below)
        self._recorder = recorder
        self._news = NewsWriting()
        self._questions = QuestionWriting()
        self._boosts = Boosts()
        self._decisions = Decisions()
        recorder.write(BEGAN, Began(up, down, expendable_below))

    def take_in(self, news: News) -> None:
        """What is new is shown."""
        for line in self._news.lines(news):
            self._recorder.write(NEWS, line)
        for key, pod in news.pods.items():
            if pod is None:
                self._boosts.forget(key)
        super().take_in(news)

    def plan(self, news: News, asked: Question) -> Plans:
        """Both plans are made."""
        asked = replace(asked, budgets=tuple(asked.budgets), starts=self._boosts.asking(asked.starts))
        self._recorder.write(LOOKED, self._questions.line(asked))
        plans = super().plan(news, asked)
        if (boosted := self._boosts.taken()) is not None:
            self._recorder.write(BOOSTED, boosted)
        self._recorder.write(DECIDED, self._decisions.of(plans, asked.now))
        self._recorder.flush()
        self._questions.planned(plans)
        return plans
