"""A simulation as a page: the answer first, then the fleet, every figure, and each workload over time."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from trellis.reports.figures import count, days, gibibytes, significant
from trellis.reports.html.page import banner, field, header, needs_script, page, search, section, switch
from trellis.reports.html.typeset import typeset
from trellis.reports.simulation_cards import answer, differs
from trellis.reports.simulation_compared import Group, Row, compared
from trellis.reports.simulation_data import page_data
from trellis.reports.simulation_headline import NOT_PLAYED, called, cheapest, comparable, facts, not_played, stopped
from trellis.reports.simulation_node_chart import node_chart
from trellis.reports.simulation_workloads import workload_table
from trellis.sim.results import RunResult, VariantResult


def as_html(result: RunResult) -> str:
    """The whole page, the same bytes for the same result."""
    parts = [header("Trellis simulation", result.scenario, [*_period(result), *facts(result), f"seed {result.seed}"])]
    parts += [banner(text) for text in _warnings(result)]
    parts += _not_played(result)
    result = comparable(result)
    if result.variants:
        shown = cheapest(result)
        parts.append(
            f"<main>{answer(result, shown)}{_fleet(result)}{_figures(result)}{_workloads(result, shown)}</main>"
        )
    parts.append(_footer(result))
    return page(f"{result.scenario} · Trellis simulation", "\n".join(parts), page_data(result), "simulation.js")


def _period(result: RunResult) -> list[str]:
    begin, end = (datetime.fromtimestamp(time, UTC) for time in (result.begin, result.end))
    return [f"{begin.day} {begin:%b %Y} to {end.day} {end:%b %Y} UTC"]


def _warnings(result: RunResult) -> list[str]:
    told = ["Partial: not every variant came to its end, and the figures are what there is."] if result.partial else []
    return told + [f"Partial: {line}" for line in stopped(result)]


def _not_played(result: RunResult) -> list[str]:
    """What of a dump is not played as it is in the cluster, above all figures."""
    told = "".join(f"<li><b>{escape(what)}</b>: {escape(reason)}</li>" for what, reason in not_played(result))
    return [f'<div class="left-out"><p>{escape(NOT_PLAYED)}</p><ul>{told}</ul></div>'] if told else []


def _fleet(result: RunResult) -> str:
    charts = "".join(f'<div class="plot" data-fleet="{resource}"></div>' for resource in ("cpu", "memory"))
    legend = '<div class="legend scripted" id="fleet-legend"></div>'
    content = f'{legend}<div class="pair">{charts}</div>{needs_script("Charts are missing:")}'
    content += node_chart(result)
    lead = f"What all pods request in each variant, and use.{_offered(result)}"
    return section("fleet", "The fleet over time", content, lead)


def _offered(result: RunResult) -> str:
    """What nodes have; where they come and go that is another matter in each variant, and the baseline's is drawn."""
    baseline = result.variants[0]
    chart = baseline.chart
    cores, memory = max(chart.offered_cpu, default=0.0), max(chart.offered_memory, default=0.0)
    if cores <= 0:
        return ""
    amounts = f"{significant(cores)} cores and {gibibytes(memory)} GiB"
    if min(chart.offered_cpu) == cores:
        return f" Nodes offer {amounts}."
    return f" Nodes offer at most {amounts} ({called(baseline)})."


def _figures(result: RunResult) -> str:
    heads = "".join(
        f'<th scope="col"><i class="swatch" style="background:var(--v{number % 8})"></i>{escape(called(variant))}</th>'
        for number, variant in enumerate(result.variants)
    )
    body = "".join(_group(group, len(result.variants)) for group in compared(result, everything=True))
    table = (
        '<div class="scroll"><table class="figures compare"><thead><tr>'
        f'<th scope="col"><span class="unseen">Measure</span></th>{heads}</tr></thead>{body}</table></div>'
    )
    first = called(result.variants[0])
    scored = days(result.end - result.scored_from)
    lead = f"Of the whole fleet, in the {scored} that are scored; differences are against {first}."
    return section("figures", "All figures", table + _verdicts(result.variants), lead)


def _group(group: Group, variants: int) -> str:
    heading = f'<tr class="heading"><th scope="rowgroup" colspan="{variants + 1}">{escape(group.title)}</th></tr>'
    rows = "".join(
        f'<tr><th scope="row"><div class="named"><span>{escape(line.title)}</span>'
        f'<span class="meaning">{escape(line.meaning)}</span></div></th>'
        + "".join(_value(line, number) for number in range(variants))
        + "</tr>"
        for line in group.rows
    )
    return f"<tbody>{heading}{rows}</tbody>"


def _value(line: Row, number: int) -> str:
    beside = f" {differs(line, number) or _NO_DIFFERENCE}" if number else ""
    return f"<td>{typeset(line.values[number])}{beside}</td>"


_NO_DIFFERENCE = '<span class="diff"></span>'


def _verdicts(variants: list[VariantResult]) -> str:
    """How often each reason was given, behind a fold."""
    codes = sorted({code for variant in variants for code in variant.verdicts})
    if not codes:
        return ""
    heads = "".join(f'<th scope="col">{escape(called(variant))}</th>' for variant in variants)
    rows = "".join(
        f'<tr><th scope="row">{escape(code)}</th>'
        + "".join(f"<td>{typeset(count(variant.verdicts.get(code, 0)))}</td>" for variant in variants)
        + "</tr>"
        for code in codes
    )
    return (
        '<details class="more"><summary>Decisions by reason</summary><div class="scroll"><table class="figures">'
        f'<thead><tr><th scope="col">Reason</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _workloads(result: RunResult, shown: int) -> str:
    names = [called(variant) for variant in result.variants]
    workloads = field("workload-select", "Workload", '<select id="workload-select"></select>')
    containers = field("container-select", "Container", '<select id="container-select"></select>', hidden=True)
    steps = (
        '<span class="steps">'
        '<button type="button" class="quiet" id="workload-before" aria-label="Workload before">\u2039</button>'
        '<button type="button" class="quiet" id="workload-after" aria-label="Next workload">\u203a</button></span>'
    )
    controls = (
        f'<div class="controls scripted">{switch("variant", "Variant", names, shown)}</div>'
        f'<div class="controls scripted">{workloads}{steps}{containers}</div>'
    )
    chart = (
        '<p class="note scripted" id="workload-told"></p><div class="plot scripted" id="workload-chart"></div>'
        f"{needs_script('The chart is missing:')}"
    )
    narrow = search("workload", "name, kind or label")
    lead = "The most expensive first. A heading sorts the table, a name shows its workload over time."
    told = f'<p class="note scripted">{lead}</p>'
    return section("workloads", "Each workload", controls + chart + narrow + told + workload_table(result))


def _footer(result: RunResult) -> str:
    prices = (
        f"Prices: {result.prices}, in {result.currency}. " if any(v.fleet.money > 0 for v in result.variants) else ""
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in result.notes)
    told = "A simulation tells what the same decisions would have done to the same usage; it is no forecast."
    return f"<footer>{notes}<p>{escape(prices)}{told}</p></footer>"
