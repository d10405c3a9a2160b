"""A recommender that does whatever it should not, as its parameter says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from trellis.core.recommend.protocol import Estimates, Parameter, ParameterKind, ParameterValues, Rows

MOODS: Final = (
    *("fine", "spin", "fork", "exit", "segfault", "raise", "garbage", "greedy", "print", "shape", "negative", "told"),
)
# Beside the module, while the mood is "told": a word of MISDEEDS, or no file to behave.
MOOD_FILE: Final = "unruly-mood.txt"


class Unruly:
    """Recommends a core and a gigabyte, or worse."""

    name = "unruly"
    needs_history = False
    parameters = (
        Parameter("mood", ParameterKind.CHOICE, "What it does.", "fine", choices=MOODS),
        Parameter("millicores", ParameterKind.NUMBER, "What it recommends.", 1000.0, "millicores", 0.0, 1e6),
    )

    def estimate(self, rows: Rows, values: ParameterValues, _now: float, /) -> Estimates:
        mood = str(values["mood"])
        MISDEEDS.get(mood, lambda: None)()
        if mood == "shape":
            return Estimates(np.zeros(3))
        cpu = np.full((3, len(rows)), values["millicores"], dtype=np.float64)
        if mood == "negative":
            cpu[0] = -1
        return Estimates.from_bounds(cpu, np.full((3, len(rows)), 1e9), {"mood": [mood] * len(rows)})


def spin() -> None:
    while True:
        pass


def fork() -> None:
    subprocess.Popen(["sleep", "600"])
    spin()


def fail() -> None:
    raise ZeroDivisionError("by design")


def write_garbage() -> None:
    for pipe in range(3, 10):
        with suppress(OSError):
            os.write(pipe, b"this is no answer, whatever it is")


def write_a_line() -> None:
    sys.stdout.write("printed by a recommender\n")
    sys.stdout.flush()


def follow_mood_file() -> None:
    path = Path(__file__).with_name(MOOD_FILE)
    if path.exists():
        MISDEEDS[path.read_text()]()


MISDEEDS: Final[dict[str, Callable[[], object]]] = {
    "spin": spin,
    "fork": fork,
    "exit": lambda: os._exit(7),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "raise": fail,
    "garbage": write_garbage,
    "greedy": lambda: np.ones(1 << 40),
    "print": write_a_line,
    "told": follow_mood_file,
}


class Homeless:
    """No recommender: it lacks most of what one has."""

    name = "homeless"


def impatient() -> Unruly:
    """A factory that never comes to an end."""
    while True:
        pass
