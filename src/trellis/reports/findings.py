"""Findings of `trellis check` as text, JSON and SARIF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from trellis.base.reasons import Reason, Severity
from trellis.core.lint.check import CheckResult
from trellis.core.lint.findings import Finding
from trellis.reports.text.tables import wrap_line

# Text in, the same text with an emphasis out; the identity where there is no colour.
Painter = Callable[[str, Severity], str]


_MAX_SOURCE = 100  # characters of a line that are shown
# Control characters, and what bytes become that are not UTF-8.
_NO_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


def without_colour(text: str, _severity: Severity) -> str:
    """No emphasis at all."""
    return text


def as_text(checked: CheckResult, paint: Painter = without_colour, width: int = 0) -> Iterator[str]:
    """The findings, and a line with their number."""
    yield from format_findings(checked.findings, paint, width)
    yield _summarize(checked)


def format_findings(findings: Iterable[Finding], paint: Painter = without_colour, width: int = 0) -> Iterator[str]:
    """A line per finding, in the form that editors can jump to, and below it the offending line with a caret.

    On a terminal, whose `width` is not zero, the line is wrapped.
    """
    for finding in findings:
        severity = finding.reason.severity
        line = f"{_format_place(finding)}: {severity}: {_format_message(finding)}"
        first, *others = wrap_line(line, width)
        yield first.replace(f": {severity}:", f": {paint(severity, severity)}:", 1)
        yield from others
        yield from _format_source_line(finding, paint, width)


def _format_source_line(finding: Finding, paint: Painter, width: int) -> Iterator[str]:
    """The line and a caret below its column. Of a long line the part around the column is shown.

    A line of a file that is no text is not shown.
    """
    if _NO_TEXT.search(finding.source_line):
        return
    text = "".join(character if character.isprintable() else " " for character in finding.source_line).rstrip()
    if not text.strip():
        return
    column = min(finding.column - 1, len(text))
    margin = f"{finding.line:>6} | "
    most = min(_MAX_SOURCE, width - len(margin)) if width else _MAX_SOURCE
    begin = max(0, column - most // 2) if len(text) > most else 0
    shown = text[begin : begin + most]
    yield f"{margin}{shown}"
    yield f"{' ' * (len(margin) - 2)}| {' ' * (column - begin)}{paint('^', finding.reason.severity)}"


def _format_place(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}:{finding.column}"


def _format_message(finding: Finding) -> str:
    """The message with its field and object. The document's number helps where a file holds several."""
    about = ", ".join(part for part in (finding.object, f"document {finding.document}") if part)
    field = f"{finding.path}: " if finding.path else ""
    return f"{field}{finding.message} [{finding.reason.code}] ({about})"


def _summarize(checked: CheckResult) -> str:
    objects = _format_count(len(checked.objects), "object")
    where = f"{objects} in {_format_count(checked.files, 'file')}"
    if not checked.findings:
        return f"{where}: {'no problems' if checked.objects else 'nothing to check'}"
    return f"{where}: {_format_count(checked.errors, 'error')}, {_format_count(checked.warnings, 'warning')}"


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_json(checked: CheckResult) -> dict[str, Any]:
    """Everything, for scripts. The keys are part of the interface."""
    return {
        "files": checked.files,
        "documents": checked.documents,
        "objects": len(checked.objects),
        "errors": checked.errors,
        "warnings": checked.warnings,
        "findings": [
            {
                "file": finding.file,
                "document": finding.document,
                "line": finding.line,
                "column": finding.column,
                "severity": str(finding.reason.severity),
                "reason": finding.reason.code,
                "object": finding.object,
                "path": finding.path,
                "message": finding.message,
            }
            for finding in checked.findings
        ],
    }


# SARIF calls an informational result a note.
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def as_sarif(checked: CheckResult, version: str) -> dict[str, Any]:
    """The same as SARIF 2.1.0, which code-scanning services show beside the lines of a change."""
    reasons = list(dict.fromkeys(finding.reason for finding in checked.findings))
    driver = {
        "name": "trellis",
        "semanticVersion": version,
        "rules": [_sarif_rule(reason) for reason in reasons],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(finding, reasons) for finding in checked.findings],
            }
        ],
    }


def _sarif_rule(reason: Reason) -> dict[str, Any]:
    return {
        "id": reason.code,
        "shortDescription": {"text": reason.meaning},
        "defaultConfiguration": {"level": _SARIF_LEVELS[reason.severity]},
    }


def _sarif_result(finding: Finding, reasons: list[Reason]) -> dict[str, Any]:
    field = f"{finding.path}: " if finding.path else ""
    return {
        "ruleId": finding.reason.code,
        "ruleIndex": reasons.index(finding.reason),
        "level": _SARIF_LEVELS[finding.reason.severity],
        "message": {"text": f"{field}{finding.message}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.file)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.object, "kind": "object"}],
            }
        ],
    }
