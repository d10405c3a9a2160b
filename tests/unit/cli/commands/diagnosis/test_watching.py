"""Views that are drawn again and again."""

from __future__ import annotations

import asyncio

import pytest

from trellis.cli.commands.diagnosis.watching import View, frame_view, repeat_view, run_view


async def interrupt() -> int:
    raise KeyboardInterrupt


def test_an_interrupt_is_the_end_of_a_repetition_and_no_answer_of_a_single_view() -> None:
    assert run_view(interrupt, watch=True) == 0
    with pytest.raises(KeyboardInterrupt):
        run_view(interrupt, watch=False)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_notes_stand_below_the_view_on_a_terminal_and_go_to_standard_error_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    async def make() -> View:
        return View("table\n", 2, ["no usage"])

    async def end(_seconds: float) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("trellis.cli.commands.diagnosis.watching.asyncio.sleep", end)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert run_view(lambda: repeat_view(make, 1.0), watch=True) == 2
    printed = capsys.readouterr()
    assert ("no usage" in printed.out, "no usage" in printed.err) == (is_terminal, not is_terminal)


def test_a_view_is_drawn_over_the_one_before() -> None:
    first, second = frame_view("a\nb\n", 24, is_first=True), frame_view("c\n", 24, is_first=False)
    assert first.startswith("\033[2J\033[H")
    assert second == "\033[Hc\033[K\n\033[J"


@pytest.mark.parametrize(("count", "rows", "shown"), [(23, 24, 23), (24, 24, 23), (40, 10, 9)])
def test_lines_that_do_not_fit_are_counted(count: int, rows: int, shown: int) -> None:
    text = "".join(f"line {number}\n" for number in range(count))
    lines = frame_view(text, rows, is_first=False).split("\n")[:-1]
    assert len(lines) == shown
    if count > rows - 1:
        hidden = count - (rows - 2)
        assert f"... {hidden} more lines do not fit on this screen" in lines[-1]
