"""The site that `make site` builds is complete, loads nothing from other servers, and fails on a broken link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from docs_site.build import build_site
from docs_site.navigation import Group, read_groups
from pages import find_reasons
from support.builders.results import backtested, simulated
from support.builders.surveys import NOW, shop
from support.builders.surveys_over_time import recorded_shop
from support.docs.site import INSTALLED, REASON, ROOT, build_shared_site
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.results import SurveyAdvice
from trellis.core.advice.survey.model import SurveyResult
from trellis.reports.advice.report import render_advice
from trellis.reports.backtest import report as backtest
from trellis.reports.buckets.report import render_buckets
from trellis.reports.html.documentation import Documentation
from trellis.reports.simulation import report as simulation

needs_sphinx = [pytest.mark.skipif(not INSTALLED, reason=REASON), pytest.mark.timeout(600)]

HOST = "https://docs.example.com/trellis"


def advise_shop(survey: SurveyResult) -> SurveyAdvice:
    return advise(survey, AdvicePolicy(), EXAMPLE_PRICES, NOW)


# The reports that link to the site.
REPORTS: dict[str, Callable[[Documentation], str]] = {
    "recommend": lambda site: render_advice(advise_shop(shop()), "html", documentation=site),
    "buckets": lambda site: render_buckets(advise_shop(recorded_shop()), "html", documentation=site),
    "simulation": lambda site: simulation.as_html(simulated(3, points=6), site),
    "backtest": lambda site: backtest.as_html(backtested(4, 6), site),
}

# Attributes of which a browser fetches what they name, without a click.
FETCHED = {"src", "srcset", "poster", "data", "background"}
FETCHED_LINKS = {"stylesheet", "icon", "shortcut", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch"}


class PageParser(HTMLParser):
    """What a page names: its anchors, what it links to, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and FETCHED_LINKS & set(values.get("rel", "").split()):
            self.loaded.append(values["href"])
        self.loaded += [value for name, value in values.items() if name in FETCHED]
        self.loaded += find_css_urls(values.get("style", ""))


def find_css_urls(css: str) -> list[str]:
    result = re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))
    return [url for url in result if not url.startswith("data:")]


def is_external(url: str) -> bool:
    return re.match(r"([a-z][a-z0-9+.-]*:)?//|[a-z][a-z0-9+.-]*:", url, re.IGNORECASE) is not None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shared_site(tmp_path_factory)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, PageParser]:
    return {path: PageParser(path) for path in site.rglob("*.html")}


def list_documents() -> Iterator[str]:
    """The pages that a reader looks for, as the site names them."""
    named = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    for path in [*named, *sorted((ROOT / "docs").rglob("*.md"))]:
        yield str(path.relative_to(ROOT).with_suffix(".html"))


