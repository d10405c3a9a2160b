"""Links from reports to the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.builders.results import backtested, simulated
from support.builders.surveys import NOW, shop
from support.builders.surveys_over_time import recorded_shop
from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.reports.advice.report import render_advice
from trellis.reports.backtest import report as backtest
from trellis.reports.buckets.report import render_buckets
from trellis.reports.html.documentation import UNPUBLISHED, Documentation, parse_documentation
from trellis.reports.simulation import report as simulation

ROOT = Path(__file__).resolve().parents[4]
HOST = "https://docs.example.com/trellis"
SURVEYED = advise(shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW)
RECORDED = advise(recorded_shop(), AdvicePolicy(), EXAMPLE_PRICES, NOW)
PAGES = {
    "docs/guides/size-a-cluster.md": lambda site: render_advice(SURVEYED, "html", documentation=site),
    "docs/guides/buckets-from-history.md": lambda site: render_buckets(RECORDED, "html", documentation=site),
    "docs/guides/simulate.md": lambda site: simulation.as_html(simulated(2, points=6), site),
    "docs/guides/backtest.md": lambda site: backtest.as_html(backtested(4, 6), site),
}


@pytest.mark.parametrize("guide", PAGES)
def test_a_page_links_to_its_guide_by_title(guide: str) -> None:
    title = (ROOT / guide).read_text().splitlines()[0].removeprefix("# ")
    page = PAGES[guide](Documentation(HOST))
    assert f'documentation: <a href="{HOST}/{guide.removesuffix(".md")}.html">{title}</a>' in page


@pytest.mark.parametrize("guide", PAGES)
def test_without_an_address_a_page_names_its_guide_and_links_to_nothing(guide: str) -> None:
    page = PAGES[guide](UNPUBLISHED)
    assert f"documentation: <code>{guide}</code>" in page
    assert "<a " not in page


@pytest.mark.parametrize("guide", PAGES)
def test_links_lead_to_headings_of_the_guides_and_to_reasons(guide: str) -> None:
    for link in re.findall(rf'href="{HOST}/([^"]+)"', PAGES[guide](Documentation(HOST))):
        page, _, anchor = link.partition("#")
        text = (ROOT / page).with_suffix(".md").read_text()
        anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert not anchor or anchor in anchors or f"| `{anchor}` |" in text, link


def test_reasons_lead_to_their_meaning() -> None:
    page = render_advice(SURVEYED, "html", documentation=Documentation(HOST))
    assert f'<a href="{HOST}/docs/reference/reasons.html#MemoryAtRisk">MemoryAtRisk</a>' in page


@pytest.mark.parametrize("address", [HOST, f"{HOST}/", "http://localhost:8000", "http://[::1]:8000/docs"])
def test_the_address_of_a_site_is_taken_without_its_last_slash(address: str) -> None:
    assert parse_documentation(address) == Documentation(address.rstrip("/"))


@pytest.mark.parametrize(
    "address",
    [
        "docs.example.com",
        "//docs.example.com",
        "javascript:alert(1)",
        "ftp://docs.example.com",
        "https://",
        "https://[::1",
        "https://docs.example.com:port",
        "https://docs.example.com/?page=1",
        "https://docs.example.com/#top",
        "https://docs.example.com/a b",
        'https://docs.example.com/"onclick',
        "https://docs.example.com/\n",
    ],
)
def test_what_is_no_address_of_a_site_is_refused_with_value_and_rule(address: str) -> None:
    with pytest.raises(InvalidInput, match="must be the address of a site"):
        parse_documentation(address)
