"""One line of the table: the measured figure, its peer, and whether it is good enough."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent


class Row(msgspec.Struct, frozen=True):
    """One row of the table, as texts; `met` is None for a row without a bar, which is for comparison."""

    title: str
    value: str
    peer: str = "-"
    ratio: str = "-"
    bar: str = "-"
    met: bool | None = None


class CannotMeasure(Exception):
    """What should be measured is not there or fails; its bar counts as missed."""


def at_least(title: str, value: str, peer: str, ratio: float, bar: float) -> Row:
    """A row whose ratio, peer to ours, must reach the bar."""
    return Row(title, value, peer, f"{ratio:.1f}x", f">= {bar:g}x", ratio >= bar)


def within(title: str, seconds: float, bar: float, peer: float | None = None) -> Row:
    """A row whose time must stay within the bar; a peer is only for comparison."""
    compared = ("-", "-") if peer is None else (in_ms(peer), f"{seconds / peer:.1f}x")
    return Row(title, in_ms(seconds), *compared, f"<= {in_ms(bar)}", seconds <= bar)


def in_ms(seconds: float) -> str:
    """A time in milliseconds, whole ones from a hundred on."""
    ms = seconds * 1000
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.1f} ms"


def run(*command: str) -> str:
    """Run a command from the root of the project; returns its output."""
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        last = completed.stderr.strip().rsplit("\n", 1)[-1] or f"exit code {completed.returncode}"
        raise CannotMeasure(f"{' '.join(command[1:])}: {last}")
    return completed.stdout


def python(*arguments: str) -> str:
    """Run this interpreter with these arguments; returns its output."""
    return run(sys.executable, *arguments)


def time_command(*command: str) -> float:
    """Seconds from starting a command to its end."""
    start = time.perf_counter()
    run(*command)
    return time.perf_counter() - start
