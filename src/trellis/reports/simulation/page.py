"""The HTML page of a simulation: a card per variant, the fleet, every figure, and each workload over time."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from trellis.reports.html.page import (
    render_banner,
    render_difference,
    render_field,
    render_header,
    render_number_cell,
    render_page,
    render_script_notice,
    render_search,
    render_section,
    render_switch,
    typeset,
)
from trellis.reports.measures import Measure
from trellis.reports.simulation.charts import build_chart_data, draw_node_chart
from trellis.reports.simulation.comparison import (
    MeasureGroup,
    MeasureRow,
    build_node_row,
    build_row,
    compare_variants,
    has_scaling,
)
from trellis.reports.simulation.headline import (
    NOT_PLAYED,
    align_workloads,
    compare_variant,
    describe_stopped,
    find_cheapest,
    list_facts,
    list_not_played,
    select_comparable,
    variant_title,
)
from trellis.reports.simulation.measures import (
    CPU_OVER,
    CPU_REQUESTED,
    CPU_USED,
    EVICTIONS,
    HIGH_WAIT,
    LONGEST_WAIT,
    MEMORY_OVER,
    MEMORY_REQUESTED,
    MEMORY_USED,
    MONEY,
    NODE_HOURS,
    NODE_MONEY,
    OOM_KILLS,
    OVERLOAD,
    PREEMPTED,
    REPLICAS,
    RESIZES,
    RESTARTS,
    SCALINGS,
    WAIT,
    has_nodes,
)
from trellis.reports.text.numbers import format_count, format_days, format_gib, format_money, format_significant
from trellis.sim.results import RunResult, SimulationTotals, VariantResult, WorkloadResult

_ON_CARDS = (
    ("CPU", CPU_REQUESTED),
    ("Memory", MEMORY_REQUESTED),
    ("Time over CPU", CPU_OVER),
    ("Time over memory", MEMORY_OVER),
    ("OOM kills", OOM_KILLS),
    ("Evictions", EVICTIONS),
    ("Resizes in place", RESIZES),
)
_SCALING = (("Pods", REPLICAS), ("Overload", OVERLOAD), ("Changes of the count", SCALINGS))


_NODES = (
    ("Wait, mean", WAIT),
    ("Wait, p95", HIGH_WAIT),
    ("Wait, longest", LONGEST_WAIT),
    ("Node hours", NODE_HOURS),
    ("Preempted", PREEMPTED),
)


def render_answer(result: RunResult, shown: int) -> str:
    """The cheapest variant in words, then all of them side by side."""
    first = result.variants[0]
    if shown:
        cost, risk = compare_variant(result.variants[shown], first, result.currency)
        lead = f'<p class="lead">{escape(cost)}<small>{escape(risk)}</small></p>'
    elif has_nodes(result) and len(result.variants) > 1:
        # Room costs money in any case: what matters is what it buys.
        waits = [variant.fleet.waited.mean for variant in result.variants]
        best = result.variants[waits.index(min(waits))]
        lead = f'<p class="lead">{escape(compare_variant(best, first, result.currency)[0])}</p>'
    elif len(result.variants) > 1:
        lead = f'<p class="lead">No variant costs less than {escape(variant_title(first))}.</p>'
    else:
        lead = ""
    cards = "".join(_card(result, number) for number in range(len(result.variants)))
    title = '<h2 id="answer-title" class="unseen">What each variant costs and risks</h2>'
    content = f'{title}{lead}<div class="cards">{cards}</div>'
    return f'<section id="answer" class="bare" aria-labelledby="answer-title">{content}</section>'


def _card(result: RunResult, number: int) -> str:
    fleets = [variant.fleet for variant in result.variants]
    always = _ON_CARDS[:2] if has_nodes(result) else _ON_CARDS
    shown = (*always, *(_SCALING if has_scaling(result) else ()))
    told = [(title, each.unit, build_row(each, fleets, result.currency)) for title, each in shown]
    if has_nodes(result):
        told = [*((title, "", build_node_row(each, result)) for title, each in _NODES), *told]
    figures = "".join(
        f"<dt>{escape(title)}</dt><dd>{typeset(line.values[number])}{_unit(unit)}</dd>"
        + (f"<dd>{render_row_difference(line, number)}</dd>" if number else "")
        for title, unit, line in told
    )
    return (
        f'<article class="card" style="--accent:var(--v{number % 8})">'
        f"<h3>{escape(variant_title(result.variants[number]))}</h3>{_price(result, number)}"
        f'<dl class="{"beside" if number else "alone"}">{figures}</dl></article>'
    )


def _price(result: RunResult, number: int) -> str:
    """The money, or the cores where nothing has a price."""
    fleets = [variant.fleet for variant in result.variants]
    over = f"for requests, in {format_days(result.end - result.scored_from)}"
    if has_nodes(result):
        over = f"for nodes, in {format_days(result.end - result.scored_from)}"
        line = build_node_row(NODE_MONEY, result)
        mine = format_money(result.variants[number].node_money)
        amount = f"<span><small>{escape(result.currency)}</small> {typeset(mine)}</span>"
    elif any(fleet.money > 0 for fleet in fleets):
        line = build_row(MONEY, fleets, result.currency)
        amount = f"<span><small>{escape(result.currency)}</small> {typeset(format_money(fleets[number].money))}</span>"
    else:
        line = build_row(CPU_REQUESTED, fleets, result.currency)
        amount = f"<span>{typeset(format_significant(fleets[number].requested.cpu))} <small>cores</small></span>"
    beside = render_row_difference(line, number) if number else "<small>baseline</small>"
    return f'<p class="price">{amount}{beside}</p><p class="per">{escape(over)}</p>'


def render_row_difference(line: MeasureRow, number: int) -> str:
    """The difference of a variant from the first, which has none from itself."""
    return render_difference(line.differences[number], line.verdicts[number]) if number else ""


def _unit(unit: str) -> str:
    return f"\N{NO-BREAK SPACE}{escape(unit)}" if unit else ""


_CPU = (("request", CPU_REQUESTED), ("used", CPU_USED), ("time over", CPU_OVER))
_MEMORY = (("request", MEMORY_REQUESTED), ("used", MEMORY_USED), ("time over", MEMORY_OVER))
_EVENTS = (("OOM kills", OOM_KILLS), ("evictions", EVICTIONS), ("restarts", RESTARTS), ("resizes", RESIZES))
_PODS = (("mean", REPLICAS), ("changes", SCALINGS), ("overload", OVERLOAD))
_Headed = tuple[tuple[str, Measure[SimulationTotals]], ...]


def render_workload_table(result: RunResult) -> str:
    """Namespace and name, what it is, cost, CPU, memory and events; a body for each variant."""
    groups = _groups(result)
    compared = ["change"] if len(result.variants) > 1 else []
    over = f'<th class="over part" colspan="{1 + len(compared)}">Requests, {escape(result.currency)}</th>'
    over += "".join(f'<th class="over part" colspan="{len(headed)}">{name}</th>' for name, headed in groups)
    titles = ["cost", *compared]
    starts = {0}
    for _, headed in groups:
        starts.add(len(titles))
        titles += [title for title, _ in headed]
    heads = "".join(
        f'<th scope="col" data-sort="number" data-column="{number + 2}"{_part(number in starts)}>{title}</th>'
        for number, title in enumerate(titles)
    )
    head = (
        f'<thead><tr><td colspan="2"></td>{over}</tr><tr><th scope="col" data-sort="text" data-column="0">Workload</th>'
        f'<th scope="col" class="left" data-sort="text" data-column="1">What it is</th>{heads}</tr></thead>'
    )
    # Numbered as the page's data have them, and the most expensive first.
    together = sorted(enumerate(align_workloads(result)), key=lambda each: (-each[1][0].totals.money, each[0]))
    bodies = "".join(
        _body(variant_title(variant), number, together, [headed for _, headed in groups], len(titles) + 2)
        for number, variant in enumerate(result.variants)
    )
    return f'<div class="scroll"><table class="figures members" id="workload-table">{head}{bodies}</table></div>'


def _groups(result: RunResult) -> list[tuple[str, _Headed]]:
    groups: list[tuple[str, _Headed]] = [("CPU, cores", _CPU), ("Memory, GiB", _MEMORY), ("Events", _EVENTS)]
    return [*groups, ("Pods", _PODS)] if has_scaling(result) else groups


def _body(
    name: str, variant: int, together: list[tuple[int, list[WorkloadResult]]], groups: list[_Headed], wide: int
) -> str:
    """The heading is for who sees all variants below each other: without scripts, and where it is read aloud."""
    heading = f'<tr class="heading"><th scope="rowgroup" colspan="{wide}">{escape(name)}</th></tr>'
    rows = "".join(_row(number, same, variant, groups) for number, same in together)
    return f"<tbody>{heading}{rows}</tbody>"


def _row(number: int, same: list[WorkloadResult], variant: int, groups: list[_Headed]) -> str:
    workload, first = same[variant], same[0]
    totals = workload.totals
    what = f"{workload.kind}, {workload.label}" if workload.label else workload.kind
    cells = [render_number_cell(MONEY.show(totals.money), totals.money, begins=True)]
    if len(same) > 1:
        cells.append(_against(totals.money, first.totals.money) if variant else "<td></td>")
    for headed in groups:
        values = [(measure, measure.read(totals)) for _, measure in headed]
        cells += [render_number_cell(each.show(value), value, begins=not at) for at, (each, value) in enumerate(values)]
    words = escape(what.lower())
    return (
        f'<tr data-w="{number}" data-words="{words}"><td>{escape(f"{workload.namespace}/{workload.name}")}</td>'
        f'<td class="word">{escape(what)}</td>{"".join(cells)}</tr>'
    )


def _against(money: float, first: float) -> str:
    """By how many per cent the price differs; sorted by the money."""
    told = MONEY.difference(money, first)
    return f'<td data-v="{money - first:.6g}">{render_difference(told, MONEY.verdict(money, first))}</td>'


def _part(begins: bool) -> str:
    return ' class="part"' if begins else ""


def as_html(result: RunResult) -> str:
    """The whole page, the same bytes for the same result."""
    parts = [
        render_header(
            "Trellis simulation", result.scenario, [*_period(result), *list_facts(result), f"seed {result.seed}"]
        )
    ]
    parts += [render_banner(text) for text in _warnings(result)]
    parts += _not_played(result)
    result = select_comparable(result)
    if result.variants:
        shown = find_cheapest(result)
        parts.append(
            f"<main>{render_answer(result, shown)}{_fleet(result)}{_figures(result)}{_workloads(result, shown)}</main>"
        )
    parts.append(_footer(result))
    return render_page(
        f"{result.scenario} · Trellis simulation", "\n".join(parts), build_chart_data(result), "simulation.js"
    )


def _period(result: RunResult) -> list[str]:
    begin, end = (datetime.fromtimestamp(time, UTC) for time in (result.begin, result.end))
    return [f"{begin.day} {begin:%b %Y} to {end.day} {end:%b %Y} UTC"]


def _warnings(result: RunResult) -> list[str]:
    told = ["Partial: not every variant came to its end, and the figures are what there is."] if result.partial else []
    return told + [f"Partial: {line}" for line in describe_stopped(result)]


def _not_played(result: RunResult) -> list[str]:
    """What of a dump is not played as it is in the cluster, above all figures."""
    told = "".join(f"<li><b>{escape(what)}</b>: {escape(reason)}</li>" for what, reason in list_not_played(result))
    return [f'<div class="left-out"><p>{escape(NOT_PLAYED)}</p><ul>{told}</ul></div>'] if told else []


def _fleet(result: RunResult) -> str:
    charts = "".join(f'<div class="plot" data-fleet="{resource}"></div>' for resource in ("cpu", "memory"))
    legend = '<div class="legend scripted" id="fleet-legend"></div>'
    content = f'{legend}<div class="pair">{charts}</div>{render_script_notice("Charts are missing:")}'
    content += draw_node_chart(result)
    lead = f"What all pods request in each variant, and use.{_offered(result)}"
    return render_section("fleet", "The fleet over time", content, lead)


def _offered(result: RunResult) -> str:
    """What nodes have; where they come and go that is another matter in each variant, and the baseline's is drawn."""
    baseline = result.variants[0]
    chart = baseline.chart
    cores, memory = max(chart.offered_cpu, default=0.0), max(chart.offered_memory, default=0.0)
    if cores <= 0:
        return ""
    amounts = f"{format_significant(cores)} cores and {format_gib(memory)} GiB"
    if min(chart.offered_cpu) == cores:
        return f" Nodes offer {amounts}."
    return f" Nodes offer at most {amounts} ({variant_title(baseline)})."


