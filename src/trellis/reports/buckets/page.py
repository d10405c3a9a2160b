"""The HTML page of proposed buckets: the total, each workload with its manifest, and workloads without buckets."""

from __future__ import annotations

import math

import msgspec

from trellis.reports.advice.wording import describe_missing_data, list_facts, list_remarks
from trellis.reports.buckets.ladder import draw_ladder
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
from trellis.reports.html.documentation import UNPUBLISHED, Documentation
from trellis.reports.html.page import ColumnGroup, ColumnHead, TableCell, number_cell, render_page
from trellis.reports.text.numbers import format_money, format_significant

_HEADING = "Proposed buckets"
_MAX_SECTIONS = 100  # about a megabyte of page
_LISTED = 6  # workloads from which on a table leads to their sections


class _WorkloadSection(msgspec.Struct, frozen=True):
    """A workload with proposed buckets, their drawing, why, what they would cost, and the manifest."""

    name: str
    kind: str
    ladder: list[str]
    buckets: list[list[str]]
    reasons: list[str]
    costs: list[list[str]]
    manifest: str


class _ListedWorkload(msgspec.Struct, frozen=True):
    """A workload in the table that leads to its section; `section` is empty if it has none."""

    name: str
    kind: str
    section: str
    cells: list[TableCell]


class _WorkloadList(msgspec.Struct, frozen=True):
    """All workloads with proposed buckets, those that save most first. `labels` name the cells on narrow screens."""

    lead: str
    groups: list[ColumnGroup]
    heads: list[ColumnHead]
    labels: list[str]
    rows: list[_ListedWorkload]


def as_html(proposals: WorkloadProposals, documentation: Documentation = UNPUBLISHED) -> str:
    """The page, the same bytes for the same proposals."""
    advised = proposals.advised
    return render_page(
        "buckets.html.j2",
        "advice.js",
        {"columns": []},
        documentation,
        title=f"{_HEADING} · Trellis",
        kind="Trellis recommend",
        heading=_HEADING,
        facts=list_facts(advised)[:-1],
        banners=[describe_missing_data(advised)] if advised.surveyed.is_partial else [],
        answer=summarize_proposals(proposals),
        bucket_headers=BUCKET_HEADERS,
        cost_headers=list_cost_headers(proposals),
        listed=_list_workloads(proposals) if len(proposals.proposed) >= _LISTED else None,
        workloads=[_workload_section(proposal, proposals) for proposal in proposals.proposed[:_MAX_SECTIONS]],
        others=[
            (
                format_proposal_name(proposal),
                proposal.workload.kind,
                reason.meaning if reason is not None else "",
                reason.code if reason is not None else "",
            )
            for proposal in proposals.others
            for reason in (proposal.suggestion.reason,)
        ],
        remarks=[remark.removeprefix("Note: ") for remark in list_remarks(advised)],
    )


def _workload_section(proposal: WorkloadProposal, proposals: WorkloadProposals) -> _WorkloadSection:
    return _WorkloadSection(
        name=format_proposal_name(proposal),
        kind=proposal.workload.kind,
        ladder=draw_ladder(proposal),
        buckets=list(format_bucket_cells(proposal)),
        reasons=list(describe_reasons(proposal)),
        costs=[format_cost_cells(name, outcome, proposals) for name, outcome in list_outcomes(proposal)],
        manifest=encode_yaml([proposal.suggestion.manifest]),
    )


def _list_workloads(proposals: WorkloadProposals) -> _WorkloadList:
    lead = "Those that save most first. A name leads to the buckets."
    if len(proposals.proposed) > _MAX_SECTIONS:
        lead += f" The page shows the buckets of {_MAX_SECTIONS} workloads; the YAML has all of them."
    prices = proposals.advised.prices
    titles = ["Core-hours", "GiB-hours"] + ([] if prices.is_free else [f"{prices.currency}/month"])
    heads = [ColumnHead("Workload", "text")]
    for _ in titles:
        heads += [ColumnHead("today", classes="part"), ColumnHead("buckets")]
    return _WorkloadList(
        lead,
        [ColumnGroup(title, 2) for title in titles],
        heads,
        ["", *(f"{title} {way}" for title in titles for way in ("today", "with buckets"))],
        [_list_workload(number, proposal, proposals) for number, proposal in enumerate(proposals.proposed)],
    )


def _list_workload(number: int, proposal: WorkloadProposal, proposals: WorkloadProposals) -> _ListedWorkload:
    outcomes = (proposal.suggestion.now, proposal.suggestion.by_buckets)
    pairs = [
        (format_significant, [math.nan if outcome is None else outcome.core_hours for outcome in outcomes]),
        (format_significant, [math.nan if outcome is None else outcome.gib_hours for outcome in outcomes]),
    ]
    if not proposals.advised.prices.is_free:
        pairs.append((format_money, [math.nan if outcome is None else outcome.money for outcome in outcomes]))
    return _ListedWorkload(
        format_proposal_name(proposal),
        proposal.workload.kind,
        f"buckets-{number}" if number < _MAX_SECTIONS else "",
        [number_cell(show(value), value, begins=not at) for show, values in pairs for at, value in enumerate(values)],
    )
