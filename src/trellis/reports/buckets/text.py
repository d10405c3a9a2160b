"""Proposed buckets as terminal text, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.wording import pluralize
from trellis.reports.advice.wording import describe_missing_data, list_facts
from trellis.reports.buckets.proposals import WorkloadProposal, WorkloadProposals
from trellis.reports.buckets.wording import (
    BUCKET_HEADERS,
    describe_reasons,
    format_bucket_cells,
    format_cost_cells,
    format_proposal_name,
    list_cost_headers,
    list_outcomes,
    summarize_proposals,
)
from trellis.reports.formats import encode_yaml
from trellis.reports.text.markdown import escape_markdown, format_markdown_table
from trellis.reports.text.phrases import format_clause
from trellis.reports.text.tables import (
    NARROWEST,
    align_columns,
    choose_fitting,
    measure_width,
    shorten,
    stack_rows,
    wrap_text,
)

_INDENT = "  "
_NAMED = 12
_BUCKETS = 4
_SHORT = "CPU above, memory above: share of time with usage above the request"
_CHANGES = "changes"


def as_text(proposals: WorkloadProposals, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 40 at least; `top` workloads, or all."""
    width = max(width, NARROWEST)
    lines = wrap_text(", ".join(list_facts(proposals.advised)[:-1]), width)
    lines += wrap_text(describe_missing_data(proposals.advised), width) if proposals.advised.surveyed.is_partial else []
    shown = proposals.proposed[:top] if top else proposals.proposed
    for proposal in shown:
        lines += ["", *_workload_lines(proposal, proposals, width)]
    if len(shown) < len(proposals.proposed):
        lines += ["", f"... and {pluralize(len(proposals.proposed) - len(shown), 'workload')} more with buckets"]
    lines += ["", *wrap_text(_legend(lines), width)] if shown else []
    lines += ["", *wrap_text(summarize_proposals(proposals), width)]
    return lines + [line for reason in _reasons(proposals) for line in wrap_text(reason, width)]


def _legend(lines: list[str]) -> str:
    """The meaning of the heads; a narrow terminal lacks the last column."""
    has_changes = any(line.endswith(_CHANGES) for line in lines)
    return f"{_SHORT}; {_CHANGES}: how often the number of replicas changed." if has_changes else f"{_SHORT}."


def _workload_lines(proposal: WorkloadProposal, proposals: WorkloadProposals, width: int) -> Iterator[str]:
    yield shorten(f"{format_proposal_name(proposal)} ({proposal.workload.kind})", width)
    yield from _indent(_bucket_table(proposal, width - len(_INDENT)))
    for sentence in describe_reasons(proposal):
        yield from _indent(wrap_text(f"- {sentence}", width - len(_INDENT)))
    yield from _indent(_cost_table(proposal, proposals, width - len(_INDENT)))


def _bucket_table(proposal: WorkloadProposal, width: int) -> list[str]:
    rows = list(format_bucket_cells(proposal))
    table = align_columns([BUCKET_HEADERS, *rows])
    if measure_width(table) <= width:
        return _omit_middle(table)
    named = ([f"replicas: {row[0]}", *row[1:]] for row in rows)
    return stack_rows(BUCKET_HEADERS, named, width)


def _omit_middle(table: list[str]) -> list[str]:
    """A table without the buckets in the middle if there are many; other formats have all."""
    omitted = len(table) - _BUCKETS - 1
    if omitted < 2:
        return table
    return [*table[:_BUCKETS], f"... {omitted} more", table[-1]]


def _cost_table(proposal: WorkloadProposal, proposals: WorkloadProposals, width: int) -> list[str]:
    """Columns that do not fit are left out from the right."""
    outcomes = [format_cost_cells(name, outcome, proposals) for name, outcome in list_outcomes(proposal)]
    rows = [list_cost_headers(proposals), *outcomes]
    return choose_fitting(
        (align_columns([row[:columns] for row in rows]) for columns in range(len(rows[0]), 1, -1)), width
    )


def _indent(lines: list[str]) -> Iterator[str]:
    yield from (f"{_INDENT}{line}" for line in lines)


def _reasons(proposals: WorkloadProposals) -> Iterator[str]:
    """Why the other workloads have no buckets."""
    for reason, count in proposals.reasons:
        names = [
            format_proposal_name(proposal) for proposal in proposals.others if proposal.suggestion.reason == reason
        ]
        rest = f" and {count - _NAMED} more" if count > _NAMED else ""
        yield f"No buckets for {', '.join(names[:_NAMED])}{rest}: {format_clause(reason.meaning)} ({reason.code})"


def as_markdown(proposals: WorkloadProposals, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` workloads, or all."""
    lines = ["## Proposed buckets", "", escape_markdown(summarize_proposals(proposals)), ""]
    if proposals.advised.surveyed.is_partial:
        lines += [f"**{escape_markdown(describe_missing_data(proposals.advised))}**", ""]
    for proposal in proposals.proposed[:top] if top else proposals.proposed:
        lines += _markdown_workload(proposal, proposals)
    if proposals.others:
        lines += [
            "### Without buckets",
            "",
            *format_markdown_table(
                ["workload", "kind", "reason"], [_markdown_other(proposal) for proposal in proposals.others]
            ),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_workload(proposal: WorkloadProposal, proposals: WorkloadProposals) -> Iterator[str]:
    yield from (f"### {escape_markdown(format_proposal_name(proposal))}", "")
    yield from format_markdown_table(BUCKET_HEADERS, list(format_bucket_cells(proposal)))
    yield from (*(f"- {escape_markdown(sentence)}" for sentence in describe_reasons(proposal)), "")
    yield from format_markdown_table(
        list_cost_headers(proposals),
        [format_cost_cells(name, outcome, proposals) for name, outcome in list_outcomes(proposal)],
    )
    yield from ("<details><summary>Manifest</summary>", "", "```yaml")
    yield encode_yaml([proposal.suggestion.manifest]).rstrip()
    yield from ("```", "", "</details>", "")


def _markdown_other(proposal: WorkloadProposal) -> list[str]:
    reason = proposal.suggestion.reason
    return [format_proposal_name(proposal), proposal.workload.kind, reason.meaning if reason is not None else ""]
