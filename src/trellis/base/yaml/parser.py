"""Parses YAML text into a tree of nodes with positions, or into problems worded for the author of the text.

The parser of libyaml is read event by event and never asked to build the tree: there, 30,000 opening brackets
overflow the stack and end the process. Here the depth is counted, and what an alias would multiply is counted
before anything is multiplied, so a text costs time in proportion to its length.

libyaml speaks of tokens, nodes and contexts. A problem here names the character or the line to look at: a handful of
slips (a tab, an open quote, a wrong indentation) is nearly everything that people get wrong.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import msgspec
import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.scanner import Scanner

TAB: Final = "a tab is used for indentation; YAML allows only spaces"
NEVER_CLOSED: Final = "this bracket or quote is never closed"
TEMPLATE: Final = "a template must be rendered before it is read"


class YamlProblem(msgspec.Struct, frozen=True):
    """One problem at a character of a document, by its offset.

    A rule may name a second place: `{line}` in it stands for the line of `other_offset`.
    """

    offset: int
    value: str
    rule: str
    other_offset: int = 0


# What YAML 1.1 allows in a text. Bytes that were not UTF-8 arrive as lone surrogates, also outside.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENTED_BY_TAB: Final = re.compile(r" *\t")

# Rules by libyaml's message, for problems at the place where the parser failed.
_RULES_AT_FAILURE: Final = {
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
    "invalid Unicode character escape": "an escape in double quotes that is not a character",
    "undefined tag handle": "an unknown tag; quote the text if the ! belongs to it",
    "expected <document start>": "text after the end of the document; put a line --- between documents",
    "expected comment or line break": "only a comment may follow | or > on its line",
}
# Rules by libyaml's message, for problems whose cause lies at the start of the construct.
_RULES_AT_START: Final = {
    "found unexpected end of stream": NEVER_CLOSED,
    "found unexpected document indicator": NEVER_CLOSED,
    "could not find expected ':'": "a key needs a colon and a space behind it",
    "alphabetic or numeric character": "text that begins with {char} must be in quotes",
}


def explain_yaml_error(error: YAMLError | UnicodeEncodeError, text: str) -> YamlProblem:
    """The problem that made the parser give up on this text."""
    if isinstance(error, ReaderError | UnicodeEncodeError):
        return _find_forbidden_character(text)
    if not isinstance(error, MarkedYAMLError):
        return YamlProblem(0, _get_line(text, 0), f"not YAML: {error}")
    failed = error.problem_mark.index if error.problem_mark else 0
    began = error.context_mark.index if error.context_mark else failed
    problem = error.problem or ""
    if "<document start>" not in problem and (tab := _find_indenting_tab(text, failed, began)) is not None:
        return YamlProblem(tab, _get_line(text, tab), TAB)
    at, rule = _translate_problem(problem, failed, began)
    if at == failed and not text[failed:].strip():
        # Where the text ends there is nothing to look at: show what was left open, or the last thing written.
        at, rule = (began, NEVER_CLOSED) if began < failed else (len(text.rstrip()) - 1, rule)
    line = _get_line(text, at)
    rule = rule.replace("{char}", text[at : at + 1])
    return YamlProblem(at, line, f"{rule}; {TEMPLATE}" if "{{" in line else rule, began)


def _translate_problem(problem: str, failed: int, began: int) -> tuple[int, str]:
    for at, words in ((failed, _RULES_AT_FAILURE), (began, _RULES_AT_START)):
        for libyaml_text, text in words.items():
            if libyaml_text in problem:
                return at, text
    return failed, f"not YAML: {problem}"


def _find_indenting_tab(text: str, failed: int, began: int) -> int | None:
    """The tab that indents one of the two lines; within brackets a tab is as good as a space."""
    if text.lstrip().startswith(("{", "[")):
        return None
    lines = (_INDENTED_BY_TAB.match(text, text.rfind("\n", 0, at) + 1) for at in (failed, began))
    return next((line.end() - 1 for line in lines if line), None)


def _find_forbidden_character(text: str) -> YamlProblem:
    match = _FORBIDDEN.search(text)
    at = match.start() if match else 0
    code = ord(match[0]) if match else 0
    if 0xDC80 <= code <= 0xDCFF:
        return YamlProblem(at, _get_line(text, at), f"byte 0x{code - 0xDC00:02x} is not UTF-8")
    return YamlProblem(at, _get_line(text, at), f"the character U+{code:04X} is not allowed in YAML")


def _get_line(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip()


# The deepest object in Kubernetes, the schema of a CRD, stays below 60 levels. 200 keeps a recursive reader
# of the value, at two frames a level, far from Python's limit of 1,000.
MAX_DEPTH: Final = 200
# go-yaml stops between 396,000 and 400,000 values from aliases; no manifest of a person comes near 100,000.
MAX_ALIASED: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = {_TAG + name: name for name in ("str", "int", "float", "bool", "null", "merge")} | {"!": "str"}


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A scalar as it was written. `tag` is None, or the short name of the type in an explicit tag."""

    offset: int
    text: str
    plain: bool
    tag: str | None = None


class MappingNode(msgspec.Struct, frozen=True):
    """A map: `children` holds key, value, key, value. `size` and `height` count what aliases expand to."""

    offset: int
    children: list[YamlNode]
    size: int
    height: int


class SequenceNode(msgspec.Struct, frozen=True):
    """A list; the fields are those of a map."""

    offset: int
    children: list[YamlNode]
    size: int
    height: int


