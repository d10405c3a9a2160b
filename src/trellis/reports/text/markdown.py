"""Markdown of GitHub's dialect: escaped text, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape_markdown(text: str) -> str:
    """Text whose characters have no meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def format_markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left_aligned: int = 1) -> list[str]:
    """A table and an empty line after it; columns after the first `left_aligned` are aligned to the right."""
    aligned = [*("---" for _ in heads[:left_aligned]), *("---:" for _ in heads[left_aligned:])]
    escaped = ([escape_markdown(cell) for cell in row] for row in rows)
    return [*(f"| {' | '.join(row)} |" for row in (heads, aligned, *escaped)), ""]
