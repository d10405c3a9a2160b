"""Getting started shows what `make demo` prints.

This is the only test that simulates two weeks of sixty workloads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import demo_shown
from support.docs.transcripts import matches


# It takes a minute or two of a machine that has nothing else to do.
@pytest.mark.timeout(1800)
def test_the_demo_prints_what_the_documentation_shows(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    printed = demo_shown.run_demo(report)
    for page in (report, tmp_path / "report-nodes.html"):
        assert page.read_text().lower().startswith("<!doctype html>")
    expected = demo_shown.read_shown()
    assert matches(printed, expected), "run `python tools/demo_shown.py` and look at it:\n" + "\n".join(printed)
