"""The guide to buckets from history shows what would be printed, and knows every reason."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from lived_surveys import living_shop
from sample_surveys import NOW
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.reason import Reason
from trellis.core.advice.advise import advise
from trellis.core.advice.policy import Policy
from trellis.core.hvpa.suggesting import SuggestingRules, unsuited
from trellis.reports.buckets import written

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "buckets-from-history.md").read_text()
FOUND = living_shop()
SHOWN = tuple(each for each in FOUND.workloads if each.name in ("checkout", "ledger"))
SHOP = advise(msgspec.structs.replace(FOUND, workloads=SHOWN), Policy(), EXAMPLE_PRICES, NOW)


def test_the_table_is_what_is_printed() -> None:
    assert f"```text\n{written(SHOP, 'table')}```\n" in GUIDE


def test_the_manifest_is_what_is_written() -> None:
    assert f"```yaml\n{written(SHOP, 'yaml')}```\n" in GUIDE


def test_every_reason_is_explained_and_no_other() -> None:
    declared = {each.code for each in vars(unsuited).values() if isinstance(each, Reason)}
    assert set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)) == declared


def test_the_figures_it_names_are_the_rules() -> None:
    rules = SuggestingRules()
    for figure in (f"{rules.room} times", f"at {100 * rules.utilization:.0f} %", f"{rules.varies} times"):
        assert figure in GUIDE
    assert f"margin of {100 * rules.margin - 100:.0f} %" in GUIDE
    assert rules.history == 2 * 86_400
