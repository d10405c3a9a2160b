"""Proposed buckets as terminal text, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trellis.base.wording import pluralize
from trellis.reports.advice.text import escape_markdown
from trellis.reports.advice.wording import list_facts, partial_notice
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
from trellis.reports.text.tables import align_columns, shorten, table_width, wrap_text

_NARROWEST = 80
_INDENT = "  "
_NAMED = 12
_BUCKETS = 4
_SHORT = "short: of the time in which more was used than was requested"
_CHANGES = "changes"


def as_text(proposals: WorkloadProposals, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least; `top` workloads, or all."""
    room = max(width, _NARROWEST)
    told = wrap_text(", ".join(list_facts(proposals.advised)[:-1]), room)
    told += wrap_text(partial_notice(proposals.advised), room) if proposals.advised.surveyed.is_partial else []
    shown = proposals.proposed[:top] if top else proposals.proposed
    for each in shown:
        told += ["", *_workload(each, proposals, room)]
    if len(shown) < len(proposals.proposed):
        told += ["", f"... and {pluralize(len(proposals.proposed) - len(shown), 'workload')} more with buckets"]
    told += ["", *wrap_text(_legend(told), room)] if shown else []
    told += ["", *wrap_text(answer_sentence(proposals), room)]
    return told + [line for reason in _reasons(proposals) for line in wrap_text(reason, room)]


def _legend(told: list[str]) -> str:
    """What the heads mean; the last column is not there on a narrow terminal."""
    has_changes = any(line.endswith(_CHANGES) for line in told)
    return f"{_SHORT}; {_CHANGES}: how often the count was another." if has_changes else f"{_SHORT}."


def _workload(proposal: WorkloadProposal, proposals: WorkloadProposals, room: int) -> Iterator[str]:
    yield shorten(f"{proposal_name(proposal)} ({proposal.workload.kind})", room)
    yield from _indented(_shortened(align_columns([BUCKET_HEADERS, *bucket_cells(proposal)])))
    for sentence in reason_sentences(proposal):
        yield from _indented(wrap_text(f"- {sentence}", room - len(_INDENT)))
    rows = [cost_cells(name, found, proposals) for name, found in list_outcomes(proposal)]
    yield from _indented(_fitting([cost_headers(proposals), *rows], room - len(_INDENT)))


def _shortened(table: list[str]) -> list[str]:
    """Without the buckets in the middle, if there are many: other forms have all of them."""
    left_out = len(table) - _BUCKETS - 1
    if left_out < 2:
        return table
    return [*table[:_BUCKETS], f"... {left_out} more", table[-1]]


def _fitting(rows: list[list[str]], room: int) -> list[str]:
    """A table without as many of its last columns as there is no room for."""
    for columns in range(len(rows[0]), 1, -1):
        table = align_columns([row[:columns] for row in rows])
        if table_width(table) <= room:
            break
    return table


def _indented(told: list[str]) -> Iterator[str]:
    yield from (f"{_INDENT}{line}" for line in told)


def _reasons(proposals: WorkloadProposals) -> Iterator[str]:
    """Why the others have none."""
    for reason, many in proposals.reasons:
        names = [proposal_name(each) for each in proposals.others if each.suggestion.reason == reason]
        rest = f" and {many - _NAMED} more" if many > _NAMED else ""
        yield f"None for {', '.join(names[:_NAMED])}{rest}: {reason.meaning} ({reason.code})"


def as_markdown(proposals: WorkloadProposals, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` workloads, or all."""
    told = ["## Buckets for these workloads", "", escape_markdown(answer_sentence(proposals)), ""]
    if proposals.advised.surveyed.is_partial:
        told += [f"**{escape_markdown(partial_notice(proposals.advised))}**", ""]
    for each in proposals.proposed[:top] if top else proposals.proposed:
        told += _markdown_workload(each, proposals)
    if proposals.others:
        told += [
            "### Without buckets",
            "",
            *_markdown_table(["workload", "kind", "why"], [_markdown_other(e) for e in proposals.others]),
        ]
    return "\n".join(told).rstrip() + "\n"


def _markdown_workload(proposal: WorkloadProposal, proposals: WorkloadProposals) -> Iterator[str]:
    yield from (f"### {escape_markdown(proposal_name(proposal))}", "")
    yield from _markdown_table(BUCKET_HEADERS, list(bucket_cells(proposal)))
    yield from (*(f"- {escape_markdown(sentence)}" for sentence in reason_sentences(proposal)), "")
    yield from _markdown_table(
        cost_headers(proposals), [cost_cells(name, found, proposals) for name, found in list_outcomes(proposal)]
    )
    yield from ("<details><summary>Manifest</summary>", "", "```yaml")
    yield encode_yaml([proposal.suggestion.manifest]).rstrip()
    yield from ("```", "", "</details>", "")


def _markdown_other(proposal: WorkloadProposal) -> list[str]:
    reason = proposal.suggestion.reason
    return [proposal_name(proposal), proposal.workload.kind, reason.meaning if reason is not None else ""]


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    aligned = ["---", *("---:" for _ in heads[1:])]
    table = [heads, aligned, *([escape_markdown(cell) for cell in row] for row in rows)]
    return [*(f"| {' | '.join(row)} |" for row in table), ""]
