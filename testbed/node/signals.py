"""Waits for a process, and passes on to it the signals that request an end.

Ctrl-C in a terminal reaches every process in the foreground by itself: it is not passed on, or a process would get it
several times. The kernel says which it was. Signals are blocked and taken up one by one, so that none is lost, not even
one that comes before there is a process to pass it on to.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from testbed.errors import HarnessError

REQUESTS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_WATCHED: Final = REQUESTS | {signal.SIGCHLD}

# A signal from a process has a code of zero or less, one from the terminal has not.
_LAST_CODE_OF_A_PROCESS: Final = 0


def block() -> None:
    """Keep signals until `wait` takes them up. What is started then has them blocked as well, but by `spawn`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)


def unblock() -> None:
    """Let signals do again what they do by themselves."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)


def spawn(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Start a command for which signals do what they do by themselves; its process id."""
    own = os.environ if environment is None else environment
    ignored_by_python = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawnp(command[0], list(command), own, setsigmask=(), setsigdef=[*_WATCHED, *ignored_by_python])
    except OSError as error:
        raise HarnessError(f"{command[0]}: {error.strerror}") from error


def wait(poll: Callable[[], int | None], deliver: Callable[[int], bool]) -> int:
    """The exit status that `poll` gives in the end. `deliver` is asked again until it could pass a signal on."""
    undelivered: list[int] = []
    while (status := poll()) is None:
        caught = signal.sigtimedwait(_WATCHED, 0.05 if undelivered else 1.0)
        if caught and caught.si_signo in REQUESTS and caught.si_code <= _LAST_CODE_OF_A_PROCESS:
            undelivered.append(caught.si_signo)
        undelivered = [number for number in undelivered if not deliver(number)]
    return status


def wait_for(pid: int) -> int:
    """The exit status of a child. Other children are reaped: a process 1 gets those that are orphaned."""

    def poll() -> int | None:
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == pid:
                return to_exit_status(os.waitstatus_to_exitcode(status))
            if not ended:
                return None

    return wait(poll, lambda number: send(pid, number))


def send(pid: int, number: int) -> bool:
    """Send a signal to a process that may have ended; then that is as good."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return True


def to_exit_status(code: int) -> int:
    """As a shell has it: 128 and the number of the signal that ended the process."""
    return code if code >= 0 else 128 - code


class _EndRequested(Exception):
    """A signal requested the end."""


@contextmanager
def until_requested() -> Iterator[None]:
    """A block that SIGTERM and Ctrl-C end, in order: the second of them does not interrupt the end."""
    for number in REQUESTS:
        signal.signal(number, _raise_once)
    with suppress(_EndRequested):
        yield


def pause() -> None:
    """Wait for a request; it does not return."""
    while True:
        signal.pause()


def _raise_once(_number: int, _frame: FrameType | None) -> None:
    for number in REQUESTS:
        signal.signal(number, signal.SIG_IGN)
    raise _EndRequested
