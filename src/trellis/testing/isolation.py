"""Detects access to files, sockets, processes and clocks by code that must not have any."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

_PREFIXES = ("open", "socket.", "subprocess.", "os.", "shutil.", "tempfile.", "urllib.", "sqlite3.", "ctypes.dlopen")
# Events that touch nothing outside the process.
_HARMLESS = frozenset({"os.putenv", "os.unsetenv"})


class IsolationViolation(PermissionError):
    """Raised when isolated code opens a file, socket or process, or reads a clock."""


class _AuditHook:
    """The one audit hook of the process, active for one thread at a time: Python cannot remove a hook again."""

    def __init__(self) -> None:
        self._is_installed = False
        self._thread = 0
        self._attempts: list[str] = []

    @contextmanager
    def record_attempts(self) -> Iterator[list[str]]:
        if not self._is_installed:
            sys.addaudithook(self._hook)
            self._is_installed = True
        self._attempts = []
        self._thread = threading.get_ident()
        try:
            yield self._attempts
        finally:
            self._thread = 0

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread or not event.startswith(_PREFIXES) or event in _HARMLESS:
            return
        attempt = f"{event}({', '.join(repr(argument)[:80] for argument in arguments[:2])})"
        self._attempts.append(attempt)
        raise IsolationViolation(attempt)


_AUDIT_HOOK = _AuditHook()


@contextmanager
def forbid_io() -> Iterator[list[str]]:
    """Forbid this thread files, sockets and processes: each attempt raises `IsolationViolation` and is listed."""
    with _AUDIT_HOOK.record_attempts() as attempts:
        yield attempts


@contextmanager
def forbid_clock() -> Iterator[list[str]]:
    """Forbid the clocks of the module `time`: each attempt raises `IsolationViolation` and is listed."""
    attempts: list[str] = []

    def refused(name: str) -> Any:
        def read(*_arguments: Any) -> Any:
            attempts.append(f"time.{name}()")
            raise IsolationViolation(attempts[-1])

        return read

    names = ("time", "time_ns", "localtime", "gmtime", "ctime")
    with mock.patch.multiple(time, **{name: refused(name) for name in names}):
        yield attempts