class TestTheSite:
    pytestmark = needs_sphinx

    def test_every_page_is_in_the_navigation(self, site: Path) -> None:
        navigation = re.search(r'<div class="sidebar-tree">.*?</div>', (site / "index.html").read_text(), re.DOTALL)
        assert navigation is not None
        listed = re.findall(r'href="([^"#]+)"', navigation[0])
        assert set(list_documents()) - set(listed) == set()
        assert len(listed) == len(set(listed))

    def test_the_home_page_is_the_readme(self, site: Path) -> None:
        first = (ROOT / "README.md").read_text().splitlines()[0].removeprefix("# ")
        assert re.search(rf"<h1>{first}<a", (site / "index.html").read_text())

    def test_nothing_is_loaded_from_other_servers(self, site: Path, pages: dict[Path, PageParser]) -> None:
        loaded = {(str(path.relative_to(site)), url) for path, page in pages.items() for url in page.loaded}
        loaded |= {
            (str(path.relative_to(site)), url)
            for path in site.rglob("*.css")
            for url in find_css_urls(path.read_text())
        }
        assert len(loaded) > 100
        assert {(page, url) for page, url in loaded if is_external(url)} == set()
        missing = {
            (page, url)
            for page, url in loaded
            if not (site / page).parent.joinpath(re.sub(r"[?#].*", "", url)).exists()
        }
        assert missing == set()

    def test_no_script_names_another_server(self, site: Path) -> None:
        scripts = {
            path.name: path.read_text() for path in (site / "_static").rglob("*.js") if path.name != "page_texts.js"
        }
        assert "searchtools.js" in scripts
        code = {
            name: re.sub(r"/\*.*?\*/|^\s*//.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
            for name, text in scripts.items()
        }
        named = {(name, url) for name, text in code.items() for url in re.findall(r"https?://[^\s\"'`)]+", text)}
        # The name of a vocabulary, which is never fetched.
        assert {url for _, url in named} <= {"http://www.w3.org/2000/svg"}

    def test_links_lead_to_files_and_anchors_of_the_site(self, site: Path, pages: dict[Path, PageParser]) -> None:
        broken = set()
        for path, page in pages.items():
            for link in page.links:
                if is_external(link):
                    continue
                name, _, anchor = link.partition("#")
                target = (path.parent / unquote(re.sub(r"\?.*", "", name))).resolve() if name else path
                if not target.is_file() or (
                    anchor and target in pages and unquote(anchor) not in pages[target].anchors
                ):
                    broken.add((str(path.relative_to(site)), link))
        assert broken == set()

    def test_files_and_folders_of_the_repository_are_shown(self, site: Path, pages: dict[Path, PageParser]) -> None:
        assert "../../examples/hvpa/story-1.yaml.html" in pages[site / "docs" / "concepts" / "hvpa.html"].links
        shown = re.sub(r"<[^>]+>", "", (site / "examples" / "hvpa" / "story-1.yaml.html").read_text())
        assert (ROOT / "examples" / "hvpa" / "story-1.yaml").read_text().splitlines()[0] in shown
        folder = pages[site / "examples" / "recommender-plugin.html"]
        assert {"recommender-plugin/README.html", "recommender-plugin/pyproject.toml.html"} <= set(folder.links)

    def test_every_reason_has_an_anchor(self, pages: dict[Path, PageParser], site: Path) -> None:
        assert set(find_reasons()) <= pages[site / "docs" / "reference" / "reasons.html"].anchors

    @pytest.mark.parametrize("name", REPORTS)
    def test_links_of_reports_lead_to_pages_and_anchors(
        self, site: Path, pages: dict[Path, PageParser], tmp_path: Path, name: str
    ) -> None:
        report = tmp_path / "report.html"
        report.write_text(REPORTS[name](Documentation(HOST)))
        links = [link for link in PageParser(report).links if is_external(link)]
        assert len(links) >= 2
        for link in links:
            path, _, anchor = link.removeprefix(f"{HOST}/").partition("#")
            assert not anchor or anchor in pages[site / path].anchors, link

    def test_the_search_knows_every_page_and_its_text(self, site: Path) -> None:
        texts = json.loads(
            (site / "_static" / "page_texts.js").read_text().removeprefix("window.PAGE_TEXTS = ").rstrip(";\n")
        )
        assert {page.removesuffix(".html") for page in list_documents()} <= set(texts)
        assert "A boosted container without a readiness or startup probe" in texts["docs/reference/reasons"]
        index = (site / "searchindex.js").read_text()
        assert '"docs/guides/startup-boost"' in index
        assert '"noprob":' in index, "words are kept by their stems"


class TestStrictness:
    pytestmark = needs_sphinx

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        (tmp_path / "docs").mkdir()
        (tmp_path / "deploy").mkdir()
        (tmp_path / "README.md").write_text("# Home\n\n[all](docs/README.md)\n")
        (tmp_path / "docs" / "README.md").write_text(
            "# All\n\n## Learn\n\n| page | content |\n|---|---|\n| [A](a.md) | a |\n"
        )
        (tmp_path / "docs" / "a.md").write_text("# A page\n\n## What's next\n\nText.\n")
        (tmp_path / "deploy" / "a.yaml").write_text("kind: A\n")
        return tmp_path

    def test_links_to_pages_anchors_files_and_folders_are_accepted(self, repository: Path) -> None:
        links = "[p](README.md) [h](#whats-next) [f](../deploy/a.yaml) [d](../deploy)"
        (repository / "docs" / "a.md").write_text(f"# A page\n\n## What's next\n\n{links}\n")
        assert build_site(repository, repository / "site") == 0
        page = PageParser(repository / "site" / "docs" / "a.html")
        assert "whats-next" in page.anchors, "the anchor that code hosts give it"
        assert {"../deploy/a.yaml.html", "../deploy.html"} <= set(page.links)

    def test_a_template_under_the_name_of_a_yaml_file_is_shown_as_text(
        self, repository: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        template = (ROOT / "deploy" / "chart" / "trellis" / "templates" / "alerts.yaml").read_text()
        (repository / "deploy" / "alerts.yaml").write_text(template)
        (repository / "docs" / "a.md").write_text("# A page\n\n## What's next\n\n[d](../deploy)\n")
        assert build_site(repository, repository / "site") == 0
        assert capfd.readouterr().err == ""
        shown = re.sub(r"<[^>]+>", "", (repository / "site" / "deploy" / "alerts.yaml.html").read_text())
        assert template.splitlines()[1] in unescape(shown)

    @pytest.mark.parametrize(
        "link", ["b.md", "README.md#nowhere", "#nowhere", "../deploy/b.yaml", "../charts", "images/missing.png"]
    )
    def test_a_broken_link_fails(self, repository: Path, link: str, capfd: pytest.CaptureFixture[str]) -> None:
        mark = "!" if link.endswith(".png") else ""
        (repository / "docs" / "a.md").write_text(f"# A page\n\n{mark}[link]({link})\n")
        assert build_site(repository, repository / "site") != 0
        assert "docs/a.md:3" in capfd.readouterr().err

    def test_a_page_that_no_table_lists_fails(self, repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
        (repository / "docs" / "b.md").write_text("# B page\n")
        assert build_site(repository, repository / "site") != 0
        assert "docs/b.md" in capfd.readouterr().err


def test_groups_of_the_navigation_are_the_tables_of_the_overview() -> None:
    row = "| page | content |\n|---|---|\n| [{}]({}) | [other](other.md) |\n\n"
    text = f"# All\n\n## Learn\n\n{row.format('A', 'guides/a.md')}## Empty\n\n## More\n\n{row.format('C', '../C.md')}"
    assert read_groups(text) == [Group("Learn", [("A", "docs/guides/a")]), Group("More", [("C", "C")])]
