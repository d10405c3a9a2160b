"""Formats a diagnosis: a line for each check, and below it what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.base.wording import pluralize
from trellis.diagnosis.doctor import ClusterDiagnosis
from trellis.diagnosis.findings import ClusterCheck, Level, list_unknown, sort_findings
from trellis.diagnosis.text.finding_lines import PaintLevel, keep_plain, summarize_levels, wrap_entry
from trellis.diagnosis.text.missing_rights import has_many_forbidden, is_forbidden, suggest_roles
from trellis.diagnosis.unread import FORBIDDEN
from trellis.reports.text.markdown import escape_markdown
from trellis.reports.text.tables import NARROWEST

_LEVEL_WIDTH: Final = max(len(level) for level in Level)
_GAP: Final = "  "
_ARROW: Final = "-> "
# Columns from which the names of checks have a column of their own.
_WIDE: Final = 110


def format_diagnosis(diagnosis: ClusterDiagnosis, width: int = 80, paint: PaintLevel = keep_plain) -> list[str]:
    """A line for each check that went well, for each finding and for each unknown fact."""
    width = max(width, NARROWEST)
    longest = max(len(result.name) for result in diagnosis.results)
    # On a narrow terminal the names of checks take no column of their own.
    column = longest if width >= _WIDE else 0
    unknown = list_unknown(diagnosis.results)
    merges = has_many_forbidden(unknown)
    lines = [
        line
        for result in diagnosis.results
        for entry in _list_entries(result, merges=merges)
        for line in _format_entry(*entry, name=result.name, column=column, width=width, paint=paint)
    ]
    lines += ["", *wrap_entry(summarize_diagnosis(diagnosis), width, "")]
    if merges:
        lines += wrap_entry(f"{_ARROW}{suggest_roles(unknown)}", width, "", " " * len(_ARROW))
    return lines


Entry = tuple[Level, str, str]


def _list_entries(result: ClusterCheck, *, merges: bool = False) -> Iterator[Entry]:
    """Level, text and action of each line of a check; `merges` leaves one line for all that may not be read."""
    shown = 0
    for finding in result.findings:
        if finding.level is not Level.OK:
            shown += 1
            yield finding.level, f"{finding.subject}: {finding.message}", finding.action
    forbidden = [fact for fact in result.unknown if merges and is_forbidden(fact)]
    if forbidden:
        shown += 1
        subjects = ", ".join(fact.subject for fact in forbidden)
        yield Level.UNKNOWN, FORBIDDEN if subjects == result.name else f"{subjects}: {FORBIDDEN}", ""
    for fact in result.unknown:
        if fact not in forbidden:
            shown += 1
            yield Level.UNKNOWN, fact.why if fact.subject == result.name else f"{fact.subject}: {fact.why}", fact.action
    if not shown:
        yield Level.OK, result.summary, ""


def _format_entry(
    level: Level, text: str, action: str, *, name: str, column: int, width: int, paint: PaintLevel
) -> Iterator[str]:
    label = f"{level.ljust(_LEVEL_WIDTH)}{_GAP}"
    head = f"{label}{name.ljust(column)}{_GAP}" if column else label
    indent = " " * len(head)
    first, *others = wrap_entry(text if column else f"{name}: {text}", width, head, indent)
    yield paint(level, level) + first[len(level) :]
    yield from others
    if action:
        yield from wrap_entry(f"{_ARROW}{action}", width, indent, f"{indent}{' ' * len(_ARROW)}")


def summarize_diagnosis(diagnosis: ClusterDiagnosis) -> str:
    """The number of checks, findings and unknown facts."""
    passed = sum(result.level is Level.OK for result in diagnosis.results)
    unknown = len(list_unknown(diagnosis.results))
    parts = [f"{passed} of {pluralize(len(diagnosis.results), 'check')} ok"]
    found = summarize_levels(sort_findings(diagnosis.results))
    parts += [found] if found else []
    parts += [f"{unknown} unknown"] if unknown else []
    return ", ".join(parts)


def format_markdown(diagnosis: ClusterDiagnosis) -> str:
    """A list for an issue: what is wrong first, then what is well."""
    lines = [f"## trellis doctor, Kubernetes {escape_markdown(diagnosis.server_version)}", ""]
    lines += [escape_markdown(summarize_diagnosis(diagnosis)), ""]
    entries = [(result.name, *entry) for result in diagnosis.results for entry in _list_entries(result)]
    for level in Level:
        for name, entry_level, text, action in entries:
            if entry_level is level:
                remedy = f"\n  - `{action}`" if action else ""
                lines.append(f"- **{level}** {escape_markdown(name)}: {escape_markdown(text)}{remedy}")
    return "\n".join(lines) + "\n"
