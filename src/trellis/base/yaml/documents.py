"""Reads the documents of a manifest or scenario file, with the line and column of every field.

A file is cut at its `---` lines first, as kubectl's reader does, so that a broken document hides no other.
A document keeps its text, and looks up lines and columns only when asked: most have no problem to show.

YAML 1.1 is nearly a superset of JSON. The rest is rare but real, and is rewritten before parsing: Python's json.dumps
writes every emoji as a pair of surrogates, which YAML refuses, and three characters that JSON keeps are line breaks in
YAML.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from trellis.base.errors import InvalidDocument
from trellis.base.yaml.parser import AliasNode, MappingNode, ScalarNode, SequenceNode, YamlNode, YamlProblem, parse_yaml
from trellis.base.yaml.values import WRITTEN_TWICE, Json, resolve_fields, resolve_value

_DIFFERS: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[\x7f-\x9f\u2028\u2029]"
_SEARCH: Final = re.compile(_DIFFERS)
# An escaped backslash is taken first, or its second half would be read as the beginning of an escape.
_REPLACE: Final = re.compile(rf"\\\\|{_DIFFERS}")


def rewrite_json_as_yaml(text: str) -> str:
    """The same value in the syntax that JSON and YAML share; text that is not JSON is returned unchanged.

    Lines stay where they are. Columns behind a replaced character move by its difference in length.
    """
    if not text.lstrip().startswith(("{", "[")) or not _SEARCH.search(text):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _REPLACE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    text = match[0]
    if text == "\\\\":
        return text
    if text[0] == "\\":
        (character,) = json.loads(f'["{text}"]')
        return f"\\U{ord(character):08x}"
    return f"\\u{ord(text):04x}"


DocumentPath = Sequence[str | int]

# What the API server reads of one request (its MaxRequestBodyBytes); a longer document can never be applied.
MAX_DOCUMENT_BYTES: Final = 3 * 1024 * 1024

_SEPARATOR: Final = re.compile(r"^---(.*)\n?", re.MULTILINE)
# YAML 1.1 ends a line, and with it a comment, at `\r` and three characters of Unicode too.
_CONTENT: Final = re.compile(r"(?:^|[\r\x85\u2028\u2029]) *[^ \r\n\x85\u2028\u2029#]", re.MULTILINE)


class Document(msgspec.Struct, frozen=True, dict=True):
    """One document: `number` counts from 1 by the `---` lines, `line` is the first line that has content."""

    number: int
    line: int
    value: Json
    source: str
    source_line: int

    def find_position(self, path: DocumentPath = ()) -> tuple[int, int]:
        """Line and column, from 1, of a field's key or a list's item; if absent, of the nearest parent."""
        at, _ = self._find(path)
        return _locate(self._line_starts, self.source_line, at)

    def read_line(self, line: int) -> str:
        """The text of a line of the file; empty if it is not of this document."""
        number = line - self.source_line
        if not 0 <= number < len(self._line_starts):
            return ""
        return self.source[self._line_starts[number] :].partition("\n")[0]

    def read_source(self, path: DocumentPath) -> str | None:
        """The text of an unquoted scalar as it was written, None for everything else.

        It tells `updateMode: Off`, which is the boolean false, from `updateMode: "Off"`.
        """
        _, node = self._find(path)
        return node.text if isinstance(node, ScalarNode) and node.plain else None

    @cached_property
    def _root(self) -> YamlNode | None:
        return parse_yaml(self.source, [])

    @cached_property
    def _line_starts(self) -> list[int]:
        return _line_starts(self.source)

    def _find(self, path: DocumentPath) -> tuple[int, YamlNode | None]:
        """The offset of a path or its nearest existing parent, and the value of the path."""
        node = self._root
        at = node.offset if node else 0
        for step in path:
            if isinstance(node, AliasNode):
                node = node.target
            if isinstance(node, MappingNode) and isinstance(step, str):
                key, node = resolve_fields(node, []).get(step, (None, None))
                at = key.offset if key else at
            elif isinstance(node, SequenceNode) and isinstance(step, int) and 0 <= step < len(node.children):
                node = node.children[step]
                at = node.offset
            else:
                return at, None
        return at, node.target if isinstance(node, AliasNode) else node


class BrokenDocument(msgspec.Struct, frozen=True):
    """A document that cannot be read, with everything that is wrong with it in the order of the text."""

    number: int
    line: int
    errors: tuple[InvalidDocument, ...]


def read_documents(text: str | bytes) -> list[Document | BrokenDocument]:
    """Every document of a file, YAML or JSON, in order; those without content are counted and left out."""
    if isinstance(text, bytes):
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            error = InvalidDocument("UTF-16", "a manifest is UTF-8; save the file in that encoding", 1, 1)
            return [BrokenDocument(1, 1, (error,))]
        # A byte that is not UTF-8 becomes a lone surrogate, and with it a problem of its own document alone.
        text = text.decode("utf-8", "surrogateescape")
    text = text.removeprefix("\ufeff")
    # kubectl ends every line that it reads, so that a block at the very end of a file has its line break too.
    documents = (_read_document(chunk) for chunk in _split_documents(text if text.endswith("\n") else text + "\n"))
    return [document for document in documents if document is not None]


class _DocumentText(msgspec.Struct, frozen=True):
    """The text between two separators; `marker` is what follows the dashes of the one before it."""

    number: int
    line: int
    text: str
    marker: str


def _split_documents(text: str) -> Iterator[_DocumentText]:
    number, line, start, marker = 0, 1, 0, ""
    for separator in [*_SEPARATOR.finditer(text), None]:
        chunk = text[start : separator.start() if separator else len(text)]
        # What stands before the first separator counts only if it has content: in a file that begins with a
        # licence and `---`, people call the document below them the first.
        if start or _CONTENT.search(chunk):
            number += 1
            yield _DocumentText(number, line, chunk, marker)
        if separator:
            line += text.count("\n", start, separator.end())
            start = separator.end()
            marker = separator[1].rstrip()


def _read_document(chunk: _DocumentText) -> Document | BrokenDocument | None:
    if chunk.marker.strip() and not chunk.marker.lstrip().startswith("#"):
        rule = "only a comment may follow --- on its line; begin the document on the next one"
        error = InvalidDocument(f"---{chunk.marker}", rule, chunk.line - 1, 4)
        return BrokenDocument(chunk.number, chunk.line - 1, (error,))
    # The parser skips one byte-order mark itself, which would shift its positions.
    text = chunk.text.lstrip("\ufeff")
    content = _CONTENT.search(text)
    if content is None:
        return None
    first = content.end() - 1
    problems: list[YamlProblem] = []
    value: Json = None
    if not _refuse_unparsed(text, first, problems):
        text = rewrite_json_as_yaml(text)
        root = parse_yaml(text, problems)
        value = None if root is None else resolve_value(root, problems)
    line = chunk.line + text.count("\n", 0, first)
    if problems:
        return BrokenDocument(chunk.number, line, _build_errors(problems, text, chunk.line))
    # kubectl skips a document that says `null` as it skips an empty one.
    return None if value is None else Document(chunk.number, line, value, text, chunk.line)


def _refuse_unparsed(text: str, first: int, problems: list[YamlProblem]) -> bool:
    """Refuse a text that must not be parsed; returns whether it was refused."""
    # A character is at most 4 bytes, so that only a long text has to be encoded to know its size.
    size = len(text.encode("utf-8", "replace")) if len(text) > MAX_DOCUMENT_BYTES // 4 else 0
    if size > MAX_DOCUMENT_BYTES:
        rule = f"the document is larger than the {MAX_DOCUMENT_BYTES} bytes that the API server accepts"
        problems.append(YamlProblem(first, f"{size} bytes", rule))
    elif text[first] == "%":
        # kubectl cuts the directive off from its document at the `---` and fails on it.
        directive = text[first:].partition("\n")[0].strip()
        problems.append(YamlProblem(first, directive, "kubectl does not support directives; remove the line"))
    return bool(problems)


def _build_errors(problems: list[YamlProblem], text: str, first_line: int) -> tuple[InvalidDocument, ...]:
    starts = _line_starts(text)
    errors = []
    # An alias shows the problems of its target once more.
    for problem in sorted(dict.fromkeys(problems), key=lambda problem: problem.offset):
        other, _ = _locate(starts, first_line, problem.other_offset)
        rule = problem.rule.replace("{line}", str(other))
        line, column = _locate(starts, first_line, problem.offset)
        if problem.rule == WRITTEN_TWICE and problem.value == "apiVersion" and column == 1:
            rule += '; if a second object begins here, write a line "---" above it'
        errors.append(InvalidDocument(problem.value, rule, line, column))
    return tuple(errors)


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _locate(line_starts: list[int], first_line: int, at: int) -> tuple[int, int]:
    line = bisect_right(line_starts, at) - 1
    return first_line + line, at - line_starts[line] + 1
