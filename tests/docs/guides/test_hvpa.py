"""The guide to Hvpas says what the controller does: its reasons, flags and metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pages
from trellis.core.cluster.target_problems import TARGET_NOT_FOUND, TARGET_NOT_SCALABLE

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "guides" / "hvpa.md").read_text()
CONDITIONS = PAGE.split("\n## Conditions\n")[1].split("\n## ")[0]
# Flags of other commands.
ELSEWHERE = {"--hvpa-totals", "--min-replicas", "--explain"}
REFERENCE = (DOCS / "reference" / "hvpa-controller.md").read_text()


def test_every_condition_it_names_is_a_reason() -> None:
    named = {
        name
        for line in re.findall(r"^\| (`[A-Z].*?) \|", CONDITIONS, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    assert len(named) > 10
    known = {*pages.find_reasons(), TARGET_NOT_FOUND.code, TARGET_NOT_SCALABLE.code}
    assert named - known == set()


def test_every_flag_and_metric_it_names_is_one() -> None:
    flags = set(re.findall(r"`(?:trellis hvpa )?(--[a-z-]+)", PAGE)) - ELSEWHERE
    assert flags
    assert {flag for flag in flags if f"`{flag}`" not in REFERENCE} == set()
    for name in re.findall(r"`(trellis_hvpa_\w+)`", PAGE):
        assert f"| `{name}` |" in REFERENCE, name
