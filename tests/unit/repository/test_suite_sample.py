"""CI runs a sample of the heavy suites with each commit, and all of them in turn."""

from __future__ import annotations

import re
from pathlib import Path

from suite_sample import SAMPLE_SIZE, SUITES, choose_suites

ROOT = Path(__file__).resolve().parents[3]


def test_every_suite_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(SUITES) <= targets


def test_commits_in_a_row_run_all_suites() -> None:
    in_a_row = -(-len(SUITES) // SAMPLE_SIZE)
    for number in range(20):
        chosen = [suite for step in range(in_a_row) for suite in choose_suites(number + step)]
        assert set(chosen) == set(SUITES)


def test_ci_runs_the_sample_and_no_heavy_suite_beside_it() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make sample" in script
    assert not [suite for suite in SUITES if suite in script]
