"""Advice for a pull request: the answer, what should change, and the rest behind folds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trellis.core.advice.advised import Advised, Row
from trellis.reports.advice_amounts import difference, money_apart, rounded_days, step, sums
from trellis.reports.advice_words import (
    answer,
    effort,
    facts,
    named,
    one_line,
    partial,
    remarks,
    scale_points,
)
from trellis.reports.figures import count

_MOST_ROWS = 50  # what a reader of a pull request scrolls past
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def as_markdown(advised: Advised, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` rows, or the fifty that matter most."""
    told = ["## What these workloads should request", "", " ".join(answer(advised)), ""]
    if advised.surveyed.is_partial:
        told += [f"**{plain(partial(advised))}**", ""]
    changed = [row for row in advised.rows if row.container.is_change]
    shown = changed[: top or _MOST_ROWS]
    if shown:
        told += [*_table(shown), ""]
        if len(shown) < len(changed):
            told += [f"... and {count(len(changed) - len(shown))} more to change.", ""]
    else:
        told += ["Nothing to change.", ""]
    told += _listed("HPAs that act otherwise with these requests:", scale_points(advised))
    if len(advised.namespaces) > 1:
        told += _folded("By namespace", _namespaces(advised))
    details = [*facts(advised), *remarks(advised), effort(advised.surveyed.effort)]
    told += _folded("How this was found out", [f"- {plain(line)}" for line in details if line])
    return "\n".join(told).rstrip() + "\n"


def plain(text: str) -> str:
    """Text without any meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| workload | container | pods | CPU request | in all | memory request | in all | why | history |"
    yield "|---|---|---:|---:|---:|---:|---:|---|---:|"
    for row in rows:
        container = row.container
        cells = [plain(named(row.workload)), plain(one_line(container.surveyed.name)), count(row.workload.pods)]
        for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
            cells += [step(resource, container.of(resource)).replace("->", "→"), difference(resource, apart)]
        cells += [container.why, rounded_days(container)]
        yield f"| {' | '.join(cells)} |"


def _namespaces(advised: Advised) -> Iterator[str]:
    currency = plain(advised.prices.currency)
    yield f"| namespace | cores now | advised | | GiB now | advised | | {currency} a month |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, total in (*advised.namespaces, ("in all", advised.total)):
        cells = [plain(one_line(name))]
        for resource in ("cpu", "memory"):
            cells += sums(resource, total)
        cells.append(money_apart(total))
        yield f"| {' | '.join(cells)} |"


def _listed(title: str, sentences: Iterable[str]) -> list[str]:
    found = [f"- {plain(sentence)}" for sentence in sentences]
    return [title, "", *found, ""] if found else []


def _folded(title: str, lines: Iterable[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
