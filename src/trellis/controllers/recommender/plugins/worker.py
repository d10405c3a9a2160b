"""A recommender in a worker process, with the protocol of a recommender.

A process that does not reply in time is killed, and so is one that sends garbage or needs too much memory. Another
process takes its place. The caller gets the reason, and the same request is retried only after a pause that doubles
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
_MOST_FAILURES: Final = 1000
# With less than this share of the deadline left a request is not sent: the time was used by other requests.
_LEAST_SHARE: Final = 0.05

# A recommender gets one request per set of parameters, and each has its own backoff.
_RequestKey: TypeAlias = tuple[tuple[str, ParameterValue], ...]
_LOADING: Final[_RequestKey] = (("", ""),)

# Called for every failure with the name of the recommender and the reason.
ObserveFailure: TypeAlias = Callable[[str, Reason], None]


class WorkerSettings(msgspec.Struct, frozen=True):
    """The limits of a worker: seconds for a reply, bytes of memory (0 sets no limit), and seconds to start."""

    deadline: float = 10.0
    memory: int = 0
    start_seconds: float = 60.0


class _FailedRequest(msgspec.Struct, frozen=True):
    """A failure without and with the name, how many times in a row it occurred, and until when not to retry."""

    problem: str
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
        presets: Mapping[str, str],
        observe: ObserveFailure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = plugin.name
        self.declared: RecommenderDeclaration | None = None
        self._plugin = plugin
        self._settings = settings
        self._presets = presets
        self._observe = observe
        self._clock = clock
        self._pauses = RetryBackoff(initial=settings.deadline, maximum=_LONGEST_PAUSE, jitter=0.0)
        self._failures: dict[_RequestKey, _FailedRequest] = {}
        self._threads = DaemonThreads(f"recommender {plugin.name}")
        self._process: WorkerProcess | None = None
        self._closing = threading.Event()

    @property
    def needs_history(self) -> bool:
        """The declared value."""
        return self.declared is not None and self.declared.needs_history

    @property
    def needs_runs(self) -> bool:
        """The declared value."""
        return self.declared is not None and self.declared.needs_runs

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The declared parameters, with the defaults of this process."""
        return self.declared.parameters if self.declared is not None else ()

    @property
    def unavailable_reason(self) -> str:
        """The reason of a failed start, in a sentence with its name; empty if no start has failed."""
        failure = self._failures.get(_LOADING)
        return failure.message if failure else ""

    @property
    def problem(self) -> str:
        """The reason of a failed start, without its name."""
        failure = self._failures.get(_LOADING)
        return failure.problem if failure else ""

    def start(self) -> Future[None]:
        """Start the process if there is none, unless a start failed just now; the result can be awaited."""
        if self._closing.is_set() or self._find_backoff(_LOADING):
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        return self._threads.submit(self._load, time.monotonic() + self._settings.start_seconds)

    def start_estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> PendingEstimates:
        """Send a request to the process. It gets copies of the requested rows only."""
        request_key = tuple(sorted(values.items()))
        if self._closing.is_set():
            return partial(_fail, f"recommender {self.name} is stopping")
        if failure := self._find_backoff(request_key):
            return partial(_fail, failure.message)
        copy = rows.usage.detach(history=self.needs_history, runs=self.needs_runs)
        request = EstimateRequest(Rows(copy, rows.containers), values, now)
        return self._threads.submit(
            self._estimate, request, request_key, time.monotonic() + self._settings.deadline
        ).result

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Send a request, and wait for the reply."""
        return self.start_estimate(rows, values, now)()

    def close(self) -> None:
        """End the process. Requests in flight fail."""
        if self._closing.is_set():
            return
        self._closing.set()
        process = self._process
        if process is not None:
            process.end()
        self._threads.submit(self._end_process)
        self._threads.shutdown(wait=True)

    # The methods below run in the worker's own thread.

    def _load(self, deadline: float) -> None:
        if self._process is not None or self._closing.is_set() or self._find_backoff(_LOADING):
            return
        settings = self._settings
        try:
            process = WorkerProcess(self._plugin.value, deadline=settings.deadline, memory=settings.memory)
        except OSError as error:
            self._record_failure(_LOADING, CRASHED, f"its process cannot be started: {error.strerror}")
            return
        self._process = process
        if self._closing.is_set():  # since the check above: `close` has not ended this process
            self._end_process()
            return
        try:
            declared = process.load(deadline)
            parameters = replace_defaults(declared.parameters, self._presets)
        except WorkerError as failure:
            problem = {TIMED_OUT: "it did not start in time", NOT_LOADED: str(failure)}.get(
                failure.reason, f"it {failure}"
            )
            self._record_failure(_LOADING, failure.reason, problem)
        except InvalidInput as error:
            self._record_failure(_LOADING, NOT_LOADED, f"flag --set: {error}")
        else:
            self._failures.pop(_LOADING, None)
            self.declared = self.declared or msgspec.structs.replace(declared, parameters=parameters)
            _log.info("started a recommender", recommender=self.name, package=self._plugin, pid=process.pid)

    def _estimate(self, request: EstimateRequest, request_key: _RequestKey, until: float) -> Estimates:
        deadline = f"{self._settings.deadline:g} s"
        if until - time.monotonic() < _LEAST_SHARE * self._settings.deadline:
            raise RecommenderFailure(f"recommender {self.name} used its {deadline} for VPAs with other parameters")
        self._load(until)
        if self._process is None:
            raise RecommenderFailure(self.unavailable_reason or f"recommender {self.name} is restarting")
        try:
            estimates = self._process.estimate(request, until)
        except WorkerError as failure:
            if failure.reason is RAISED:
                self._observe(self.name, RAISED)
                raise RecommenderFailure(f"recommender {self.name} {failure}") from failure
            timeout_problem = f"did not answer within {deadline} and was killed"
            message = self._record_failure(
                request_key, failure.reason, timeout_problem if failure.reason is TIMED_OUT else str(failure)
            )
            self.start()
            raise RecommenderFailure(message) from failure
        except BaseException:
            self._end_process()  # how much of the request it has read is unknown
            raise
        self._failures.pop(request_key, None)
        return estimates

    def _record_failure(self, request_key: _RequestKey, reason: Reason, problem: str) -> str:
        """End the process, and start the backoff of this request; the message of the failure."""
        self._end_process()
        previous = self._failures.pop(request_key, None)
        times = previous.times + 1 if previous else 1
        pause = self._pauses.wait(times, draw=lambda: 0.0)
        origin = f" of package {self._plugin} cannot be used:" if request_key == _LOADING else ""
        message = f"recommender {self.name}{origin} {problem}"
        self._failures[request_key] = _FailedRequest(problem, message, times, self._clock() + pause)
        while len(self._failures) > _MOST_FAILURES:
            self._failures.pop(next(iter(self._failures)))
        if not self._closing.is_set():
            self._observe(self.name, reason)
            _log.error("a recommender failed", recommender=self.name, reason=reason, why=problem, pause=f"{pause:g} s")
        return message

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _find_backoff(self, request_key: _RequestKey) -> _FailedRequest | None:
        """The failure of a request that is still in backoff."""
        failure = self._failures.get(request_key)
        return failure if failure is not None and self._clock() < failure.until else None


def _fail(message: str) -> NoReturn:
    raise RecommenderFailure(message)
