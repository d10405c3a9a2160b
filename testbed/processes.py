"""Runs programs so that they leave nothing behind."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from testbed import tether
from testbed.errors import HarnessError, ProgramDied
from testbed.scratch import root

# Below Linux's range for outgoing connections (32768 and up): a client of one test must not be given the
# port that a server of another is about to listen on.
PORTS = range(20000, 32000)

# A byte for each port, locked by the process that has the port, for as long as it lives: a port is listened on a good
# while after it was found free.
RESERVED = "ports.lock"

# How much of a dead program's log goes into the message.
TAIL_LINES = 15


class Process:
    """A running program with a log file. It is killed when this process ends, in whatever way."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self.log = log
        leash = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid())]
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in a terminal is ours to handle, in the right order.
            self._child = subprocess.Popen(
                [*leash, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=os.environ | dict(environment or {}),
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._child.poll() is not None

    def check(self) -> None:
        """Raise if it has ended."""
        status = self._child.poll()
        if status is not None:
            raise ProgramDied(f"{self.name} ended with status {status}; its log ends:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._child.send_signal(number)

    def freeze(self) -> None:
        """Return when it stands still: of its threads some run on for a moment after the signal."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self._child.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """Let it run on."""
        self.send(signal.SIGCONT)

    def stop(self, grace: float = 30.0) -> None:
        """Ask it to end, and make it end after `grace` seconds. Safe to call twice."""
        if self._child.poll() is None:
            self._child.terminate()
        try:
            self._child.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it without asking: a test of what happens when it dies."""
        self._child.kill()
        self._child.wait()


def reserve_ports(count: int) -> list[int]:
    """Free ports of 127.0.0.1, reserved for this process while it lives."""
    free_ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if not (_reserve(port) and is_free(port)):
            continue
        free_ports.append(port)
        if len(free_ports) == count:
            return free_ports
    raise HarnessError(f"fewer than {count} free ports in {PORTS} on 127.0.0.1")


_reserved_ports: set[int] = set()


@cache
def _reservations() -> int:
    """Open until this process ends: the kernel would give all locks back with the first descriptor that is closed."""
    file = os.open(root() / RESERVED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.utime(file)
    return file


def _reserve(port: int) -> bool:
    """Whether no other process has it, nor this one by an earlier call."""
    if port in _reserved_ports:
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _reserved_ports.add(port)
    return True


def is_free(port: int) -> bool:
    """Whether nothing listens there on 127.0.0.1."""
    with socket.socket() as probe:
        # As the servers do; without it a port whose last connection has just closed looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
