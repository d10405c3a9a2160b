"""Shows progress: bars on a terminal, and a line at every quarter where there is none.

Everything goes to standard error, so that results can be piped. Rich is imported only where bars are drawn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

# Which part, how much of it is done, and how much there is.
ReportProgress = Callable[[str, float, float], None]
# What so much a second is in words.
FormatSpeed = Callable[[float], str]

_QUARTERS: Final = 4
# Seconds before a speed says anything: news of other processes comes in bursts.
_MIN_ELAPSED: Final = 0.2


def format_plural(count: float, noun: str) -> str:
    """A count with its noun: `1 file`, `2 files`."""
    return f"{count:,.0f} {noun}" if count == 1 else f"{count:,.0f} {noun}s"


@contextmanager
def show_progress(
    parts: Sequence[str], speed: FormatSpeed, *, quiet: bool = False, stream: IO[str] | None = None
) -> Iterator[ReportProgress]:
    """Show the progress of these parts while the context is open."""
    where = stream or sys.stderr
    if quiet:
        yield lambda _part, _done, _total: None
    elif where.isatty():
        with _show_bars(parts, speed, where) as report:
            yield report
    else:
        yield _ProgressLines(speed, where)


@contextmanager
def _show_bars(parts: Sequence[str], speed: FormatSpeed, stream: IO[str]) -> Iterator[ReportProgress]:
    from rich.console import Console  # noqa: PLC0415 -- half of a command's start, for those who look at bars
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class SpeedColumn(ProgressColumn):
        """The speed in the words of the command."""

        def render(self, task: Task) -> Text:
            rate = task.finished_speed or task.speed
            return Text(speed(rate) if rate else "", style="dim")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        SpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(file=stream), expand=True) as progress:
        tasks: dict[str, Any] = {part: progress.add_task(part, start=False, total=None) for part in parts}

        def update(part: str, done: float, total: float) -> None:
            task = tasks[part]
            if not progress.tasks[task].started:
                progress.start_task(task)
            progress.update(task, completed=done, total=total)

        yield update


class _ProgressLines:
    """Reports progress in lines of text, where the output is no terminal that bars can be drawn on."""

    def __init__(self, speed: FormatSpeed, stream: IO[str]) -> None:
        self._speed = speed
        self._stream = stream
        self._began: dict[str, tuple[float, float]] = {}
        self._reported: dict[str, int] = {}

    def __call__(self, part: str, done: float, total: float) -> None:
        now = time.monotonic()
        began, previous_quarter = self._began.setdefault(part, (now, done))
        quarter = int(_QUARTERS * done / total) if total else _QUARTERS
        if quarter <= self._reported.get(part, 0):
            return
        self._reported[part] = quarter
        elapsed = now - began
        # What was done before the first report says nothing about speed either.
        rate = (done - previous_quarter) / elapsed if elapsed > _MIN_ELAPSED else 0.0
        rest = f", {self._speed(rate)}" if rate else ""
        if done >= total:
            rest += f", took {elapsed:,.1f} s"
        elif rate:
            rest += f", {(total - done) / rate:,.0f} s to go"
        print(f"{part}: {100 * done / total if total else 100:.0f} %{rest}", file=self._stream, flush=True)
