"""Advice as a page: the answer first, then every container, HPAs that would act otherwise, and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import msgspec

from trellis.core.advice.advised import Advised, Row, Totals
from trellis.core.advice.policy import part
from trellis.reports.advice_amounts import (
    UNKNOWN,
    amount,
    difference,
    is_unseen,
    money_apart,
    relative,
    requested_before,
    rounded_days,
    signed_money,
    sums,
    total_of,
)
from trellis.reports.advice_words import answer, effort, facts, named, partial, remarks, scale_points
from trellis.reports.figures import GIB, count, money, significant
from trellis.reports.html.page import banner, header, page, search, section
from trellis.reports.html.typeset import difference as coloured
from trellis.reports.html.typeset import number_cell, typeset

_MOST_ROWS = 3000  # about two megabytes of page
_RESOURCES = (("CPU", "cpu", "cores"), ("Memory", "memory", "GiB"))
_PART = ' class="part"'
_CLASSES = {"error": "bad", "warning": "", "info": "even"}


def as_html(advised: Advised) -> str:
    """The whole page, the same bytes for the same advice."""
    title = "What workloads should request"
    parts = [header("Trellis recommend", title, facts(advised))]
    parts += [banner(partial(advised))] if advised.surveyed.is_partial else []
    content = _answer(advised)
    if advised.rows:
        content += _containers(advised) + _scale_points(advised) + _namespaces(advised)
    parts += [f"<main>{content}</main>", _footer(advised)]
    return page(f"{title} · Trellis", "\n".join(parts), {"columns": []}, "advice.js")


def _answer(advised: Advised) -> str:
    first, *others = answer(advised)
    rest = f"<small>{escape(' '.join(others))}</small>" if others else ""
    cards = "".join(_card(advised.total, *each) for each in _RESOURCES) if advised.rows else ""
    if advised.total.money_before > 0:
        cards += _money_card(advised)
    heading = '<h2 id="answer-title" class="unseen">What it comes to</h2>'
    content = f'{heading}<p class="lead">{escape(first)}{rest}</p><div class="cards">{cards}</div>'
    return f'<section id="answer" class="bare" aria-labelledby="answer-title">{content}</section>'


class _Card(msgspec.Struct, frozen=True):
    """A figure before and after, its parts, and how they are written."""

    title: str
    per: str
    before: float
    after: float
    saved: float
    short: float
    show: Callable[[float], str] = significant
    is_unseen: bool = False

    def drawn(self) -> str:
        """As a part of the page."""
        apart = "" if self.is_unseen else relative(self.before, self.after)
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


def _card(total: Totals, title: str, resource: str, unit: str) -> str:
    before, after = total_of(resource, total)
    size = 1000.0 if resource == "cpu" else GIB
    saved, short = (part(amounts, resource) / size for amounts in (total.saved, total.short))
    return _Card(title, f"{unit} to request", before, after, saved, short, is_unseen=is_unseen(total)).drawn()


def _money_card(advised: Advised) -> str:
    total, prices = advised.total, advised.prices
    per = f"{prices.currency} a month at {prices.name} prices"
    values = (total.money_before, total.money_after, total.money_saved, total.money_short)
    return _Card("Cost", per, *values, show=money).drawn()


def _containers(advised: Advised) -> str:
    shown = advised.rows[:_MOST_ROWS]
    lead = "What matters most first: lack of memory, then what most money is at stake in."
    if len(shown) < len(advised.rows):
        lead += f" These are {count(len(shown))} of {count(len(advised.rows))}; the CSV file has all of them."
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
    return section("containers", "Each container", search("containers", "name, kind or reason") + table, lead)


def _part(number: int) -> str:
    if number in {1, 2}:
        return ' class="left"'
    return _PART if number in {4, 8, 12} else ""


def _row(row: Row) -> str:
    workload, advice = row.workload, row.container
    kind, reason = workload.surveyed.kind, advice.reason
    cells = [
        f'<td title="{escape(kind)}">{escape(named(workload))}</td>',
        f'<td class="word">{escape(advice.surveyed.name)}</td>',
        f'<td class="word"><span class="{_CLASSES[reason.severity]}" title="{escape(reason.meaning)}">'
        f"{escape(advice.why)}</span></td>",
        number_cell(count(workload.pods), workload.pods),
    ]
    for _, resource, _ in _RESOURCES:
        cells += _resource(row, resource)
    cells.append(number_cell(signed_money(advice.money), advice.money, begins=True))
    cells.append(number_cell(rounded_days(advice), advice.surveyed.days))
    words = escape(f"{kind} {advice.surveyed.name} {advice.why}".lower())
    return f'<tr data-words="{words}">{"".join(cells)}</tr>'


def _resource(row: Row, resource: str) -> list[str]:
    change, apart = row.container.of(resource), part(row.container.difference, resource)
    told = difference(resource, apart)
    return [
        number_cell(requested_before(resource, change), change.request_before, begins=True),
        number_cell(amount(resource, change.request), change.request),
        number_cell(amount(resource, change.limit), change.limit),
        f'<td data-v="{apart:.6g}">{coloured(told, 1 if apart < 0 else -1) if told else ""}</td>',
    ]


def _scale_points(advised: Advised) -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in scale_points(advised))
    if not found:
        return ""
    lead = "A target in per cent goes by requests. The same usage is more of a smaller one, and adds pods."
    return section("hpas", "HPAs that would act otherwise", f"<ul>{found}</ul>", lead)


def _namespaces(advised: Advised) -> str:
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
    return section("namespaces", "By namespace", table)


def _namespace(name: str, total: Totals) -> str:
    cells = []
    for _, resource, _ in _RESOURCES:
        before, after = total_of(resource, total)
        told_before, told_after, apart = sums(resource, total)
        cells.append(number_cell(told_before, before, begins=True))
        cells.append(number_cell(told_after, after))
        cells.append(f"<td>{coloured(apart, 1 if apart.startswith('-') else -1)}</td>")
    cells.append(number_cell(money_apart(total), total.money_after - total.money_before, begins=True))
    return f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>'


def _footer(advised: Advised) -> str:
    told = "".join(f"<li>{escape(line)}</li>" for line in remarks(advised))
    spent = effort(advised.surveyed.effort)
    return (
        f"<footer>{f'<p>Worth knowing:</p><ul>{told}</ul>' if told else ''}"
        f"{f'<p>{escape(spent)}</p>' if spent else ''}"
        "<p>Requests are for one pod, and what is in all for the pods that there are now; money is for 730 hours.</p>"
        "</footer>"
    )
