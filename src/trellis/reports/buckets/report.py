"""The report of proposed buckets as JSON, CSV and manifests to apply; the entry point of all its formats."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from trellis.base.times import format_time
from trellis.core.advice.results import SurveyAdvice
from trellis.core.hvpa.suggest.suggestion import BucketProposal, ReplayCost
from trellis.reports.buckets.page import as_html
from trellis.reports.buckets.proposals import WorkloadProposal, WorkloadProposals, propose_buckets
from trellis.reports.buckets.text import as_markdown, as_text
from trellis.reports.buckets.wording import describe_reasons, format_proposal_name, summarize_proposals
from trellis.reports.formats import CsvCell, encode_csv, encode_indented, encode_yaml, output_formats
from trellis.reports.html.documentation import UNPUBLISHED, Documentation

BucketDocument = dict[str, Any]

_WAYS = ("now", "hpa", "buckets")
_FIGURES = ("core_hours", "gib_hours", "money_month", "cpu_short", "memory_short", "changes")
_COLUMNS = (
    "namespace",
    "kind",
    "workload",
    "reason",
    "days",
    "fewest",
    "most",
    "cpu_largest",
    "memory_largest",
    *(f"{way}_{figure}" for way in _WAYS for figure in _FIGURES),
)
_WIDTH = 100


def as_json(proposals: WorkloadProposals) -> bytes:
    """The proposals for scripts. The keys are part of the interface."""
    return encode_indented(build_document(proposals))


def as_yaml(proposals: WorkloadProposals) -> str:
    """Hvpas to apply, each below the reasons for it."""
    if not proposals.proposed:
        return f"# {summarize_proposals(proposals)}\n"
    return "".join(_explained(proposal) for proposal in proposals.proposed)


def as_csv(proposals: WorkloadProposals) -> str:
    """A row for each workload; CPU in cores, memory in bytes, and shares of the time."""
    return encode_csv(_COLUMNS, (_row(proposal, proposals) for proposal in (*proposals.proposed, *proposals.others)))


def build_document(proposals: WorkloadProposals) -> BucketDocument:
    """The proposals as a document; unknown figures are null."""
    surveyed, prices = proposals.advised.surveyed, proposals.advised.prices
    return {
        "kind": "BucketAdvice",
        "formatVersion": 1,
        "time": format_time(datetime.fromtimestamp(proposals.advised.now, UTC)),
        "source": surveyed.source,
        "prices": {"currency": prices.currency, "coreHour": prices.core_hour, "gibHour": prices.gib_hour},
        "partial": surveyed.is_partial,
        "workloads": [_workload(proposal, proposals) for proposal in (*proposals.proposed, *proposals.others)],
        "missing": [{"what": missing.what, "where": missing.where, "why": missing.why} for missing in surveyed.missing],
        "notes": list(surveyed.notes),
    }


def _explained(proposal: WorkloadProposal) -> str:
    comments = [
        line
        for sentence in (f"{format_proposal_name(proposal)}:", *describe_reasons(proposal))
        for line in textwrap.wrap(sentence, _WIDTH)
    ]
    begin, _, rest = encode_yaml([proposal.suggestion.manifest]).partition("\n")
    return "\n".join([begin, *(f"# {line}" for line in comments), rest])


def _workload(proposal: WorkloadProposal, proposals: WorkloadProposals) -> BucketDocument:
    workload, suggestion = proposal.workload, proposal.suggestion
    return {
        "namespace": workload.namespace,
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.name,
        "reason": suggestion.reason.code if suggestion.reason is not None else None,
        "days": round(suggestion.days, 2),
        "hvpa": suggestion.manifest or None,
        "why": list(describe_reasons(proposal)),
        "seen": _observed_usage(suggestion.proposal),
        "outcomes": {
            way: _outcome(cost, proposals)
            for way, cost in zip(_WAYS, (suggestion.now, suggestion.by_hpa, suggestion.by_buckets), strict=True)
        },
    }


def _observed_usage(proposal: BucketProposal | None) -> BucketDocument | None:
    if proposal is None:
        return None
    return {
        "lowestCores": round(proposal.quiet / 1000, 6),
        "highestCores": round(proposal.peak / 1000, 6),
        "highestBytes": round(proposal.memory_peak),
        "baseBytes": round(proposal.base.memory),
        "baseIsKnown": proposal.base.is_known,
        "fewestBy": str(proposal.fewest_by),
        "largestBy": str(proposal.largest_by),
    }


def _outcome(cost: ReplayCost | None, proposals: WorkloadProposals) -> BucketDocument | None:
    if cost is None:
        return None
    return {
        "replicas": {"fewest": cost.fewest, "most": cost.most},
        "coreHours": round(cost.core_hours, 3),
        "gibHours": round(cost.gib_hours, 3),
        "moneyMonth": round(proposals.get_monthly_cost(cost), 2),
        "cpuShort": round(cost.cpu_over, 6),
        "memoryShort": round(cost.memory_over, 6),
        "changes": cost.changes,
    }


def _row(proposal: WorkloadProposal, proposals: WorkloadProposals) -> list[CsvCell]:
    workload, suggestion = proposal.workload, proposal.suggestion
    reason = suggestion.reason.code if suggestion.reason is not None else ""
    cells: list[CsvCell] = [workload.namespace, workload.kind, workload.name, reason, round(suggestion.days, 2)]
    buckets = suggestion.proposal
    cells += (
        [None] * 4 if buckets is None else [buckets.fewest, buckets.most, buckets.largest[0] / 1000, buckets.largest[1]]
    )
    for way in (suggestion.now, suggestion.by_hpa, suggestion.by_buckets):
        cells += _figures(way, proposals)
    return cells


def _figures(way: ReplayCost | None, proposals: WorkloadProposals) -> Iterator[CsvCell]:
    if way is None:
        yield from [None] * len(_FIGURES)
        return
    yield from (round(way.core_hours, 3), round(way.gib_hours, 3), round(proposals.get_monthly_cost(way), 2))
    yield from (round(way.cpu_over, 6), round(way.memory_over, 6), way.changes)


__all__ = ["FORMATS", "as_text", "propose_buckets", "render_buckets"]


FORMATS = output_formats(text=as_text, json=as_json, yaml=as_yaml, csv=as_csv, html=as_html, markdown=as_markdown)


def render_buckets(
    advised: SurveyAdvice, form: str, width: int = 100, top: int = 0, documentation: Documentation = UNPUBLISHED
) -> str:
    """Buckets for what was surveyed, in one of the forms."""
    return FORMATS[form](propose_buckets(advised), width, top, documentation)