def _figures(result: RunResult) -> str:
    heads = "".join(
        f'<th scope="col"><i class="swatch" style="background:var(--v{number % 8})"></i>'
        f"{escape(variant_title(variant))}</th>"
        for number, variant in enumerate(result.variants)
    )
    body = "".join(_group(group, len(result.variants)) for group in compare_variants(result, everything=True))
    table = (
        '<div class="scroll"><table class="figures compare"><thead><tr>'
        f'<th scope="col"><span class="unseen">Measure</span></th>{heads}</tr></thead>{body}</table></div>'
    )
    first = variant_title(result.variants[0])
    scored = format_days(result.end - result.scored_from)
    lead = f"Of the whole fleet, in the {scored} that are scored; differences are against {first}."
    return render_section("figures", "All figures", table + _verdicts(result.variants), lead)


def _group(group: MeasureGroup, variants: int) -> str:
    heading = f'<tr class="heading"><th scope="rowgroup" colspan="{variants + 1}">{escape(group.title)}</th></tr>'
    rows = "".join(
        f'<tr><th scope="row"><div class="named"><span>{escape(line.title)}</span>'
        f'<span class="meaning">{escape(line.meaning)}</span></div></th>'
        + "".join(_value(line, number) for number in range(variants))
        + "</tr>"
        for line in group.rows
    )
    return f"<tbody>{heading}{rows}</tbody>"