class AliasNode(msgspec.Struct, frozen=True):
    """A `*name` that refers to an anchored value."""

    offset: int
    target: ScalarNode | MappingNode | SequenceNode


YamlNode = ScalarNode | MappingNode | SequenceNode | AliasNode


def parse_yaml(text: str, problems: list[YamlProblem]) -> YamlNode | None:
    """The root of the one document in a text; None if there is none, or if `problems` says what is wrong."""
    try:
        return _TreeBuilder(problems).root(_parser(text))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        problems.append(explain_yaml_error(error, text))
        return None


class _EventSource(Protocol):
    # The stubs call every mark and anchor optional; the parsers always set those that are read here.
    def get_event(self) -> Any: ...


class _PureParser(Reader, Scanner, Parser):
    """PyYAML without libyaml: some ten times slower, for platforms that have no wheel."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def _parser(text: str) -> _EventSource:
    return yaml.CBaseLoader(text) if yaml.__with_libyaml__ else _PureParser(text)


class _Frame:
    """A collection whose end has not been read yet."""

    __slots__ = ("anchor", "children", "height", "in_brackets", "kind", "offset", "size")

    def __init__(self, kind: type[MappingNode | SequenceNode], event: Any) -> None:
        self.kind = kind
        self.offset: int = event.start_mark.index
        self.anchor: str | None = event.anchor
        self.in_brackets: bool = event.flow_style
        self.children: list[YamlNode] = []
        self.size = 1
        self.height = 1


class _TreeBuilder:
    """Builds the tree from events. An open frame owns its anchor, so that an alias within its target is detected."""

    def __init__(self, problems: list[YamlProblem]) -> None:
        self.problems = problems
        self.frames: list[_Frame] = []
        self.anchors: dict[str, ScalarNode | MappingNode | SequenceNode | _Frame] = {}
        self.aliased = 0

    def root(self, parser: _EventSource) -> YamlNode | None:
        roots: list[YamlNode] = []
        children = roots
        while (event := parser.get_event()) is not None:
            kind = type(event)
            node: YamlNode | None
            if kind is yaml.ScalarEvent:
                node = self.scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if not self.open(event):
                    return None
                children = self.frames[-1].children
                continue
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                node = self.close()
                children = self.frames[-1].children if self.frames else roots
            elif kind is yaml.AliasEvent:
                node = self.alias(event)
            elif kind is yaml.DocumentStartEvent and roots:
                # kubectl reads up to the `...` and drops the rest without a word; no manifest must vanish so.
                self.refuse(event, "...", "what follows an end marker is not read; separate documents with ---")
                return None
            else:
                continue
            if node is None:
                return None
            children.append(node)
        return roots[0] if roots else None

    def scalar(self, event: Any) -> ScalarNode:
        if event.tag is None:
            node = ScalarNode(event.start_mark.index, event.value, event.implicit[0])
            if "?" in node.text and node.plain and self.frames and self.frames[-1].in_brackets:
                # libyaml reads on here, but go-yaml does not, and with it kubectl.
                self.refuse(event, node.text, "text with a ? within brackets must be in quotes")
        else:
            if event.tag not in _SCALAR_TAGS:
                self.refuse_tag(event)
            node = ScalarNode(event.start_mark.index, event.value, False, _SCALAR_TAGS.get(event.tag, "str"))
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def open(self, event: Any) -> bool:
        if len(self.frames) >= MAX_DEPTH:
            self.refuse(event, "nesting", f"more than {MAX_DEPTH} levels deep")
            return False
        is_map = type(event) is yaml.MappingStartEvent
        if event.tag not in (None, "!", _TAG + "map" if is_map else _TAG + "seq"):
            self.refuse_tag(event)
        frame = _Frame(MappingNode if is_map else SequenceNode, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = frame
        self.frames.append(frame)
        return True

    def close(self) -> MappingNode | SequenceNode:
        frame = self.frames.pop()
        node = frame.kind(frame.offset, frame.children, frame.size + len(frame.children), frame.height)
        if frame.anchor is not None and self.anchors[frame.anchor] is frame:
            self.anchors[frame.anchor] = node
        self.grow(node)
        return node

    def alias(self, event: Any) -> AliasNode | None:
        name = f"*{event.anchor}"
        target = self.anchors.get(event.anchor)
        if target is None:
            self.refuse(event, name, f"no anchor &{event.anchor} stands above it; quote it if it is text")
        elif isinstance(target, _Frame):
            self.refuse(event, name, "stands within the value that it refers to")
        elif isinstance(target, ScalarNode):
            return AliasNode(event.start_mark.index, target)
        elif (aliased := self.aliased + target.size) > MAX_ALIASED:
            self.refuse(event, name, f"the aliases up to here stand for more than {MAX_ALIASED} values")
        elif len(self.frames) + target.height > MAX_DEPTH:
            self.refuse(event, name, f"more than {MAX_DEPTH} levels deep")
        else:
            self.aliased = aliased
            self.grow(target)
            return AliasNode(event.start_mark.index, target)
        return None

    def grow(self, child: MappingNode | SequenceNode) -> None:
        if self.frames:
            parent = self.frames[-1]
            parent.size += child.size
            parent.height = max(parent.height, child.height + 1)

    def refuse(self, event: Any, value: str, rule: str) -> None:
        self.problems.append(YamlProblem(event.start_mark.index, value, rule))

    def refuse_tag(self, event: Any) -> None:
        tag = "!!" + event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else event.tag
        self.refuse(event, tag, "unknown tag; quote the text if the ! belongs to it, else remove the tag")
