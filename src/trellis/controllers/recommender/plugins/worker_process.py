"""Starts, calls and kills one worker process; every call ends by its deadline.

A process that is given up is killed with all processes it started. A worker that outlives the recommender exits when
its pipe closes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Final

from trellis.base.errors import InternalError
from trellis.base.reasons import Reason, Severity
from trellis.controllers.recommender.plugins import worker_main
from trellis.controllers.recommender.plugins.worker_messages import (
    HEADER,
    LONGEST,
    MARK,
    EstimateFailure,
    EstimateReply,
    EstimateRequest,
    LoadFailure,
    LoadReply,
    LoadRequest,
    WorkerReply,
    decode,
    frame,
    from_reply,
)
from trellis.core.recommend.protocol import Estimates
from trellis.core.recommend.validation import RecommenderDeclaration

TIMED_OUT = Reason("RecommenderTimedOut", "A recommender did not answer in time and was killed.", Severity.ERROR)
CRASHED = Reason("RecommenderCrashed", "The process of a recommender exited.", Severity.ERROR)
RECOMMENDER_ANSWER_UNREADABLE = Reason(
    "RecommenderAnswerUnreadable",
    "The process of a recommender wrote output that is not a valid answer.",
    Severity.ERROR,
)
OUT_OF_MEMORY = Reason("RecommenderOutOfMemory", "A recommender exceeded its memory limit.", Severity.ERROR)
RAISED = Reason(
    "RecommenderRaised", "A recommender raised an exception, or returned a value of the wrong type.", Severity.ERROR
)
NOT_LOADED = Reason(
    "RecommenderNotLoaded", "A recommender cannot be imported, or is not a recommender.", Severity.ERROR
)

# The environment variables that a worker gets: neither tokens nor the address of the API server.
_VARIABLES: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
_PREFIXES: Final = ("PYTHON", "LC_")
# A library of linear algebra takes memory for as many threads as there are processors.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# How much later than the parent the kernel ends a worker.
_GRACE: Final = 5.0
_PIECE: Final = 1 << 16


class WorkerError(Exception):
    """A failed call. `reason` is the kind of failure, the message follows the name of the recommender."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class WorkerProcess:
    """A process for one recommender. It belongs to one thread; only `end` may be called from another.

    Times are those of the monotonic clock. After a `WorkerError` other than RAISED the process cannot be used any more.
    """

    def __init__(self, value: str, *, deadline: float, memory: int) -> None:
        """Start it; `value` is that of the recommender's entry point."""
        self._load_request = LoadRequest(sys.path, value, memory, deadline + _GRACE)
        self._child = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-m", worker_main.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=build_worker_environment(os.environ),
            start_new_session=True,
        )
        self._request_pipe, self._reply_pipe = (
            _get_file_descriptor(self._child.stdin),
            _get_file_descriptor(self._child.stdout),
        )
        os.set_blocking(self._request_pipe, False)
        os.set_blocking(self._reply_pipe, False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def load(self, until: float) -> RecommenderDeclaration:
        """Load the recommender in the process; its declaration."""
        reply = self._exchange(self._load_request, until)
        if isinstance(reply, LoadReply):
            return reply.declaration
        if isinstance(reply, LoadFailure):
            raise WorkerError(NOT_LOADED, reply.problem)
        raise WorkerError(RECOMMENDER_ANSWER_UNREADABLE, "sent an answer before a request")

    def estimate(self, request: EstimateRequest, until: float) -> Estimates:
        """The estimates, if the reply comes in time."""
        reply = self._exchange(request, until)
        if isinstance(reply, EstimateFailure):
            if reply.out_of_memory:
                raise WorkerError(OUT_OF_MEMORY, f"{reply.problem}: its limit is {self._load_request.memory} bytes")
            raise WorkerError(RAISED, reply.problem)
        if not isinstance(reply, EstimateReply):
            raise WorkerError(RECOMMENDER_ANSWER_UNREADABLE, "sent a message that is not an answer")
        try:
            return from_reply(reply)
        except ValueError as error:
            raise WorkerError(RECOMMENDER_ANSWER_UNREADABLE, f"sent an invalid answer: {error}") from error

    def end(self) -> None:
        """End it, and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        """End it, and close its pipes."""
        self.end()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _exchange(self, message: LoadRequest | EstimateRequest, until: float) -> WorkerReply:
        self._send(frame(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)), until)
        mark, length = HEADER.unpack(self._receive(HEADER.size, until))
        if mark != MARK or length > LONGEST:
            raise WorkerError(RECOMMENDER_ANSWER_UNREADABLE, "sent an invalid answer")
        try:
            return decode(self._receive(length, until))
        except ValueError as error:
            raise WorkerError(RECOMMENDER_ANSWER_UNREADABLE, f"sent an invalid answer: {error}") from error

    def _send(self, message: bytes, until: float) -> None:
        remaining = memoryview(message)
        while remaining:
            self._wait(self._request_pipe, select.POLLOUT, until)
            try:
                remaining = remaining[os.write(self._request_pipe, remaining) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._build_exit_error(until) from None

    def _receive(self, size: int, until: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(self._reply_pipe, select.POLLIN, until)
            try:
                piece = os.read(self._reply_pipe, min(size - len(data), _PIECE))
            except BlockingIOError:
                continue
            if not piece:
                raise self._build_exit_error(until)
            data += piece
        return bytes(data)

    def _wait(self, pipe: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise WorkerError(TIMED_OUT, "did not answer in time")

    def _build_exit_error(self, until: float) -> WorkerError:
        """The process has closed its pipes, which it only does by ending."""
        try:
            status = self._child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return WorkerError(CRASHED, "closed its pipes")
        ending = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return WorkerError(CRASHED, f"crashed: its process {ending}")


def _get_file_descriptor(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise InternalError("a worker process has no pipe")
    return pipe.fileno()


def build_worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a worker gets."""
    passed = {name: text for name, text in environment.items() if name in _VARIABLES or name.startswith(_PREFIXES)}
    return _ONE_THREAD | passed
