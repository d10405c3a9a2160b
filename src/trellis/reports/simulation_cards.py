"""What is seen first on a simulation's page? The cheapest variant in words, and a card for each."""

from __future__ import annotations

from html import escape

from trellis.reports.figures import days, money, significant
from trellis.reports.html.typeset import difference, typeset
from trellis.reports.simulation_compared import Row, node_row, row, scales
from trellis.reports.simulation_headline import called, sentence
from trellis.reports.simulation_measures import (
    CPU_OVER,
    CPU_REQUESTED,
    EVICTIONS,
    MEMORY_OVER,
    MEMORY_REQUESTED,
    MONEY,
    NODE_HOURS,
    NODE_MONEY,
    OOM_KILLS,
    OVERLOAD,
    REPLICAS,
    RESIZES,
    SCALINGS,
)
from trellis.reports.simulation_node_measures import HIGH_WAIT, LONGEST_WAIT, PREEMPTED, WAIT, has_nodes
from trellis.sim.results import RunResult

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


def answer(result: RunResult, shown: int) -> str:
    """The cheapest variant in words, then all of them side by side."""
    first = result.variants[0]
    if shown:
        cost, risk = sentence(result.variants[shown], first, result.currency)
        lead = f'<p class="lead">{escape(cost)}<small>{escape(risk)}</small></p>'
    elif has_nodes(result) and len(result.variants) > 1:
        # Room costs money in any case: what matters is what it buys.
        waits = [variant.fleet.waited.mean for variant in result.variants]
        best = result.variants[waits.index(min(waits))]
        lead = f'<p class="lead">{escape(sentence(best, first, result.currency)[0])}</p>'
    elif len(result.variants) > 1:
        lead = f'<p class="lead">No variant costs less than {escape(called(first))}.</p>'
    else:
        lead = ""
    cards = "".join(_card(result, number) for number in range(len(result.variants)))
    title = '<h2 id="answer-title" class="unseen">What each variant costs and risks</h2>'
    content = f'{title}{lead}<div class="cards">{cards}</div>'
    return f'<section id="answer" class="bare" aria-labelledby="answer-title">{content}</section>'


def _card(result: RunResult, number: int) -> str:
    fleets = [variant.fleet for variant in result.variants]
    always = _ON_CARDS[:2] if has_nodes(result) else _ON_CARDS
    shown = (*always, *(_SCALING if scales(result) else ()))
    told = [(title, each.unit, row(each, fleets, result.currency)) for title, each in shown]
    if has_nodes(result):
        told = [*((title, "", node_row(each, result)) for title, each in _NODES), *told]
    figures = "".join(
        f"<dt>{escape(title)}</dt><dd>{typeset(line.values[number])}{_unit(unit)}</dd>"
        + (f"<dd>{differs(line, number)}</dd>" if number else "")
        for title, unit, line in told
    )
    return (
        f'<article class="card" style="--accent:var(--v{number % 8})">'
        f"<h3>{escape(called(result.variants[number]))}</h3>{_price(result, number)}"
        f'<dl class="{"beside" if number else "alone"}">{figures}</dl></article>'
    )


def _price(result: RunResult, number: int) -> str:
    """The money, or the cores where nothing has a price."""
    fleets = [variant.fleet for variant in result.variants]
    over = f"for requests, in {days(result.end - result.scored_from)}"
    if has_nodes(result):
        over = f"for nodes, in {days(result.end - result.scored_from)}"
        line = node_row(NODE_MONEY, result)
        mine = money(result.variants[number].node_money)
        amount = f"<span><small>{escape(result.currency)}</small> {typeset(mine)}</span>"
    elif any(fleet.money > 0 for fleet in fleets):
        line = row(MONEY, fleets, result.currency)
        amount = f"<span><small>{escape(result.currency)}</small> {typeset(money(fleets[number].money))}</span>"
    else:
        line = row(CPU_REQUESTED, fleets, result.currency)
        amount = f"<span>{typeset(significant(fleets[number].requested.cpu))} <small>cores</small></span>"
    beside = differs(line, number) if number else "<small>baseline</small>"
    return f'<p class="price">{amount}{beside}</p><p class="per">{escape(over)}</p>'


def differs(line: Row, number: int) -> str:
    """The difference of a variant from the first, which has none from itself."""
    return difference(line.differences[number], line.verdicts[number]) if number else ""


def _unit(unit: str) -> str:
    return f"\N{NO-BREAK SPACE}{escape(unit)}" if unit else ""
