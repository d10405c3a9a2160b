"""Formats the status of an installation for a terminal: a table of components, a line for each area, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from trellis.base.wording import format_age
from trellis.diagnosis.checks.deployments import NOT_INSTALLED
from trellis.diagnosis.checks.objects import PLURALS
from trellis.diagnosis.findings import ExitStatus, Level
from trellis.diagnosis.status import BOTH, TRELLIS, UPSTREAM, ClusterStatus, ComponentRow, ObjectRow
from trellis.diagnosis.text.finding_lines import (
    PaintLevel,
    format_findings,
    format_unknown,
    keep_plain,
    summarize_levels,
    wrap_entry,
)
from trellis.diagnosis.text.missing_rights import merge_forbidden
from trellis.diagnosis.unread import NoAnswer
from trellis.reports.text.numbers import format_trimmed
from trellis.reports.text.tables import NARROWEST, align_columns, choose_fitting, shorten, stack_rows

_HEADS: Final = ("COMPONENT", "READY", "LEADER", "VERSION", "LAST PASS", "TOOK", "LAG")
_LEFT_ALIGNED: Final = 4
# Columns to leave out on a narrow terminal, in this order: the lag follows from the last pass, for one who knows it.
_DISPENSABLE: Final = ("TOOK", "LAG", "VERSION")
_SHORTEST_LEADER: Final = 12
_NONE: Final = "-"
_UNKNOWN: Final = "?"


def format_status(status: ClusterStatus, width: int = 80, paint: PaintLevel = keep_plain) -> list[str]:
    """Lines no wider than `width`, commands and long names aside."""
    width = max(width, NARROWEST)
    lines = [_format_headline(status, width, paint), ""]
    lines += _format_components(status, width, paint)
    lines += ["", *_format_facts(status, width)]
    if status.findings:
        lines += ["", "Needs attention", *format_findings(status.findings, width, paint)]
    if status.unknown:
        lines += ["", "Unknown", *format_unknown(merge_forbidden(status.unknown), width, paint)]
    return lines


def format_no_answer(answer: NoAnswer, width: int, paint: PaintLevel = keep_plain) -> list[str]:
    """What is shown if there is no answer."""
    lines = [paint(f"cannot tell: {answer.what}", Level.PROBLEM)]
    lines += wrap_entry(answer.why, width, "   ")
    return [*lines, *wrap_entry(f"-> {answer.action}", width, "   ", "      ")]


def _format_headline(status: ClusterStatus, width: int, paint: PaintLevel) -> str:
    summary, level = _summarize(status)
    moment = f"{datetime.fromtimestamp(status.time, UTC):%H:%M:%S} UTC"
    place = f"Kubernetes {status.server.version}, {moment}"
    gap = width - len(summary) - len(place)
    return paint(summary, level) + (" " * gap + place if gap > 1 else f"\n{place}")


def _summarize(status: ClusterStatus) -> tuple[str, Level]:
    if any(finding.reason is NOT_INSTALLED for finding in status.findings):
        return "not installed", Level.PROBLEM
    if status.exit_status == ExitStatus.HEALTHY:
        return "healthy", Level.OK
    if status.exit_status == ExitStatus.CANNOT_TELL:
        return "cannot tell", Level.UNKNOWN
    return summarize_levels(status.findings), status.findings[0].level


def _format_components(status: ClusterStatus, width: int, paint: PaintLevel) -> list[str]:
    rows = [row for row in status.components if row.is_running]
    if not rows:
        return ["no component was found"]
    cells = [_build_cells(row) for row in rows]
    names = [cell[2] for cell in cells]
    longest = max(map(len, names))

    def tables() -> Iterator[list[str]]:
        for left_out in range(len(_DISPENSABLE) + 1):
            kept = [number for number, head in enumerate(_HEADS) if head not in _DISPENSABLE[:left_out]]
            # A name in full is worth less than a column.
            shortest = min(longest, 24 if left_out < len(_DISPENSABLE) else _SHORTEST_LEADER)
            for length in range(longest, shortest - 1, -1):
                table = [list(_HEADS), *([*row[:2], shorten(row[2], length), *row[3:]] for row in cells)]
                left = sum(number < _LEFT_ALIGNED for number in kept)
                yield align_columns([[row[number] for number in kept] for row in table], left)

    table = choose_fitting(tables(), width, lambda: stack_rows(_HEADS, cells, width))
    if len(table) == len(rows) + 1:
        lines = zip(rows, table[1:], strict=True)
        table = [table[0], *(paint(line, Level.PROBLEM) if row.ready < row.wanted else line for row, line in lines)]
    return [*table, *(line for note in _list_notes(status) for line in wrap_entry(note, width, ""))]


def _list_notes(status: ClusterStatus) -> Iterator[str]:
    """Which components are upstream's, which change nothing, and which do not run; upstream has no others."""
    for words, provider in (("upstream's", UPSTREAM), ("upstream's and Trellis'", BOTH)):
        foreign = [row.component for row in status.components if row.provider == provider]
        if foreign:
            yield f"{words}: {', '.join(foreign)}"
    idle = [row.component for row in status.components if row.is_idle]
    if idle:
        yield f"read-only: {', '.join(idle)}"
    absent = [row.component for row in status.components if not row.is_running]
    if absent and any(row.provider == TRELLIS for row in status.components):
        yield f"not running: {', '.join(absent)}"


def _build_cells(row: ComponentRow) -> list[str]:
    version = "/".join(row.versions) or _NONE
    # A process outside of the cluster has a Lease, and neither a Deployment nor pods.
    ready = f"{row.ready}/{row.wanted}" if row.workloads else _NONE
    missing = _UNKNOWN if row.has_unknown_passes else _NONE
    return [
        row.component,
        ready,
        _format_leaders(row.leaders),
        version,
        missing if row.last_pass_age is None else f"{format_age(row.last_pass_age)} ago",
        missing if row.last_pass_duration is None else format_duration(row.last_pass_duration),
        missing if row.lag is None else format_age(row.lag),
    ]


def _format_leaders(leaders: Sequence[str]) -> str:
    """The pod that leads. Several replicas lead where they share namespaces or recommenders."""
    return f"{len(leaders)} replicas" if len(leaders) > 1 else "".join(leaders).partition("_")[0] or _NONE


def format_duration(seconds: float) -> str:
    """A short time: `3 ms`, `1.2 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1.0 else f"{format_trimmed(round(seconds, 1))} s"


def _format_facts(status: ClusterStatus, width: int) -> Iterator[str]:
    facts = [(PLURALS[row.kind], _describe_objects(row)) for row in status.objects]
    facts += [("changes", status.freeze), ("webhook", status.webhook), ("metrics API", status.metrics_api)]
    longest = max(len(name) for name, _ in facts)
    for name, text in facts:
        yield from wrap_entry(text, width, f"{name.ljust(longest)}  ", " " * (longest + 2))


def _describe_objects(row: ObjectRow) -> str:
    if row.total is None:
        return row.problem
    if not row.total:
        return "none"
    states = ", ".join(f"{count:,} {state}" for state, count in row.states.items())
    return f"{row.total:,}: {states}"
