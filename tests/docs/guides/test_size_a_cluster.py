"""The table and the patch in the guide to sizes are what would be printed and written."""

from __future__ import annotations

from pathlib import Path

from support.builders.surveys import NOW, shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy, LimitRule
from trellis.reports.advice.report import ManifestForm, build_manifest_files, render_advice

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "size-a-cluster.md").read_text()
SHOP = advise(shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW, parameters={"target-cpu-percentile": "0.95"})


def test_the_table_is_what_is_printed() -> None:
    assert f"```text\n{render_advice(SHOP, 'table')}```\n" in GUIDE


def test_the_patch_is_among_those_that_are_written() -> None:
    whole = build_manifest_files(SHOP, ManifestForm.PATCHES).texts["shop/deployment-checkout.yaml"]
    shown = GUIDE.split("```yaml\n")[1].split("```")[0]
    head, app = shown.split("      containers:\n")
    assert head in whole
    assert whole.endswith(f"      containers:\n{app}")


def test_every_rule_for_limits_is_explained() -> None:
    for rule in LimitRule:
        assert f"| `{rule}` |" in GUIDE
