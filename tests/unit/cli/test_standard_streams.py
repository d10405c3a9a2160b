"""Output that nothing reads any more: `trellis ... | head -1`, or `| true`; and messages on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.cli.standard_streams import write_message

ROOT = Path(__file__).resolve().parents[3]
USAGE = ROOT / "examples/backtest/usage.csv"
MISTAKES = ROOT / "docs/guides/mistakes.yaml"


def run_without_reader(directory: Path, *arguments: str | Path) -> tuple[int, str]:
    """The exit status and standard error of a command whose standard output is a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        completed = subprocess.run(
            [sys.executable, "-m", "trellis", *arguments],
            cwd=directory,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)
    return completed.returncode, completed.stderr


def test_files_are_written_though_nothing_reads_the_table(tmp_path: Path) -> None:
    status, messages = run_without_reader(
        tmp_path, "backtest", USAGE, "--quiet", "--recommenders", "default", "--html", "x.html", "--json", "x.json"
    )
    assert (status, messages) == (0, "wrote x.html\nwrote x.json\n")
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "x.json").read_text().startswith("{")


def test_a_closed_pipe_leaves_the_status_of_the_work(tmp_path: Path) -> None:
    assert run_without_reader(tmp_path, "check", MISTAKES) == (1, "")
    assert run_without_reader(tmp_path, "recommenders") == (0, "")
    status, messages = run_without_reader(tmp_path, "check", "nowhere.yaml")
    assert status == 2
    assert "nowhere.yaml" in messages


@pytest.mark.parametrize(("columns", "lines"), [("30", 3), ("100", 1), ("wide", 1)])
def test_a_message_is_wrapped_on_a_terminal(
    columns: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    write_message("there is no such file; name another with --kubeconfig")
    shown = capsys.readouterr().err
    assert (shown.startswith("trellis: there is"), shown.count("\n")) == (True, lines)
    assert all(line.startswith("  ") for line in shown.splitlines()[1:])


def test_a_message_for_programs_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_message("word " * 40)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_result_goes_to_its_file_though_nothing_reads_standard_output(tmp_path: Path) -> None:
    status, messages = run_without_reader(
        tmp_path, "recommend", USAGE, "--quiet", "-o", "json", "--output-file", "advice.json"
    )
    assert (status, messages) == (0, "wrote advice.json\n")
    assert (tmp_path / "advice.json").stat().st_size
