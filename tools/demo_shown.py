"""Writes what `make demo` prints into getting started, and a picture of its report into the README.

    python tools/demo_shown.py

It runs the demo, which takes a minute or two. The picture needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "getting-started.md"
PICTURE = ROOT / "docs" / "images" / "demo-report.png"
BEGIN, END = "```console\n$ make demo\n", "```\n"
# Left out are the figures of single workloads, and at the end paths of the machine.
OMITTED = (("Largest differences in cost", "And nodes"), ("Open the reports", ""))
# High enough for the charts of the whole fleet.
VIEWPORT = {"width": 1280, "height": 996}


def run_demo(report: Path, *options: str, timeout: float = 1700.0) -> list[str]:
    """The lines that the demo prints in a terminal of 100 columns, without the progress."""
    done = subprocess.run(
        [sys.executable, "tools/demo.py", "--report", report, *options],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the demo failed:\n{done.stderr}")
    return done.stdout.replace(str(report.with_suffix("")), "demo-report").splitlines()


def shorten(lines: list[str]) -> list[str]:
    """The output without the parts in `OMITTED`."""
    for first, after in OMITTED:
        begin = _find_line(lines, first)
        lines = [*lines[:begin], "...", *(["", *lines[_find_line(lines, after) :]] if after else [])]
    return lines


def _find_line(lines: list[str], beginning: str) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(beginning))


def read_shown() -> list[str]:
    """The output in getting started."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return rest.partition(END)[0].splitlines()


def _write_shown(lines: list[str]) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join([*lines, END]) + after, encoding="utf-8")


def photograph(report: Path, picture: Path) -> None:
    """The top of a report, as a browser with light colours shows it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- only this function needs it

    with sync_playwright() as playwright:
        # Root, as in a container of CI, has no sandbox.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT, color_scheme="light")  # type: ignore[arg-type]
        page.goto(report.as_uri())
        page.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Runs the demo, and writes its output and a picture of its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "demo-report.html"
        lines = run_demo(report)
        _write_shown(shorten(lines))
        photograph(report, PICTURE)


if __name__ == "__main__":
    main()
