"""The HTML page of advised requests: the answer, every container, HPAs whose scale point would move, and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import msgspec

from trellis.core.advice.policy import select_resource
from trellis.core.advice.results import AdviceRow, AdviceTotals, SurveyAdvice
from trellis.reports.advice.wording import (
    UNKNOWN,
    answer_sentences,
    are_requests_unknown,
    describe_effort,
    format_amount,
    format_cost_difference,
    format_current_request,
    format_difference,
    format_history,
    format_relative_change,
    format_signed_money,
    format_totals,
    list_facts,
    list_remarks,
    partial_notice,
    request_totals,
    scale_point_sentences,
    workload_name,
)
from trellis.reports.html.page import (
    render_banner,
    render_header,
    render_number_cell,
    render_page,
    render_search,
    render_section,
    typeset,
)
from trellis.reports.html.page import render_difference as coloured
from trellis.reports.text.numbers import GIB, format_count, format_money, format_significant

_MOST_ROWS = 3000  # about two megabytes of page
_RESOURCES = (("CPU", "cpu", "cores"), ("Memory", "memory", "GiB"))
_PART = ' class="part"'
_CLASSES = {"error": "bad", "warning": "", "info": "even"}


def as_html(advised: SurveyAdvice) -> str:
    """The whole page, the same bytes for the same advice."""
    title = "What workloads should request"
    parts = [render_header("Trellis recommend", title, list_facts(advised))]
    parts += [render_banner(partial_notice(advised))] if advised.surveyed.is_partial else []
    content = _answer(advised)
    if advised.rows:
        content += _containers(advised) + _scale_points(advised) + _namespaces(advised)
    parts += [f"<main>{content}</main>", _footer(advised)]
    return render_page(f"{title} · Trellis", "\n".join(parts), {"columns": []}, "advice.js")


def _answer(advised: SurveyAdvice) -> str:
    first, *others = answer_sentences(advised)
    rest = f"<small>{escape(' '.join(others))}</small>" if others else ""
    cards = "".join(_card(advised.total, *each) for each in _RESOURCES) if advised.rows else ""
    if advised.total.money_before > 0:
        cards += _money_card(advised)
    heading = '<h2 id="answer-title" class="unseen">What it comes to</h2>'
    content = f'{heading}<p class="lead">{escape(first)}{rest}</p><div class="cards">{cards}</div>'
    return f'<section id="answer" class="bare" aria-labelledby="answer-title">{content}</section>'


class _FigureCard(msgspec.Struct, frozen=True):
    """A figure before and after, its parts, and how they are written."""

    title: str
    per: str
    before: float
    after: float
    saved: float
    short: float
    show: Callable[[float], str] = format_significant
    is_unseen: bool = False

    def drawn(self) -> str:
        """As a part of the page."""
        apart = "" if self.is_unseen else format_relative_change(self.before, self.after)
        verdict = 1 if apart.startswith("-") else -1 if apart.startswith("+") else 0
        parts = (("now", self.before), ("not needed", self.saved), ("missing", self.short))
        figures = "".join(
            f"<dt>{name}</dt><dd>{UNKNOWN if self.is_unseen else typeset(self.show(value))}</dd>"
            for name, value in (parts[:1] if self.is_unseen else parts)
        )
        return (
            f'<article class="card" style="--accent:var(--v1)"><h3>{escape(self.title)}</h3>'
            f'<p class="price"><span>{typeset(self.show(self.after))}</span>{coloured(apart, verdict)}</p>'
            f'<p class="per">{escape(self.per)}</p><dl class="alone">{figures}</dl></article>'
        )


def _card(total: AdviceTotals, title: str, resource: str, unit: str) -> str:
    before, after = request_totals(resource, total)
    size = 1000.0 if resource == "cpu" else GIB
    saved, short = (select_resource(amounts, resource) / size for amounts in (total.saved, total.short))
    return _FigureCard(
        title, f"{unit} to request", before, after, saved, short, is_unseen=are_requests_unknown(total)
    ).drawn()


def _money_card(advised: SurveyAdvice) -> str:
    total, prices = advised.total, advised.prices
    per = f"{prices.currency} a month at {prices.name} prices"
    values = (total.money_before, total.money_after, total.money_saved, total.money_short)
    return _FigureCard("Cost", per, *values, show=format_money).drawn()


def _containers(advised: SurveyAdvice) -> str:
    shown = advised.rows[:_MOST_ROWS]
    lead = "What matters most first: lack of memory, then what most money is at stake in."
    if len(shown) < len(advised.rows):
        lead += (
            f" These are {format_count(len(shown))} of {format_count(len(advised.rows))}; the CSV file has all of them."
        )
    over = "".join(f'<th class="over part" colspan="4">{title}</th>' for title, _, _ in _RESOURCES)
    heads = [("text", "Workload"), ("text", "Container"), ("text", "Why"), ("number", "Pods")]
    heads += [("number", name) for _ in _RESOURCES for name in ("now", "advised", "limit", "in all")]
    heads += [("number", f"{advised.prices.currency}/month"), ("number", "History")]
    columns = "".join(
        f'<th scope="col" data-sort="{sort}" data-column="{number}"{_part(number)}>{escape(name)}</th>'
        for number, (sort, name) in enumerate(heads)
    )
    body = "".join(_row(row) for row in shown)
    table = (
        '<div class="scroll"><table class="figures members" id="containers-table"><thead>'
        f'<tr><td colspan="4"></td>{over}<td class="part" colspan="2"></td></tr><tr>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    return render_section(
        "containers", "Each container", render_search("containers", "name, kind or reason") + table, lead
    )


def _part(number: int) -> str:
    if number in {1, 2}:
        return ' class="left"'
    return _PART if number in {4, 8, 12} else ""


def _row(row: AdviceRow) -> str:
    workload, advice = row.workload, row.container
    kind, reason = workload.surveyed.kind, advice.reason
    cells = [
        f'<td title="{escape(kind)}">{escape(workload_name(workload))}</td>',
        f'<td class="word">{escape(advice.surveyed.name)}</td>',
        f'<td class="word"><span class="{_CLASSES[reason.severity]}" title="{escape(reason.meaning)}">'
        f"{escape(advice.why)}</span></td>",
        render_number_cell(format_count(workload.pods), workload.pods),
    ]
    for _, resource, _ in _RESOURCES:
        cells += _resource(row, resource)
    cells.append(render_number_cell(format_signed_money(advice.money), advice.money, begins=True))
    cells.append(render_number_cell(format_history(advice), advice.surveyed.days))
    words = escape(f"{kind} {advice.surveyed.name} {advice.why}".lower())
    return f'<tr data-words="{words}">{"".join(cells)}</tr>'


def _resource(row: AdviceRow, resource: str) -> list[str]:
    change, apart = row.container.of(resource), select_resource(row.container.difference, resource)
    told = format_difference(resource, apart)
    return [
        render_number_cell(format_current_request(resource, change), change.request_before, begins=True),
        render_number_cell(format_amount(resource, change.request), change.request),
        render_number_cell(format_amount(resource, change.limit), change.limit),
        f'<td data-v="{apart:.6g}">{coloured(told, 1 if apart < 0 else -1) if told else ""}</td>',
    ]


def _scale_points(advised: SurveyAdvice) -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in scale_point_sentences(advised))
    if not found:
        return ""
    lead = "A target in per cent goes by requests. The same usage is more of a smaller one, and adds pods."
    return render_section("hpas", "HPAs that would act otherwise", f"<ul>{found}</ul>", lead)


def _namespaces(advised: SurveyAdvice) -> str:
    names = ["now", "advised", ""]
    over = "".join(f'<th class="over part" colspan="3">{title}, {unit}</th>' for title, _, unit in _RESOURCES)
    heads = "".join(
        f'<th scope="col"{_PART if number % 3 == 0 else ""}>{name}</th>' for number, name in enumerate(names * 2)
    )
    rows = "".join(_namespace(name, total) for name, total in (*advised.namespaces, ("in all", advised.total)))
    table = (
        f'<div class="scroll"><table class="figures"><thead><tr><td></td>{over}<td class="part"></td></tr>'
        f'<tr><th scope="col">Namespace</th>{heads}<th scope="col" class="part">'
        f"{escape(advised.prices.currency)}/month</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return render_section("namespaces", "By namespace", table)


def _namespace(name: str, total: AdviceTotals) -> str:
    cells = []
    for _, resource, _ in _RESOURCES:
        before, after = request_totals(resource, total)
        told_before, told_after, apart = format_totals(resource, total)
        cells.append(render_number_cell(told_before, before, begins=True))
        cells.append(render_number_cell(told_after, after))
        cells.append(f"<td>{coloured(apart, 1 if apart.startswith('-') else -1)}</td>")
    cells.append(render_number_cell(format_cost_difference(total), total.money_after - total.money_before, begins=True))
    return f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>'


def _footer(advised: SurveyAdvice) -> str:
    told = "".join(f"<li>{escape(line)}</li>" for line in list_remarks(advised))
    spent = describe_effort(advised.surveyed.effort)
    return (
        f"<footer>{f'<p>Worth knowing:</p><ul>{told}</ul>' if told else ''}"
        f"{f'<p>{escape(spent)}</p>' if spent else ''}"
        "<p>Requests are for one pod, and what is in all for the pods that there are now; money is for 730 hours.</p>"
        "</footer>"
    )
