"""The HTML page of proposed buckets: the total, each workload with its manifest, and workloads without buckets."""

from __future__ import annotations

import msgspec

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
from trellis.reports.html.page import render_page

_HEADING = "Buckets for workloads"


class _WorkloadSection(msgspec.Struct, frozen=True):
    """A workload with proposed buckets, why, what they would cost, and the manifest."""

    name: str
    kind: str
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
        banners=[partial_notice(advised)] if advised.surveyed.is_partial else [],
        answer=answer_sentence(proposals),
        bucket_headers=BUCKET_HEADERS,
        cost_headers=cost_headers(proposals),
        workloads=[_workload_section(proposal, proposals) for proposal in proposals.proposed],
        others=[
            (proposal_name(proposal), proposal.workload.kind, reason.meaning if reason is not None else "")
            for proposal in proposals.others
            for reason in (proposal.suggestion.reason,)
        ],
        remarks=list(list_remarks(advised)),
    )


def _workload_section(proposal: WorkloadProposal, proposals: WorkloadProposals) -> _WorkloadSection:
    return _WorkloadSection(
        name=proposal_name(proposal),
        kind=proposal.workload.kind,
        buckets=list(bucket_cells(proposal)),
        reasons=list(reason_sentences(proposal)),
        costs=[cost_cells(name, outcome, proposals) for name, outcome in list_outcomes(proposal)],
        manifest=encode_yaml([proposal.suggestion.manifest]),
    )
