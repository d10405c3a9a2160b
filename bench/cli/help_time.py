"""`trellis --help`, from the shell's point of view: what every use of the command line pays first."""

from __future__ import annotations

import compileall
import statistics
import sys
from pathlib import Path

from bench.measurement import ROOT, Row, time_command, within

SECONDS = 0.150
ROUNDS = 10


def measure() -> list[Row]:
    # An installed package has its bytecode; a fresh checkout would be measured compiling.
    compileall.compile_dir(str(ROOT / "src"), quiet=2)
    trellis = str(Path(sys.executable).with_name("trellis"))
    ours = statistics.median(time_command(trellis, "--help") for _ in range(ROUNDS))
    click = statistics.median(time_command(sys.executable, "-c", "import click") for _ in range(ROUNDS))
    return [within("trellis --help (beside: import click)", ours, SECONDS, peer=click)]
