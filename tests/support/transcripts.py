"""Transcripts in the documentation: blocks of a page, and whether something printed what a block says.

A line `...` stands for any number of lines.
"""

from __future__ import annotations

import re

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# A command, and the lines that it prints.
Step = tuple[str, list[str]]


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
    pattern = "".join(r"(?:.*\n)*" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None
