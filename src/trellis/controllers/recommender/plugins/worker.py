"""A recommender in a worker process, with the protocol of a recommender.

A process that does not answer in time is killed, and so is one that sends garbage or needs too much memory. Another
process takes its place. The caller gets the reason, and the same question is put again only after a pause that doubles
with each failure, so that it does not delay other VPAs for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, NoReturn, TypeAlias

import msgspec

from trellis.base.errors import InvalidInput, RecommenderFailure
from trellis.base.reasons import Reason
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin
from trellis.controllers.recommender.plugins.worker_messages import EstimateRequest
from trellis.controllers.recommender.plugins.worker_process import (
    CRASHED,
    NOT_LOADED,
    RAISED,
    TIMED_OUT,
    WorkerError,
    WorkerProcess,
)
from trellis.core.recommend.estimation import PendingEstimates
from trellis.core.recommend.parameters import Parameter, ParameterValue, ParameterValues
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.registry import replace_defaults
from trellis.core.recommend.validation import RecommenderDeclaration
from trellis.kube.flow_control import RetryBackoff
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.threads import DaemonThreads

_log: Final = Logger("trellis.recommender")

_LONGEST_PAUSE: Final = 600.0
_MOST_TROUBLES: Final = 1000
# With less than this share of its time left a question is not put: it would be blamed for what others took.
_LEAST_SHARE: Final = 0.05

# A recommender is asked about the same things with several sets of parameters; each goes wrong for itself.
_Question: TypeAlias = tuple[tuple[str, ParameterValue], ...]
_LOADING: Final[_Question] = (("", ""),)

# Told of every failure: the name of the recommender, and what kind of failure it was.
ObserveFailure: TypeAlias = Callable[[str, Reason], None]


class WorkerSettings(msgspec.Struct, frozen=True):
    """How far a worker may go: seconds for an answer, bytes of memory (0 sets no limit), and seconds to start."""

    deadline: float = 10.0
    memory: int = 0
    start_seconds: float = 60.0


class _FailedQuestion(msgspec.Struct, frozen=True):
    """What went wrong, in short and with names, how many times in a row, and until when it is not tried again."""

    why: str
    message: str
    times: int
    until: float


class RecommenderWorker:
    """A recommender in a process of its own. It has the protocol of one as soon as it is `declared`."""

    def __init__(
        self,
        plugin: RecommenderPlugin,
        settings: WorkerSettings,
        *,
        given: Mapping[str, str],
        observe: ObserveFailure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = plugin.name
        self.declared: RecommenderDeclaration | None = None
        self._plugin = plugin
        self._settings = settings
        self._given = given
        self._observe = observe
        self._clock = clock
        self._pauses = RetryBackoff(first=settings.deadline, most=_LONGEST_PAUSE, jitter=0.0)
        self._troubles: dict[_Question, _FailedQuestion] = {}
        self._threads = DaemonThreads(f"recommender {plugin.name}")
        self._process: WorkerProcess | None = None
        self._closing = threading.Event()

    @property
    def needs_history(self) -> bool:
        """As it declares."""
        return self.declared is not None and self.declared.needs_history

    @property
    def needs_runs(self) -> bool:
        """As it declares."""
        return self.declared is not None and self.declared.needs_runs

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """As it declares, with the defaults of this process."""
        return self.declared.parameters if self.declared is not None else ()

    @property
    def why_not(self) -> str:
        """Why it is not there, in a sentence with its name; empty if nothing is known yet."""
        trouble = self._troubles.get(_LOADING)
        return trouble.message if trouble else ""

    @property
    def problem(self) -> str:
        """The same without its name."""
        trouble = self._troubles.get(_LOADING)
        return trouble.why if trouble else ""

    def start(self) -> Future[None]:
        """See to it that there is a process, unless that went wrong just now; the answer can be waited for."""
        if self._closing.is_set() or self._paused(_LOADING):
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        return self._threads.submit(self._load, time.monotonic() + self._settings.start_seconds)

    def begin(self, rows: Rows, values: ParameterValues, now: float, /) -> PendingEstimates:
        """Put a question to the process. It gets copies of the rows asked about, and of nothing else."""
        question = tuple(sorted(values.items()))
        if self._closing.is_set():
            return partial(_fail, f"recommender {self.name} is being stopped")
        if trouble := self._paused(question):
            return partial(_fail, trouble.message)
        copy = rows.usage.copied(history=self.needs_history, runs=self.needs_runs)
        sent = EstimateRequest(Rows(copy, rows.containers), values, now)
        return self._threads.submit(self._ask, sent, question, time.monotonic() + self._settings.deadline).result

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """The answer, waited for."""
        return self.begin(rows, values, now)()

    def close(self) -> None:
        """End the process. Questions under way fail."""
        if self._closing.is_set():
            return
        self._closing.set()
        process = self._process
        if process is not None:
            process.end()
        self._threads.submit(self._let_go)
        self._threads.shutdown(wait=True)

    # From here on, all is done in the worker's own thread.

    def _load(self, until: float) -> None:
        if self._process is not None or self._closing.is_set() or self._paused(_LOADING):
            return
        settings = self._settings
        try:
            process = WorkerProcess(self._plugin.value, deadline=settings.deadline, memory=settings.memory)
        except OSError as error:
            self._give_up(_LOADING, CRASHED, f"its process cannot be started: {error.strerror}")
            return
        self._process = process
        if self._closing.is_set():  # since the check above, so that `close` does not know of the process
            self._let_go()
            return
        try:
            declared = process.load(until)
            parameters = replace_defaults(declared.parameters, self._given)
        except WorkerError as failure:
            why = {TIMED_OUT: "it did not start in time", NOT_LOADED: str(failure)}.get(failure.reason, f"it {failure}")
            self._give_up(_LOADING, failure.reason, why)
        except InvalidInput as error:
            self._give_up(_LOADING, NOT_LOADED, f"flag --set: {error}")
        else:
            self._troubles.pop(_LOADING, None)
            self.declared = self.declared or msgspec.structs.replace(declared, parameters=parameters)
            _log.info("started a recommender", recommender=self.name, package=self._plugin, pid=process.pid)

    def _ask(self, ask: EstimateRequest, question: _Question, until: float) -> Estimates:
        deadline = f"{self._settings.deadline:g} s"
        if until - time.monotonic() < _LEAST_SHARE * self._settings.deadline:
            raise RecommenderFailure(f"recommender {self.name} took its {deadline} for VPAs with other parameters")
        self._load(until)
        if self._process is None:
            raise RecommenderFailure(self.why_not or f"recommender {self.name} is being started again")
        try:
            answer = self._process.ask(ask, until)
        except WorkerError as failure:
            if failure.reason is RAISED:
                self._observe(self.name, RAISED)
                raise RecommenderFailure(f"recommender {self.name} {failure}") from failure
            late = f"did not answer within {deadline} and was killed"
            message = self._give_up(question, failure.reason, late if failure.reason is TIMED_OUT else str(failure))
            self.start()
            raise RecommenderFailure(message) from failure
        except BaseException:
            self._let_go()  # how much of the question it has read is unknown
            raise
        self._troubles.pop(question, None)
        return answer

    def _give_up(self, question: _Question, reason: Reason, why: str) -> str:
        """Let go of the process, and note that it is of no use to ask at once again."""
        self._let_go()
        before = self._troubles.pop(question, None)
        times = before.times + 1 if before else 1
        pause = self._pauses.wait(times, draw=lambda: 0.0)
        whose = f" of package {self._plugin} cannot be used:" if question == _LOADING else ""
        message = f"recommender {self.name}{whose} {why}"
        self._troubles[question] = _FailedQuestion(why, message, times, self._clock() + pause)
        while len(self._troubles) > _MOST_TROUBLES:
            self._troubles.pop(next(iter(self._troubles)))
        if not self._closing.is_set():
            self._observe(self.name, reason)
            _log.error("a recommender failed", recommender=self.name, reason=reason, why=why, pause=f"{pause:g} s")
        return message

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _paused(self, question: _Question) -> _FailedQuestion | None:
        """What went wrong with a question, if it is too early to put it again."""
        trouble = self._troubles.get(question)
        return trouble if trouble is not None and self._clock() < trouble.until else None


def _fail(message: str) -> NoReturn:
    raise RecommenderFailure(message)
