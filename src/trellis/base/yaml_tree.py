"""Which values a YAML text holds, and where each of them stands.

The parser of libyaml is read event by event and never asked to build the tree: there, 30,000 opening brackets
overflow the stack and end the process. Here the depth is counted, and what an alias would multiply is counted
before anything is multiplied, so a text costs time in proportion to its length.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec
import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from trellis.base.yaml_problems import Problem, explain

# The deepest object in Kubernetes, the schema of a CRD, stays below 60 levels. 200 keeps a recursive reader
# of the value, at two frames a level, far from Python's limit of 1,000.
MAX_DEPTH: Final = 200
# go-yaml stops between 396,000 and 400,000 values from aliases; no manifest of a person comes near 100,000.
MAX_ALIASED: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = {_TAG + name: name for name in ("str", "int", "float", "bool", "null", "merge")} | {"!": "str"}


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A single value as it was written. `tag` is None, or the short name of the type that was asked for."""

    at: int
    text: str
    plain: bool
    tag: str | None = None


class MappingNode(msgspec.Struct, frozen=True):
    """A map: `children` holds key, value, key, value. `size` and `height` count what aliases expand to."""

    at: int
    children: list[Node]
    size: int
    height: int


class SequenceNode(msgspec.Struct, frozen=True):
    """A list; the fields are those of a map."""

    at: int
    children: list[Node]
    size: int
    height: int


class AliasNode(msgspec.Struct, frozen=True):
    """A `*name` that stands for a value written elsewhere."""

    at: int
    target: ScalarNode | MappingNode | SequenceNode


Node = ScalarNode | MappingNode | SequenceNode | AliasNode


def compose(text: str, problems: list[Problem]) -> Node | None:
    """The root of the one document in a text; None if there is none, or if `problems` says what is wrong."""
    try:
        return _Composer(problems).root(_parser(text))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        problems.append(explain(error, text))
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

    __slots__ = ("anchor", "at", "children", "height", "in_brackets", "kind", "size")

    def __init__(self, kind: type[MappingNode | SequenceNode], event: Any) -> None:
        self.kind = kind
        self.at: int = event.start_mark.index
        self.anchor: str | None = event.anchor
        self.in_brackets: bool = event.flow_style
        self.children: list[Node] = []
        self.size = 1
        self.height = 1


class _Composer:
    """Puts events together. An open frame owns its anchor, so that an alias within its own target shows."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.frames: list[_Frame] = []
        self.anchors: dict[str, ScalarNode | MappingNode | SequenceNode | _Frame] = {}
        self.aliased = 0

    def root(self, parser: _EventSource) -> Node | None:
        roots: list[Node] = []
        children = roots
        while (event := parser.get_event()) is not None:
            kind = type(event)
            node: Node | None
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
        node = frame.kind(frame.at, frame.children, frame.size + len(frame.children), frame.height)
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
        self.problems.append(Problem(event.start_mark.index, value, rule))

    def refuse_tag(self, event: Any) -> None:
        tag = "!!" + event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else event.tag
        self.refuse(event, tag, "unknown tag; quote the text if the ! belongs to it, else remove the tag")
