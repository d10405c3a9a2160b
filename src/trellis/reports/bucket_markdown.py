"""Proposed buckets for a pull request: what they come to, and each workload with its manifest behind a fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trellis.reports.advice_markdown import plain
from trellis.reports.advice_words import partial
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
from trellis.reports.manifests import as_yaml
from trellis.reports.suggested import Proposal, Proposals


def as_markdown(proposals: Proposals, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` workloads, or all."""
    told = ["## Buckets for these workloads", "", plain(answer(proposals)), ""]
    if proposals.advised.surveyed.is_partial:
        told += [f"**{plain(partial(proposals.advised))}**", ""]
    for each in proposals.proposed[:top] if top else proposals.proposed:
        told += _workload(each, proposals)
    if proposals.others:
        told += ["### Without buckets", "", *_table(["workload", "kind", "why"], [_other(e) for e in proposals.others])]
    return "\n".join(told).rstrip() + "\n"


def _workload(proposal: Proposal, proposals: Proposals) -> Iterator[str]:
    yield from (f"### {plain(named(proposal))}", "")
    yield from _table(BUCKET_HEADS, list(bucket_cells(proposal)))
    yield from (*(f"- {plain(sentence)}" for sentence in why(proposal)), "")
    yield from _table(cost_heads(proposals), [cost_cells(name, found, proposals) for name, found in outcomes(proposal)])
    yield from ("<details><summary>Manifest</summary>", "", "```yaml")
    yield as_yaml([proposal.suggestion.manifest]).rstrip()
    yield from ("```", "", "</details>", "")


def _other(proposal: Proposal) -> list[str]:
    reason = proposal.suggestion.reason
    return [named(proposal), proposal.workload.kind, reason.meaning if reason is not None else ""]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    aligned = ["---", *("---:" for _ in heads[1:])]
    table = [heads, aligned, *([plain(cell) for cell in row] for row in rows)]
    return [*(f"| {' | '.join(row)} |" for row in table), ""]
