"""Commands on terminals narrower than 80 columns: tables, prose, help and errors are no wider than the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MARK = "\x1e"
COMMANDS = (
    *("--help", "explain --help", "recommend --help", "updater --help"),
    *("examples", "recommenders", "version --client"),
    "check --explain examples/web examples/startup-boost/no-boost.yaml typo.yaml",
    "recommend examples/backtest/usage.csv --quiet",
    "explain vpa/web --dump examples/explain/shop.jsonl",
    "explain deployment web --dump examples/explain/shop.jsonl",
    "explain hvpa/search --dump examples/explain/search.jsonl",
    "explain buf/web --dump examples/explain/spare.jsonl",
    "explain node/small-2 --dump examples/explain/pools.jsonl",
    *("explain nope", "frobnicate", "recommend none.csv", "simulate typo.yaml", "explain vpa/web --history 1d"),
    "recommend examples/backtest/usage.csv --recommender nope",
)
RUN = f"""if True:
    import sys
    from trellis.cli.main import main
    for command in {COMMANDS}:
        try:
            main(command.split())
        except SystemExit:
            pass
        print({MARK!r} + command, flush=True)
"""
# A longer word than the terminal is wide stays whole: a field, a file, an object or a flag with its value.
WORD = re.compile(r"\s*\S+")


def run_on_terminal(columns: int, directory: Path) -> dict[str, list[str]]:
    """The lines of each command, as a terminal of this width shows them."""
    (directory / "examples").symlink_to(ROOT / "examples")
    scenario = (ROOT / "examples" / "simulate" / "first.yaml").read_text()
    (directory / "typo.yaml").write_text(scenario.replace("peakHour", "peekHour"))
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-c", RUN]
    shown = b""
    with subprocess.Popen(command, cwd=directory, env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        while True:
            try:
                piece = os.read(controller, 1 << 16)
            except OSError:  # Linux's way to say that the terminal is closed
                break
            if not piece:
                break
            shown += piece
    os.close(controller)
    text = re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", shown.decode()).replace("\r\n", "\n")
    *parts, _ = re.split(rf"{MARK}(.*)\n", text)
    return {command: lines.split("\n") for lines, command in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("columns", [40, 60, 79])
def test_no_line_is_wider_than_the_terminal(columns: int, tmp_path: Path) -> None:
    outputs = run_on_terminal(columns, tmp_path)
    assert tuple(outputs) == COMMANDS
    wide = {
        command: long
        for command, lines in outputs.items()
        if (long := [line for line in lines if len(line) > columns and not WORD.fullmatch(line)])
    }
    assert wide == {}


def test_a_finding_keeps_its_caret_below_the_offending_column(tmp_path: Path) -> None:
    lines = run_on_terminal(40, tmp_path)["simulate typo.yaml"]
    [caret] = [number for number, line in enumerate(lines) if line.strip(" |") == "^"]
    assert lines[caret - 1][lines[caret].index("^") :].startswith("peekHour")
