"""The main program of a worker process: loads one recommender and serves requests until its parent exits.

It is started with `python -m`, and imports nothing of Trellis but the core. Requests come in on one pipe and replies go
out on another; what the recommender prints goes to the log.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import sys
import threading
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO, Final

from trellis.base.errors import InvalidInput, format_value
from trellis.controllers.recommender.plugins.worker_messages import (
    HEADER,
    EstimateFailure,
    EstimateReply,
    EstimateRequest,
    LoadFailure,
    LoadReply,
    LoadRequest,
    WorkerReply,
    encode,
    frame,
    to_reply,
)
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.validation import find_shape_problem, read_declaration

_LONGEST_MESSAGE: Final = 400


def main() -> None:
    """Serve requests until the parent exits."""
    requests, replies = _detach_pipes()
    _exit_with_parent(requests)
    begin: LoadRequest = _receive(requests)
    sys.path[:] = begin.path
    _limit_memory(begin.memory)
    recommender = _load(begin.value)
    if isinstance(recommender, LoadFailure):
        _send(replies, recommender)
        return
    _send(replies, LoadReply(read_declaration(recommender)))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    while True:
        request: EstimateRequest = _receive(requests)
        # A thread cannot end what spins in a library of C. The kernel can.
        signal.setitimer(signal.ITIMER_REAL, begin.kill_after)
        reply = _estimate(recommender, request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(replies, reply)
        del request, reply


def _detach_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes, detached from standard input and output, which the recommender may use."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def _exit_with_parent(requests: BinaryIO) -> None:
    """End when the other end of the pipe is closed, whatever the recommender is doing."""

    def watch() -> None:
        poll = select.poll()
        poll.register(requests.fileno(), 0)  # a hang-up is reported in any case
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _receive(requests: BinaryIO) -> Any:
    _, length = HEADER.unpack(_read_exactly(requests, HEADER.size))
    return pickle.loads(_read_exactly(requests, length))  # noqa: S301 - from our parent


def _read_exactly(requests: BinaryIO, size: int) -> bytes:
    """Read `size` bytes; if there are fewer, the parent has ended, and so does this process."""
    data = requests.read(size)
    if len(data) < size:
        os._exit(0)
    return data


def _send(replies: BinaryIO, reply: WorkerReply) -> None:
    replies.write(frame(encode(reply)))
    replies.flush()


def _limit_memory(memory: int) -> None:
    import resource  # noqa: PLC0415 -- Windows has none, and the client imports this module for its name

    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    if memory and (hard_limit == resource.RLIM_INFINITY or memory < hard_limit):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(OSError):
        # Of all processes in the container the kernel should kill this one first.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _load(value: str) -> Recommender | LoadFailure:
    """The recommender that an entry point leads to, or why there is none."""
    module, _, attributes = value.partition(":")
    try:
        create_recommender = reduce(getattr, attributes.split("."), importlib.import_module(module))
        recommender: Recommender = create_recommender()  # type: ignore[operator]  # whatever it is, it is tried
        read_declaration(recommender)
    except InvalidInput as error:
        return LoadFailure(f"{value} returned {error.value}, which {error.rule}")
    except BaseException as error:  # noqa: BLE001 - a module may exit, too
        return LoadFailure(f"{value} cannot be loaded: {_describe_error(error)}; {_suggest_remedy(module, error)}")
    return recommender


def _suggest_remedy(module: str, error: BaseException) -> str:
    """The remedy for a module that cannot be loaded."""
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name
        and error.name.partition(".")[0] != module.partition(".")[0]
    ):
        return f"install {error.name} beside Trellis"
    if isinstance(error, ModuleNotFoundError | AttributeError):
        return "reinstall its package, or correct its entry point"
    return f"`python -c 'import {module}'` shows where"


def _estimate(recommender: Recommender, request: EstimateRequest) -> EstimateReply | EstimateFailure:
    try:
        reply = recommender.estimate(request.rows, request.values, request.now)
        problem = find_shape_problem(reply, len(request.rows))
        return EstimateFailure(problem) if problem else to_reply(reply)
    except MemoryError:
        gc.collect()
        return EstimateFailure("ran out of memory", out_of_memory=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return EstimateFailure(f"failed: {_describe_error(error)}")


def _describe_error(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {format_value(text, _LONGEST_MESSAGE)}" if text else type(error).__name__


if __name__ == "__main__":
    main()
