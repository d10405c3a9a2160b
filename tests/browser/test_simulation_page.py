from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import expect

from support.browser_pages import Open
from support.builders.results import simulated
from trellis.reports.simulation.report import as_html

RESULT = simulated(workloads=12, days=14, points=84)
PAGE = as_html(RESULT)
LAST = RESULT.variants[-1]


def names(texts: list[str]) -> list[str]:
    return [name.strip() for name in texts]


def test_it_draws_its_charts_with_a_silent_console_and_no_requests(opened: Open) -> None:
    report = opened(PAGE)
    page = report.page
    expect(page.locator("[data-fleet] svg path.stroke")).not_to_have_count(0)
    for resource in ("cpu", "memory"):
        # What nodes offer, and a line for each variant.
        assert page.locator(f"[data-fleet={resource}] .frame path.stroke").count() in {4, 5}
    assert page.locator("#workload-chart .frame path.band").count() > 0
    assert page.locator("#workload-chart .frame path.mark").count() > 0
    assert report.console_messages == []
    assert [url for url in report.request_urls if not url.startswith(("file:", "data:"))] == []


def test_a_click_on_a_heading_sorts_by_it_and_a_second_click_turns_it_round(opened: Open) -> None:
    page = opened(PAGE).page
    head = page.locator("#workload-table th[data-column='1']")
    cells = page.locator("#workload-table tbody:not([hidden]) tr[data-w] td:nth-child(2)")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    money = [float(cell.get_attribute("data-v") or "nan") for cell in cells.all()]
    assert money == sorted(money, reverse=True)
    assert len(money) == 12
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(cell.get_attribute("data-v") or "nan") for cell in cells.all()] == sorted(money)


def test_typing_narrows_the_table_to_names_kinds_and_labels(opened: Open) -> None:
    page = opened(PAGE).page
    page.get_by_label("Filter").fill("shop statefulset")
    shown = page.locator("#workload-table tbody:not([hidden]) tr[data-w]:visible")
    assert shown.count() == 2
    assert page.locator("#workload-count").inner_text() == "2 of 12 shown"
    page.get_by_label("Filter").fill("")
    assert shown.count() == 12


def test_the_switch_shows_another_variant_in_chart_and_table(opened: Open) -> None:
    page = opened(PAGE).page
    # The recommended variant is shown first: the cheapest one has many more OOM kills. The first has no recommendation.
    assert page.locator("input[name=variant]:checked").get_attribute("value") == "2"
    page.locator("input[name=variant][value='0']").check(force=True)
    assert page.locator("#workload-chart .frame path.band").count() == 0
    bodies = page.locator("#workload-table tbody")
    assert [body.is_visible() for body in bodies.all()] == [True, False, False, False]


def test_a_workload_is_chosen_in_the_table_or_in_the_list(opened: Open) -> None:
    page = opened(PAGE).page
    page.locator("#workload-table tbody:not([hidden])").get_by_role("button", name="shop/search", exact=True).click()
    chosen = page.locator("#workload-select")
    assert chosen.locator("option:checked").inner_text() == "shop/search"
    assert "shop/search under Seasonal" in str(page.locator("#workload-chart .frame").get_attribute("aria-label"))
    page.get_by_role("button", name="Next workload").click()
    assert chosen.locator("option:checked").inner_text() == "backend/ledger"


def test_a_pod_with_two_containers_has_a_choice_of_them(opened: Open) -> None:
    page = opened(PAGE).page
    page.get_by_label("Workload", exact=True).select_option("shop/mailer")
    containers = page.get_by_label("Container")
    assert names(containers.locator("option").all_inner_texts()) == ["app", "sidecar"]
    page.get_by_label("Workload", exact=True).select_option("shop/search")
    assert not containers.is_visible()


