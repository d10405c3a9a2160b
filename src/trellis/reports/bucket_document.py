"""Proposed buckets for programs: one JSON document with everything, rows for CSV, and manifests to apply."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from trellis.base.times import format_time
from trellis.core.hvpa.suggesting import Outcome, Rungs
from trellis.reports.bucket_words import answer, named, why
from trellis.reports.manifests import as_yaml as yaml_of
from trellis.reports.result_files import Cell, csv_document
from trellis.reports.suggested import Proposal, Proposals

Document = dict[str, Any]

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


def as_json(proposals: Proposals) -> bytes:
    """Indented, because people read it too. The keys are part of the interface."""
    return msgspec.json.format(msgspec.json.encode(document(proposals)), indent=2) + b"\n"


def as_yaml(proposals: Proposals) -> str:
    """Hvpas to apply, each below the reasons for it."""
    if not proposals.proposed:
        return f"# {answer(proposals)}\n"
    return "".join(_explained(each) for each in proposals.proposed)


def as_csv(proposals: Proposals) -> str:
    """A row for each workload; CPU in cores, memory in bytes, and shares of the time."""
    return csv_document(_COLUMNS, (_row(each, proposals) for each in (*proposals.proposed, *proposals.others)))


def document(proposals: Proposals) -> Document:
    """Everything; what is not known is null."""
    surveyed, prices = proposals.advised.surveyed, proposals.advised.prices
    return {
        "kind": "BucketAdvice",
        "formatVersion": 1,
        "time": format_time(datetime.fromtimestamp(proposals.advised.now, UTC)),
        "source": surveyed.source,
        "prices": {"currency": prices.currency, "coreHour": prices.core_hour, "gibHour": prices.gib_hour},
        "partial": surveyed.is_partial,
        "workloads": [_workload(each, proposals) for each in (*proposals.proposed, *proposals.others)],
        "missing": [{"what": each.what, "where": each.where, "why": each.why} for each in surveyed.missing],
        "notes": list(surveyed.notes),
    }


def _explained(proposal: Proposal) -> str:
    told = [line for each in (f"{named(proposal)}:", *why(proposal)) for line in textwrap.wrap(each, _WIDTH)]
    begin, _, rest = yaml_of([proposal.suggestion.manifest]).partition("\n")
    return "\n".join([begin, *(f"# {line}" for line in told), rest])


def _workload(proposal: Proposal, proposals: Proposals) -> Document:
    workload, suggestion = proposal.workload, proposal.suggestion
    return {
        "namespace": workload.namespace,
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "name": workload.name,
        "reason": suggestion.reason.code if suggestion.reason is not None else None,
        "days": round(suggestion.days, 2),
        "hvpa": suggestion.manifest or None,
        "why": list(why(proposal)),
        "seen": _seen(suggestion.rungs),
        "outcomes": {
            way: _outcome(found, proposals)
            for way, found in zip(_WAYS, (suggestion.now, suggestion.by_hpa, suggestion.by_buckets), strict=True)
        },
    }


def _seen(found: Rungs | None) -> Document | None:
    if found is None:
        return None
    return {
        "lowestCores": round(found.quiet / 1000, 6),
        "highestCores": round(found.peak / 1000, 6),
        "highestBytes": round(found.memory_peak),
        "baseBytes": round(found.base.memory),
        "baseIsKnown": found.base.is_known,
        "fewestBy": str(found.fewest_by),
        "largestBy": str(found.largest_by),
    }


def _outcome(found: Outcome | None, proposals: Proposals) -> Document | None:
    if found is None:
        return None
    return {
        "replicas": {"fewest": found.fewest, "most": found.most},
        "coreHours": round(found.core_hours, 3),
        "gibHours": round(found.gib_hours, 3),
        "moneyMonth": round(proposals.money(found), 2),
        "cpuShort": round(found.cpu_over, 6),
        "memoryShort": round(found.memory_over, 6),
        "changes": found.changes,
    }


def _row(proposal: Proposal, proposals: Proposals) -> list[Cell]:
    workload, suggestion = proposal.workload, proposal.suggestion
    reason = suggestion.reason.code if suggestion.reason is not None else ""
    cells: list[Cell] = [workload.namespace, workload.kind, workload.name, reason, round(suggestion.days, 2)]
    found = suggestion.rungs
    cells += [None] * 4 if found is None else [found.fewest, found.most, found.largest[0] / 1000, found.largest[1]]
    for way in (suggestion.now, suggestion.by_hpa, suggestion.by_buckets):
        cells += _figures(way, proposals)
    return cells


def _figures(way: Outcome | None, proposals: Proposals) -> Iterator[Cell]:
    if way is None:
        yield from [None] * len(_FIGURES)
        return
    yield from (round(way.core_hours, 3), round(way.gib_hours, 3), round(proposals.money(way), 2))
    yield from (round(way.cpu_over, 6), round(way.memory_over, 6), way.changes)
