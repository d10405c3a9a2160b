"""The HTML page of proposed buckets: the total, each workload with its manifest, and workloads without buckets."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trellis.reports.advice.wording import list_facts, list_remarks, partial_notice
from trellis.reports.buckets.proposals import WorkloadProposal, WorkloadProposals
from trellis.reports.buckets.wording import (
    BUCKET_HEADERS,
    answer_sentence,
    bucket_cells,
    cost_cells,
    cost_headers,
    list_outcomes,
    proposal_name,
    reason_sentences,
)
from trellis.reports.formats import encode_yaml
from trellis.reports.html.page import render_banner, render_header, render_page, render_section, typeset

_TITLE = "Buckets for workloads"


def as_html(proposals: WorkloadProposals) -> str:
    """The whole page, the same bytes for the same proposals."""
    parts = [render_header("Trellis recommend", _TITLE, list_facts(proposals.advised)[:-1])]
    parts += [render_banner(partial_notice(proposals.advised))] if proposals.advised.surveyed.is_partial else []
    heading = '<h2 id="answer-title" class="unseen">What it comes to</h2>'
    lead = f'{heading}<p class="lead">{escape(answer_sentence(proposals))}</p>'
    content = f'<section id="answer" class="bare" aria-labelledby="answer-title">{lead}</section>'
    content += "".join(_workload(number, each, proposals) for number, each in enumerate(proposals.proposed))
    content += _others(proposals)
    told = "".join(f"<li>{escape(line)}</li>" for line in list_remarks(proposals.advised))
    footer = (
        f"<footer>{f'<p>Worth knowing:</p><ul>{told}</ul>' if told else ''}<p>Short is the share of the time in which "
        "more was used than was requested, changes is how often the count was another; money is for 730 hours.</p>"
        "</footer>"
    )
    parts += [f"<main>{content}</main>", footer]
    return render_page(f"{_TITLE} · Trellis", "\n".join(parts), {"columns": []}, "advice.js")


def _workload(number: int, proposal: WorkloadProposal, proposals: WorkloadProposals) -> str:
    rows = [cost_cells(name, found, proposals) for name, found in list_outcomes(proposal)]
    reasons = "".join(f"<li>{escape(sentence)}</li>" for sentence in reason_sentences(proposal))
    content = (
        f"{_table(BUCKET_HEADERS, list(bucket_cells(proposal)))}<ul>{reasons}</ul>"
        f"{_table(cost_headers(proposals), rows)}"
        '<details><summary>Manifest</summary><div class="scroll"><pre>'
        f"{escape(encode_yaml([proposal.suggestion.manifest]))}</pre></div></details>"
    )
    return render_section(f"buckets-{number}", proposal_name(proposal), content, proposal.workload.kind)


def _others(proposals: WorkloadProposals) -> str:
    if not proposals.others:
        return ""
    rows = []
    for each in proposals.others:
        reason = each.suggestion.reason
        rows.append([proposal_name(each), each.workload.kind, reason.meaning if reason is not None else ""])
    return render_section("others", "Without buckets", _table(["Workload", "Kind", "Why"], rows, words=True))


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
