"""`make demo`: two weeks of a cluster, sized in four ways, then a day of nodes and Buffers; and reports to look at."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = "examples/simulate/demo.yaml"
NODES = "examples/simulate/buffers.yaml"
REPORT = "demo-report.html"
BEFORE = """\
Sixty workloads over two weeks: with the requests people wrote, and sized by
three recommenders.
Nothing but this machine is used. It takes a minute or two.
"""
BETWEEN = """\
And nodes, which take three minutes to boot: a day of a shop and its CI without
spare capacity, with balloon pods, and with Buffers. This is the part of the
output about nodes.
"""
AFTER = """\
Open the reports in a browser. The first has a chart for every workload, the
second one of nodes:
  {sizes}
  {nodes}

What the figures mean: docs/guides/simulate.md#reading-the-report.
Next, with .venv/bin on your PATH:
  docs/getting-started.md   your own workloads and usage, in ten minutes
  trellis check examples    what manifests would do, and what is wrong with them
  make cluster              a real control plane to try it on
"""


def main() -> None:
    """Run it as a user would, showing the commands."""
    options = _options()
    sizes, nodes = Path(options.report), _beside(Path(options.report))
    print(BEFORE, flush=True)
    _run_simulation(SCENARIO, sizes, *(["--only", options.only] if options.only else []))
    print(f"\n{BETWEEN}", flush=True)
    _run_simulation(NODES, nodes, about="Nodes")
    print(f"\n{AFTER.format(sizes=(ROOT / sizes).as_uri(), nodes=(ROOT / nodes).as_uri())}", end="")


def _beside(report: Path) -> Path:
    return report.with_stem(f"{report.stem}-nodes")


def _run_simulation(scenario: str, report: Path, *options: str, about: str = "") -> None:
    """Show the command, and what it prints: all of it, or one section of its table."""
    arguments = ["simulate", scenario, "--output-file", str(report), *options]
    print(f"  trellis {' '.join(arguments)}\n", flush=True)
    trellis = Path(sys.executable).with_name("trellis")
    # A process that prints into a pipe must know the width of the terminal.
    columns = str(shutil.get_terminal_size().columns)
    # Ctrl-C reaches the command as well, which ends with what it has by then: wait for that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        result = subprocess.run(
            [trellis, *arguments],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": columns},
            stdout=subprocess.PIPE if about else None,
            text=True,
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    if result.returncode:
        sys.exit(result.returncode)
    if about:
        print("\n".join(extract_section(result.stdout.splitlines(), about)))


def extract_section(lines: list[str], title: str) -> list[str]:
    """A table down to the end of one of its sections, and the sentence below it all.

    In a narrow terminal a table has several parts with an empty line between them, and each of them has the section.
    """
    result: list[str] = []
    for number in (number for number, line in enumerate(lines) if line == title):
        begin = number - lines[:number][::-1].index("") - 1 if result else 0
        rows = takewhile(lambda line: line.startswith(" "), lines[number + 1 :])
        result += [*lines[begin : number + 1], *rows]
    legend = next(number for number, line in enumerate(lines) if line.startswith("Percentages"))
    return [*result, *takewhile(bool, lines[legend:])]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", default=REPORT, metavar="FILE", help="where the report goes (%(default)s)")
    parser.add_argument("--only", default="", metavar="VARIANT", help="run this variant alone, which is quicker")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
