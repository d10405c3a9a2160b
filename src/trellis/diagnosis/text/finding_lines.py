"""Formats findings and unknown facts: a mark, what it is, and below it what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from trellis.base.errors import escape_unprintable
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterFinding, Level, UnknownFact, count_levels

# Text in, the same text with the colour of a level out.
PaintLevel = Callable[[str, Level], str]

MARKS: Final = {Level.PROBLEM: "!!", Level.WARNING: "!", Level.UNKNOWN: "?", Level.OK: ""}
_INDENT: Final = "   "
_ARROW: Final = "-> "


def keep_plain(text: str, _level: Level) -> str:
    """No colour."""
    return text


def format_findings(findings: Iterable[ClusterFinding], width: int, paint: PaintLevel) -> Iterator[str]:
    """The lines of findings."""
    for finding in findings:
        text = f"{finding.subject}: {finding.message}"
        yield from _format_entry(finding.level, text, finding.action, width, paint)


def format_unknown(unknown: Iterable[UnknownFact], width: int, paint: PaintLevel) -> Iterator[str]:
    """The lines of unknown facts."""
    for fact in unknown:
        yield from _format_entry(Level.UNKNOWN, f"{fact.subject}: {fact.why}", fact.action, width, paint)


def _format_entry(level: Level, text: str, action: str, width: int, paint: PaintLevel) -> Iterator[str]:
    mark = MARKS[level].ljust(len(_INDENT))
    first, *others = wrap_entry(text, width, _INDENT)
    yield paint(mark.rstrip(), level) + " " * (len(mark) - len(mark.rstrip())) + first[len(_INDENT) :]
    yield from others
    if action:
        yield from wrap_entry(f"{_ARROW}{action}", width, _INDENT, f"{_INDENT}{' ' * len(_ARROW)}")


def wrap_entry(text: str, width: int, indent: str, further: str = "") -> list[str]:
    """Wrapped lines with an indentation; words stay whole, because they are parts of commands."""
    return textwrap.wrap(
        escape_unprintable(" ".join(text.split())),
        width,
        initial_indent=indent,
        subsequent_indent=further or indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [indent]


def summarize_levels(findings: Iterable[ClusterFinding]) -> str:
    """`2 problems, 1 warning`; empty without either."""
    counts = count_levels(findings)
    return ", ".join(pluralize(count, level.value) for level, count in counts.items() if count)
