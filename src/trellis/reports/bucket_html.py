"""Proposed buckets as a page: what they come to, each workload with its manifest, and those without buckets."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trellis.reports.advice_words import facts, partial, remarks
from trellis.reports.bucket_words import (
    BUCKET_HEADS,
    answer,
    bucket_cells,
    cost_cells,
    cost_heads,
    named,
    outcomes,
    why,
)
from trellis.reports.html.page import banner, header, page, section
from trellis.reports.html.typeset import typeset
from trellis.reports.manifests import as_yaml
from trellis.reports.suggested import Proposal, Proposals

_TITLE = "Buckets for workloads"


def as_html(proposals: Proposals) -> str:
    """The whole page, the same bytes for the same proposals."""
    parts = [header("Trellis recommend", _TITLE, facts(proposals.advised)[:-1])]
    parts += [banner(partial(proposals.advised))] if proposals.advised.surveyed.is_partial else []
    heading = '<h2 id="answer-title" class="unseen">What it comes to</h2>'
    lead = f'{heading}<p class="lead">{escape(answer(proposals))}</p>'
    content = f'<section id="answer" class="bare" aria-labelledby="answer-title">{lead}</section>'
    content += "".join(_workload(number, each, proposals) for number, each in enumerate(proposals.proposed))
    content += _others(proposals)
    told = "".join(f"<li>{escape(line)}</li>" for line in remarks(proposals.advised))
    footer = (
        f"<footer>{f'<p>Worth knowing:</p><ul>{told}</ul>' if told else ''}<p>Short is the share of the time in which "
        "more was used than was requested, changes is how often the count was another; money is for 730 hours.</p>"
        "</footer>"
    )
    parts += [f"<main>{content}</main>", footer]
    return page(f"{_TITLE} · Trellis", "\n".join(parts), {"columns": []}, "advice.js")


def _workload(number: int, proposal: Proposal, proposals: Proposals) -> str:
    rows = [cost_cells(name, found, proposals) for name, found in outcomes(proposal)]
    reasons = "".join(f"<li>{escape(sentence)}</li>" for sentence in why(proposal))
    content = (
        f"{_table(BUCKET_HEADS, list(bucket_cells(proposal)))}<ul>{reasons}</ul>{_table(cost_heads(proposals), rows)}"
        '<details><summary>Manifest</summary><div class="scroll"><pre>'
        f"{escape(as_yaml([proposal.suggestion.manifest]))}</pre></div></details>"
    )
    return section(f"buckets-{number}", named(proposal), content, proposal.workload.kind)


def _others(proposals: Proposals) -> str:
    if not proposals.others:
        return ""
    rows = []
    for each in proposals.others:
        reason = each.suggestion.reason
        rows.append([named(each), each.workload.kind, reason.meaning if reason is not None else ""])
    return section("others", "Without buckets", _table(["Workload", "Kind", "Why"], rows, words=True))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> str:
    """The first cell of a row names it; the others are figures, or words on the left."""
    side = ' class="left"' if words else ""
    head = "".join(f'<th scope="col"{side if at else ""}>{escape(name)}</th>' for at, name in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f'<td class="word">{escape(cell)}</td>' if words else f"<td>{typeset(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return (
        f'<div class="scroll"><table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
