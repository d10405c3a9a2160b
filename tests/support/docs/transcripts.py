"""Transcripts in the documentation: blocks of a page, whether a command printed what a block says, and their rewriting.

A line `...` stands for any number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from statistics import mean

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# A command, and the lines that it prints.
Step = tuple[str, list[str]]

# Lines that are less alike are other lines, and not changed ones.
_LEAST_SIMILARITY = 0.5


def steps(block: str) -> list[Step]:
    """The commands of a console block: lines that start with `$ `, each with what follows it."""
    result: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            result.append((line[2:], []))
        elif result:
            result[-1][1].append(line)
    return result


def matches(printed: list[str], expected: list[str]) -> bool:
    """Whether the lines are the expected ones, `...` standing for any number of them."""
    pattern = "".join(r"(?:.*\n)*" if _is_ellipsis(line) else re.escape(line.rstrip()) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def rewrite_lines(printed: Sequence[str], expected: Sequence[str]) -> list[str] | None:
    """The expected lines as they are printed now; None if lines between `...` cannot be found again.

    Lines between `...` are replaced by as many consecutive lines, the most similar ones.
    """
    printed = [line.rstrip() for line in printed]
    if not any(map(_is_ellipsis, expected)):
        return list(printed)
    result: list[str] = []
    start = 0
    for is_gap, group in groupby(expected, _is_ellipsis):
        lines = list(group)
        if is_gap:
            result += lines
            continue
        first = len(result) == 0
        last = len(result) + len(lines) == len(expected)
        begin = _find_similar(printed, lines, start, at_start=first, at_end=last)
        if begin is None:
            return None
        start = begin + len(lines)
        result += printed[begin:start]
    return result


def _find_similar(
    printed: Sequence[str], lines: Sequence[str], start: int, *, at_start: bool, at_end: bool
) -> int | None:
    """Where the most similar lines begin, from `start` on."""
    end = len(printed) - len(lines)
    if end < start:
        return None
    begins = range(end if at_end else start, (start if at_start else end) + 1)
    scores = {begin: _similarity(printed[begin : begin + len(lines)], lines) for begin in begins}
    best = max(begins, key=scores.__getitem__)
    return best if scores[best] >= _LEAST_SIMILARITY else None


def _similarity(some: Sequence[str], others: Sequence[str]) -> float:
    """From 0 to 1: the mean over pairs of lines."""
    pairs = zip(some, others, strict=True)
    return mean(SequenceMatcher(None, one, other, autojunk=False).ratio() for one, other in pairs)


def replace_steps(page: str, before: Sequence[Step], after: Sequence[Step]) -> str:
    """A page in which the blocks of these steps have others."""
    return page.replace(f"\n{_format_steps(before)}```", f"\n{_format_steps(after)}```")


def _format_steps(some: Sequence[Step]) -> str:
    return "".join(f"{line}\n" for command, printed in some for line in (f"$ {command}", *printed))


def _is_ellipsis(line: str) -> bool:
    return line.strip() == "..."
