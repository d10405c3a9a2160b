"""The HTML page of proposed buckets: the total, each workload with its manifest, and workloads without buckets."""

from __future__ import annotations

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
from trellis.reports.html.page import render_page

_HEADING = "Proposed buckets"


class _WorkloadSection(msgspec.Struct, frozen=True):
    """A workload with proposed buckets, their drawing, why, what they would cost, and the manifest."""

    name: str
    kind: str
    ladder: str
    buckets: list[list[str]]
    reasons: list[str]
    costs: list[list[str]]
    manifest: str


def as_html(proposals: WorkloadProposals) -> str:
    """The page, the same bytes for the same proposals."""
    advised = proposals.advised
    return render_page(
        "buckets.html.j2",
        "advice.js",
        {"columns": []},
        title=f"{_HEADING} · Trellis",
        kind="Trellis recommend",
        heading=_HEADING,
        facts=list_facts(advised)[:-1],
        banners=[describe_missing_data(advised)] if advised.surveyed.is_partial else [],
        answer=summarize_proposals(proposals),
        bucket_headers=BUCKET_HEADERS,
        cost_headers=list_cost_headers(proposals),
        workloads=[_workload_section(proposal, proposals) for proposal in proposals.proposed],
        others=[
            (format_proposal_name(proposal), proposal.workload.kind, reason.meaning if reason is not None else "")
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
