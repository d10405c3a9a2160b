"""Templates of pages: complete, escaped everywhere, and loaded only for a page."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any, TypeVar, cast

import msgspec
import pytest
from jinja2 import nodes
from jinja2.exceptions import UndefinedError

from support.builders.results import backtested, simulated
from support.builders.surveys import NOW, shop
from support.builders.surveys_over_time import recorded_shop
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.advice.advisor import advise
from trellis.core.advice.policy import AdvicePolicy
from trellis.core.advice.survey.model import SurveyResult
from trellis.reports.advice.report import render_advice
from trellis.reports.backtest import report as backtest
from trellis.reports.buckets.report import render_buckets
from trellis.reports.html.page import keep_together, list_spans, load_environment, render_template, typeset
from trellis.reports.simulation import report as simulation
from trellis.sim.results import NotPlayed

T = TypeVar("T")
SCRIPT = "</td></script><script>alert('x')</script><img src=\"x\" onerror='alert(1)'>"
TEMPLATES = {
    "page.html.j2",
    "parts.html.j2",
    "simulation.html.j2",
    "sparkline.svg.j2",
    "backtest.html.j2",
    "advice.html.j2",
    "buckets.html.j2",
    "node_chart.svg.j2",
    "frontier.svg.j2",
    "ladder.svg.j2",
}


def with_scripts(value: T) -> T:
    """The same value with a script in every string, keys included."""
    return cast("T", _with_scripts(value))


def _with_scripts(value: Any) -> Any:
    if type(value) is str:
        return f"{value}{SCRIPT}"
    if isinstance(value, msgspec.Struct):
        fields = {name: _with_scripts(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {_with_scripts(key): _with_scripts(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_with_scripts(item) for item in value)
    return value


def simulation_page() -> str:
    result = simulated(3, points=6)
    variants = [
        msgspec.structs.replace(variant, chart=msgspec.structs.replace(variant.chart, nodes=[3.0] * 6))
        for variant in result.variants
    ]
    not_played = [NotPlayed("Job", 2, "it has a reason")]
    result = msgspec.structs.replace(result, variants=variants, notes=["a note"], not_played=not_played)
    return simulation.as_html(with_scripts(result))


def backtest_page() -> str:
    return backtest.as_html(with_scripts(msgspec.structs.replace(backtested(4, 6), notes=["a note"])))


def named_by_scripts(survey: SurveyResult) -> SurveyResult:
    """A survey whose workloads, containers and notes have scripts in their names; kinds and units stay."""
    workloads = []
    for workload in survey.workloads:
        containers = tuple(
            msgspec.structs.replace(container, name=f"{container.name}{SCRIPT}") for container in workload.containers
        )
        workloads.append(
            msgspec.structs.replace(
                workload,
                name=f"{workload.name}{SCRIPT}",
                namespace=f"{workload.namespace}{SCRIPT}",
                kind=f"{workload.kind}{SCRIPT}",
                containers=containers,
            )
        )
    return msgspec.structs.replace(survey, workloads=tuple(workloads), notes=(*survey.notes, SCRIPT))


def advice_page() -> str:
    prices = msgspec.structs.replace(EXAMPLE_PRICES, name=SCRIPT, currency=SCRIPT)
    return render_advice(advise(named_by_scripts(shop()), AdvicePolicy(), prices, NOW), "html")


def buckets_page() -> str:
    prices = msgspec.structs.replace(EXAMPLE_PRICES, name=SCRIPT, currency=SCRIPT)
    return render_buckets(advise(named_by_scripts(recorded_shop()), AdvicePolicy(), prices, NOW), "html")


class _Elements(HTMLParser):
    """Counts elements and collects the names of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("page", [simulation_page, backtest_page, advice_page, buckets_page])
def test_scripts_in_names_labels_and_messages_stay_text(page: Any) -> None:
    text = page()
    elements = _Elements()
    elements.feed(text)
    assert elements.tags.count("script") == 2
    assert "img" not in elements.tags
    assert not any(name.startswith("on") for name in elements.attributes)
    assert text.count("&lt;script&gt;alert(&#39;x&#39;)") > 5


def test_the_package_has_every_template_and_each_compiles() -> None:
    there = {entry.name for entry in files("trellis.reports.html").joinpath("templates").iterdir()}
    assert there == TEMPLATES
    for name in TEMPLATES:
        load_environment().get_template(name)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_no_template_turns_escaping_off(name: str) -> None:
    source, _, _ = load_environment().loader.get_source(load_environment(), name)  # type: ignore[union-attr]
    tree = load_environment().parse(source)
    assert load_environment().autoescape is True
    assert {filter_node.name for filter_node in tree.find_all(nodes.Filter)} <= {
        "typeset",
        "embed_json",
        "join",
        "length",
        "keep_together",
        "lower",
    }
    assert not list(tree.find_all((nodes.MarkSafe, nodes.ScopedEvalContextModifier)))


def test_a_name_that_a_page_does_not_give_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_template("advice.html.j2", title="x")


def test_figures_are_typeset() -> None:
    assert typeset("-41 %") == "\N{MINUS SIGN}41\N{NO-BREAK SPACE}%"
    assert typeset("1.31x") == "1.31\N{MULTIPLICATION SIGN}"
    assert typeset("-") == "\N{EN DASH}"


def test_the_name_of_a_bracketed_figure_stays_on_its_line() -> None:
    assert keep_together("3 min (baseline: 33)") == "3 min (baseline:\N{NO-BREAK SPACE}33)"


def test_a_line_of_a_sentence_does_not_begin_with_a_per_cent_sign() -> None:
    assert keep_together("17 % less (-69 %)") == "17\N{NO-BREAK SPACE}% less (\N{MINUS SIGN}69\N{NO-BREAK SPACE}%)"


def test_reports_as_text_do_not_load_jinja() -> None:
    code = (
        "import sys, trellis.__main__\n"
        "import trellis.reports.simulation.report, trellis.reports.backtest.report\n"
        "import trellis.reports.advice.report, trellis.reports.buckets.report\n"
        "print({'jinja2', 'markupsafe'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_module_leaves_markup_to_the_templates() -> None:
    """No report builds markup from strings, except the page's own data and packaged files."""
    reports = files("trellis.reports")
    for report in ("simulation", "backtest", "advice", "buckets"):
        for module in reports.joinpath(report).iterdir():
            if module.name.endswith(".py") and module.name != "text.py":
                assert not re.search(r"</?(?:td|th|tr|p|div|span|svg|path)\b", module.read_text(encoding="utf-8")), (
                    module
                )


def test_cards_are_spread_over_rows_so_that_none_is_alone() -> None:
    assert [list_spans(count) for count in (0, 1, 3, 4)] == [[], [12], [4] * 3, [3] * 4]
    assert list_spans(5) == [4, 4, 4, 6, 6]
    assert list_spans(9) == [4] * 9
    for count in range(2, 40):
        assert sum(list_spans(count)) % 12 == 0
        assert 12 not in list_spans(count)
