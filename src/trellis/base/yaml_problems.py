"""What is wrong with a text that is not YAML, in the words of the person who wrote it.

The parser speaks of tokens, nodes and contexts. A message here names the character or the line to look at: a
handful of slips (a tab, an open quote, a wrong indentation) is nearly everything that people get wrong.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

TAB: Final = "a tab is used for indentation; YAML allows only spaces"
NEVER_CLOSED: Final = "what opens here is never closed"
TEMPLATE: Final = "a template must be rendered before it is read"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: `at` is the offset of the character in the text of the document.

    A rule may name a second place: `{line}` in it stands for the line of the offset `other`.
    """

    at: int
    value: str
    rule: str
    other: int = 0


# What YAML 1.1 allows in a text. Bytes that were not UTF-8 arrive as lone surrogates, also outside.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENTED_BY_TAB: Final = re.compile(r" *\t")

# The parser's words and ours, for problems that show where the parser failed.
_WHERE_IT_FAILED: Final = {
    "found a tab character": TAB,
    "expected ',' or ']'": "the list opened with [ on line {line} needs a comma or a ] here",
    "expected ',' or '}'": "the map opened with { on line {line} needs a comma or a } here",
    "expected node content": "a value is missing here",
    "expected key": "does not continue the map begun on line {line}; check indentation and quotes",
    "expected '-' indicator": "does not continue the list begun on line {line}; check the indentation",
    "values are not allowed": "a colon is not expected here; quote the text or check the indentation",
    "entries are not allowed": "a list item is not expected here; begin it on its own line",
    "keys are not allowed": "a ? is not expected here; quote the text",
    "cannot start any token": "text that begins with {char} must be in quotes",
    "found unexpected ':'": "a colon is not expected here; quote the text",
    "unknown escape": "unknown escape in double quotes; write \\\\ for a backslash or use single quotes",
    "expected hexdecimal number": "an escape in double quotes needs hexadecimal digits",
    "invalid Unicode character escape": "an escape in double quotes that is no character",
    "undefined tag handle": "an unknown tag; quote the text if the ! belongs to it",
    "expected <document start>": "more text behind the end of the document; put a line --- between documents",
    "expected comment or line break": "only a comment may follow | or > on its line",
}
# The same for problems that show only far behind the thing that caused them.
_WHERE_IT_BEGAN: Final = {
    "found unexpected end of stream": NEVER_CLOSED,
    "found unexpected document indicator": NEVER_CLOSED,
    "could not find expected ':'": "a key needs a colon and a space behind it",
    "alphabetic or numeric character": "text that begins with {char} must be in quotes",
}


def explain(error: YAMLError | UnicodeEncodeError, text: str) -> Problem:
    """The problem that made the parser give up on this text."""
    if isinstance(error, ReaderError | UnicodeEncodeError):
        return _forbidden_character(text)
    if not isinstance(error, MarkedYAMLError):
        return Problem(0, _line_at(text, 0), f"not YAML: {error}")
    failed = error.problem_mark.index if error.problem_mark else 0
    began = error.context_mark.index if error.context_mark else failed
    problem = error.problem or ""
    if "<document start>" not in problem and (tab := _tab_in_front(text, failed, began)) is not None:
        return Problem(tab, _line_at(text, tab), TAB)
    at, rule = _in_our_words(problem, failed, began)
    if at == failed and not text[failed:].strip():
        # Where the text ends there is nothing to look at: show what was left open, or the last thing written.
        at, rule = (began, NEVER_CLOSED) if began < failed else (len(text.rstrip()) - 1, rule)
    line = _line_at(text, at)
    rule = rule.replace("{char}", text[at : at + 1])
    return Problem(at, line, f"{rule}; {TEMPLATE}" if "{{" in line else rule, began)


def _in_our_words(problem: str, failed: int, began: int) -> tuple[int, str]:
    for at, words in ((failed, _WHERE_IT_FAILED), (began, _WHERE_IT_BEGAN)):
        for theirs, ours in words.items():
            if theirs in problem:
                return at, ours
    return failed, f"not YAML: {problem}"


def _tab_in_front(text: str, failed: int, began: int) -> int | None:
    """The tab that indents one of the two lines; within brackets a tab is as good as a space."""
    if text.lstrip().startswith(("{", "[")):
        return None
    lines = (_INDENTED_BY_TAB.match(text, text.rfind("\n", 0, at) + 1) for at in (failed, began))
    return next((line.end() - 1 for line in lines if line), None)


def _forbidden_character(text: str) -> Problem:
    match = _FORBIDDEN.search(text)
    at = match.start() if match else 0
    code = ord(match[0]) if match else 0
    if 0xDC80 <= code <= 0xDCFF:
        return Problem(at, _line_at(text, at), f"byte 0x{code - 0xDC00:02x} is not UTF-8")
    return Problem(at, _line_at(text, at), f"the character U+{code:04X} is not allowed in YAML")


def _line_at(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip()