def _value(line: MeasureRow, number: int) -> str:
    beside = f" {render_row_difference(line, number) or _NO_DIFFERENCE}" if number else ""
    return f"<td>{typeset(line.values[number])}{beside}</td>"


_NO_DIFFERENCE = '<span class="diff"></span>'


def _verdicts(variants: list[VariantResult]) -> str:
    """How often each reason was given, behind a fold."""
    codes = sorted({code for variant in variants for code in variant.verdicts})
    if not codes:
        return ""
    heads = "".join(f'<th scope="col">{escape(variant_title(variant))}</th>' for variant in variants)
    rows = "".join(
        f'<tr><th scope="row">{escape(code)}</th>'
        + "".join(f"<td>{typeset(format_count(variant.verdicts.get(code, 0)))}</td>" for variant in variants)
        + "</tr>"
        for code in codes
    )
    return (
        '<details class="more"><summary>Decisions by reason</summary><div class="scroll"><table class="figures">'
        f'<thead><tr><th scope="col">Reason</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _workloads(result: RunResult, shown: int) -> str:
    names = [variant_title(variant) for variant in result.variants]
    workloads = render_field("workload-select", "Workload", '<select id="workload-select"></select>')
    containers = render_field("container-select", "Container", '<select id="container-select"></select>', hidden=True)
    steps = (
        '<span class="steps">'
        '<button type="button" class="quiet" id="workload-before" aria-label="Workload before">\u2039</button>'
        '<button type="button" class="quiet" id="workload-after" aria-label="Next workload">\u203a</button></span>'
    )
    controls = (
        f'<div class="controls scripted">{render_switch("variant", "Variant", names, shown)}</div>'
        f'<div class="controls scripted">{workloads}{steps}{containers}</div>'
    )
    chart = (
        '<p class="note scripted" id="workload-told"></p><div class="plot scripted" id="workload-chart"></div>'
        f"{render_script_notice('The chart is missing:')}"
    )
    narrow = render_search("workload", "name, kind or label")
    lead = "The most expensive first. A heading sorts the table, a name shows its workload over time."
    told = f'<p class="note scripted">{lead}</p>'
    return render_section(
        "workloads", "Each workload", controls + chart + narrow + told + render_workload_table(result)
    )


def _footer(result: RunResult) -> str:
    prices = (
        f"Prices: {result.prices}, in {result.currency}. " if any(v.fleet.money > 0 for v in result.variants) else ""
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in result.notes)
    told = "A simulation tells what the same decisions would have done to the same usage; it is no forecast."
    return f"<footer>{notes}<p>{escape(prices)}{told}</p></footer>"