def test_values_are_read_with_the_mouse_and_with_the_keyboard(opened: Open) -> None:
    page = opened(PAGE).page
    chart = page.locator("#workload-chart .frame")
    chart.scroll_into_view_if_needed()
    chart.hover(position={"x": 600, "y": 100})
    tip = page.locator("#workload-chart .tip")
    expect(tip).to_be_visible()
    assert "requested" in tip.inner_text()
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("Mon 5 Jan, 00:00 UTC")
    page.keyboard.press("End")
    expect(tip).to_contain_text("Sun 18 Jan, 20:00 UTC")
    expect(page.locator("#workload-chart [aria-live]")).to_contain_text("CPU per pod requested")


def test_a_click_on_a_key_isolates_its_line_and_a_second_one_shows_all(opened: Open) -> None:
    page = opened(PAGE).page
    lines = [page.locator(f"[data-fleet={resource}] .frame path.stroke") for resource in ("cpu", "memory")]
    before = [line.count() for line in lines]
    keys = page.locator("#fleet-legend").get_by_role("button")
    seasonal = keys.filter(has_text="Seasonal")
    seasonal.click()
    assert [line.count() for line in lines] == [count - 3 for count in before]
    assert [key.get_attribute("aria-pressed") for key in keys.all()].count("true") == 1
    assert seasonal.get_attribute("aria-pressed") == "true"
    keys.filter(has_text="Adaptive").click()
    assert [line.count() for line in lines] == [count - 3 for count in before]
    keys.filter(has_text="Adaptive").click()
    assert [line.count() for line in lines] == before


def test_a_click_with_control_hides_one_line(opened: Open) -> None:
    page = opened(PAGE).page
    lines = page.locator("[data-fleet=cpu] .frame path.stroke")
    before = lines.count()
    page.locator("#fleet-legend").get_by_role("button", name="Seasonal").click(modifiers=["Control"])
    assert lines.count() == before - 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_reader_says_otherwise(opened: Open, scheme: str) -> None:
    page = opened(PAGE, color_scheme=scheme).page

    def is_dark() -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return bool(sum(int(part) for part in colour[4:-1].split(",")) < 300)

    assert is_dark() == (scheme == "dark")
    page.locator("#theme").click()
    assert is_dark() == (scheme == "light")


def test_print_is_light_and_keeps_charts_and_tables(opened: Open) -> None:
    page = opened(PAGE, color_scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert not page.locator("#theme").is_visible()
    assert page.locator("#workload-chart svg").first.is_visible()
    assert page.locator("#workload-table").is_visible()


def test_without_scripts_every_figure_is_there(opened: Open) -> None:
    page = opened(PAGE, java_script_enabled=False).page
    assert page.locator(".card").count() == 4
    assert page.locator("#workload-table tbody:visible").count() == 4
    assert page.locator("#workload-table tr.heading:visible").count() == 4
    assert page.locator("table.compare tbody tr:visible").count() > 15
    assert not page.locator("#workload-select").is_visible()
    expect(page.get_by_text("JavaScript is off").first).to_be_visible()


def test_a_narrow_screen_scrolls_its_tables_and_not_the_page(opened: Open) -> None:
    page = opened(PAGE, viewport={"width": 390, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_names_with_markup_are_text(opened: Open) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    variants = [
        msgspec.structs.replace(
            variant,
            title=nasty,
            workloads=[
                msgspec.structs.replace(workload, name=nasty, label=nasty) for workload in variant.workloads[:1]
            ],
        )
        for variant in RESULT.variants
    ]
    report = opened(as_html(msgspec.structs.replace(RESULT, scenario=nasty, variants=variants)))
    assert report.page.locator("h1").inner_text() == nasty
    assert report.page.locator("img").count() == 0
    assert report.console_messages == []


def test_text_stands_out_from_what_it_lies_on(opened: Open) -> None:
    for scheme in ("light", "dark"):
        page = opened(PAGE, color_scheme=scheme).page
        assert page.evaluate(_CONTRASTS) >= 4.5


# The least contrast of the colours that text has, against the sheet and the page.
_CONTRASTS = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  const light = (name) => {
    probe.style.color = `var(--${name})`;
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  const grounds = ["sheet", "page", "sunk"].map(light);
  const inks = ["text", "muted", "link", "good", "bad"].map(light);
  return Math.min(...inks.flatMap((ink) => grounds.map((ground) => ratio(ink, ground))));
}"""
