"""Findings of `trellis check` as text, JSON and SARIF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

from trellis.base.reasons import Reason, Severity
from trellis.core.lint.check import CheckResult
from trellis.core.lint.findings import Finding

# Text in, the same text with an emphasis out; the identity where there is no colour.
Painter = Callable[[str, Severity], str]


_MAX_SOURCE = 100  # characters of a line that are shown


def without_colour(text: str, _severity: Severity) -> str:
    """No emphasis at all."""
    return text


def as_text(checked: CheckResult, paint: Painter = without_colour) -> Iterator[str]:
    """The findings, and a line with their number."""
    yield from format_findings(checked.findings, paint)
    yield _summarize(checked)


def format_findings(findings: Iterable[Finding], paint: Painter = without_colour) -> Iterator[str]:
    """A line per finding, in the form that editors can jump to, and below it the offending line with a caret."""
    for finding in findings:
        severity = finding.reason.severity
        yield f"{_format_place(finding)}: {paint(severity, severity)}: {_format_message(finding)}"
        yield from _format_source_line(finding, paint)


def _format_source_line(finding: Finding, paint: Painter) -> Iterator[str]:
    """The line and a caret below its column. Of a long line the part around the column is shown."""
    text = "".join(character if character.isprintable() else " " for character in finding.source_line).rstrip()
    if not text.strip():
        return
    column = min(finding.column - 1, len(text))
    begin = max(0, column - _MAX_SOURCE // 2) if len(text) > _MAX_SOURCE else 0
    shown = text[begin : begin + _MAX_SOURCE]
    margin = f"{finding.line:>6} | "
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
