"""Repeats a view: redraws it in place on a terminal, appends it elsewhere, and ends on Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from trellis.cli.options import refuse_options
from trellis.cli.standard_streams import write_message

if TYPE_CHECKING:
    from trellis.cli.output_formats import Output
    from trellis.diagnosis.findings import Level

F = TypeVar("F", bound=Callable[..., Any])


class View(NamedTuple):
    """What is printed, the exit status that it stands for, and notes, such as on what could not be read."""

    text: str
    exit_status: int
    notes: Sequence[str] = ()


MakeView = Callable[[], Awaitable[View]]

_CLEAR: Final = "\033[2J\033[H"
_HOME: Final = "\033[H"
_END_OF_LINE: Final = "\033[K"
_BELOW: Final = "\033[J"
_COLOURS: Final = {"problem": "red", "warning": "yellow", "unknown": "cyan", "ok": "green"}


def watch_options(command: F) -> F:
    """Add `--watch` and `--interval`."""
    watch = click.option("-w", "--watch", is_flag=True, help="Show it again at each interval, until Ctrl-C.")
    interval = click.option(
        "--interval",
        type=click.FloatRange(min=1.0),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="Time between two views with --watch.",
    )
    return watch(interval(command))


def check_watch_options(output: Output, *, watch: bool) -> None:
    """Refuse a file for a view that is repeated, and an interval for one that is not."""
    if watch and output.file is not None:
        raise click.UsageError("--watch prints: leave out --output-file")
    if not watch:
        refuse_options("interval", because="needs --watch")


async def repeat_view(make: MakeView, interval: float) -> int:
    """Show a view until cancelled; returns the exit status of the last one."""
    on_terminal = sys.stdout.isatty()
    status, first = 0, True
    try:
        while True:
            view = await make()
            status = view.exit_status
            if on_terminal:
                # Notes to standard error would be drawn over.
                text = "\n".join((view.text, *view.notes)) if view.notes else view.text
                sys.stdout.write(frame_view(text, shutil.get_terminal_size().lines, is_first=first))
            else:
                echo_notes(view)
                sys.stdout.write(view.text if first else f"\n{view.text}")
            sys.stdout.flush()
            first = False
            await asyncio.sleep(interval)
    except asyncio.CancelledError:
        return status


def echo_notes(view: View) -> None:
    """Print the notes of a view to standard error."""
    for note in view.notes:
        write_message(note)


def frame_view(text: str, rows: int, *, is_first: bool) -> str:
    """A view over the one before it; lines that do not fit on the screen are counted instead."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > rows - 1:
        hidden = len(lines) - (rows - 2)
        lines = [*lines[: rows - 2], f"... {hidden} more lines do not fit on this screen"]
    body = "".join(f"{line}{_END_OF_LINE}\n" for line in lines)
    return f"{_CLEAR if is_first else _HOME}{body}{_BELOW}"


def run_view(run: Callable[[], Awaitable[int]], *, watch: bool) -> int:
    """Run a view, or repeat it. Ctrl-C is the usual end of a repetition; one view that it ends has no result."""

    async def main() -> int:
        return await run()

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        if not watch:
            raise
        if sys.stdout.isatty():
            click.echo()
        return 0


def choose_paint() -> Callable[[str, Level], str]:
    """Colours on a terminal, unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return lambda text, _level: text
    return lambda text, level: click.style(text, fg=_COLOURS[level], bold=True)
