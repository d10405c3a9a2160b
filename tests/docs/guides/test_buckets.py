"""The guide to buckets from history shows what would be printed, and knows every reason."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from support.builders.surveys import NOW
from support.builders.surveys_over_time import recorded_shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.reasons import Reason
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.hvpa.suggest import suitability
from trellis.core.hvpa.suggest.suggestion import SuggestionRules
from trellis.reports.buckets.report import render_buckets

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "buckets-from-history.md").read_text()
SURVEY = recorded_shop()
SHOWN = tuple(workload for workload in SURVEY.workloads if workload.name in ("checkout", "ledger"))
SHOP = advise(msgspec.structs.replace(SURVEY, workloads=SHOWN), AdvicePolicy(), EXAMPLE_PRICES, NOW)


def test_the_table_is_what_is_printed() -> None:
    assert f"```text\n{render_buckets(SHOP, 'table')}```\n" in GUIDE


def test_the_manifest_is_what_is_written() -> None:
    assert f"```yaml\n{render_buckets(SHOP, 'yaml')}```\n" in GUIDE


def test_every_reason_is_explained_and_no_other() -> None:
    declared = {var.code for var in vars(suitability).values() if isinstance(var, Reason)}
    assert set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)) == declared


def test_the_figures_it_names_are_the_rules() -> None:
    rules = SuggestionRules()
    for figure in (f"{rules.headroom} times", f"at {100 * rules.utilization:.0f} %", f"{rules.min_variation} times"):
        assert figure in GUIDE
    assert f"margin of {100 * rules.memory_margin - 100:.0f} %" in GUIDE
    assert rules.min_seconds == 2 * 86_400
