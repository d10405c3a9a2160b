"""What the documentation shows of `make demo`: its tables, the README's summary of them, and a picture of its report.

    python tools/demo_shown.py

runs the demo, puts both where they belong and takes a minute or two. The picture needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "getting-started.md"
PICTURE = ROOT / "docs" / "images" / "demo-report.png"
BEGIN, END = "```console\n$ make demo\n", "```\n"
# Left out are the figures of single workloads, and at the end paths of the machine.
OMITTED = (("Largest differences in cost", "And nodes"), ("Open the reports", ""))
# The sentences that the README has of it: from the first of these lines up to the next that is empty.
SUMMARY = "default (as upstream)"
# As much as shows the charts of the whole fleet.
VIEWPORT = {"width": 1280, "height": 996}


def run_demo(report: Path, *options: str, timeout: float = 1700.0) -> list[str]:
    """The lines that the demo prints where a terminal has 100 columns; how far it is goes elsewhere."""
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
    """As much as a newcomer reads."""
    for first, after in OMITTED:
        begin = _find_line(lines, first)
        lines = [*lines[:begin], "...", *(["", *lines[_find_line(lines, after) :]] if after else [])]
    return lines


def _find_line(lines: list[str], beginning: str) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(beginning))


def summarize(lines: list[str]) -> list[str]:
    """One sentence for each variant."""
    begin = _find_line(lines, SUMMARY)
    return ["...", *lines[begin : lines.index("", begin)], "..."]


def read_shown(page: Path = PAGE) -> list[str]:
    """What a page shows of it now."""
    _, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    return rest.partition(END)[0].splitlines()


def _write_shown(page: Path, lines: list[str]) -> None:
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + "\n".join([*lines, END]) + after, encoding="utf-8")


def photograph(report: Path, picture: Path) -> None:
    """The top of a report, as a browser with light colours shows it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- nobody else needs it

    with sync_playwright() as playwright:
        # Root, as in a container of CI, has no sandbox.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT, color_scheme="light")  # type: ignore[arg-type]
        page.goto(report.as_uri())
        page.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Run it, and put in what it printed and what it looks like."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "demo-report.html"
        lines = run_demo(report)
        _write_shown(PAGE, shorten(lines))
        _write_shown(README, summarize(lines))
        photograph(report, PICTURE)


if __name__ == "__main__":
    main()
