"""Prints a tree as YAML; nodes in it become the control structures of Helm's templates.

A tree without nodes but comments is plain YAML. In a loop the dot is the current item, so values are read from `$`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from trellis.api.schema.tree import JsonShape
from trellis.base.errors import InternalError
from trellis.install.tree.nodes import (
    AllOf,
    AnyOf,
    Choice,
    Commented,
    Contains,
    Equals,
    Expression,
    Extended,
    ForEach,
    HasKey,
    Item,
    Joined,
    Named,
    Not,
    OneOf,
    Release,
    Text,
    Tree,
    Value,
    When,
    YamlText,
)
from trellis.install.tree.yaml_text import (
    is_block,
    write_block_text,
    write_comment,
    write_flow,
    write_flow_list,
    write_scalar,
)

# What a value is, by its path.
FindShape = Callable[[str], JsonShape]

_STRUCTURES: Final = (JsonShape.OBJECT, JsonShape.MAP, JsonShape.LIST)
_DEFINITION_PREFIX: Final = "trellis."


class TemplatePrinter:
    """Prints trees, and remembers the definitions that they refer to."""

    def __init__(self, find_shape: FindShape) -> None:
        self._find_shape = find_shape
        self._root = ""
        self.definitions: dict[str, Expression] = {}

    def print_documents(self, trees: Iterable[Tree]) -> str:
        """A file of documents, some of which may be conditional."""
        return "".join(f"{line}\n" for tree in trees for line in self._document(tree))

    def print_definitions(self) -> str:
        """The definitions that have been referred to so far, as a file of named templates."""
        done: dict[str, str] = {}
        while missing := [name for name in self.definitions if name not in done]:
            for name in missing:
                done[name] = self._define(name, self.definitions[name])
        return "\n".join(done[name] for name in sorted(done))

    def _define(self, name: str, body: Expression) -> str:
        text = self.write(body)
        shown = f"{{{{- {text} }}}}" if self._is_text(body) else f"{{{{- if {_strip(text)} }}}}true{{{{- end }}}}"
        return f'{{{{- define "{_DEFINITION_PREFIX}{name}" -}}}}\n{shown}\n{{{{- end }}}}\n'

    def _document(self, tree: Tree) -> Iterator[str]:
        match tree:
            case When(condition, body):
                yield f"{{{{- if {_strip(self.write(condition))} }}}}"
                yield from self._document(body)
                yield "{{- end }}"
            case ForEach(values, body):
                yield from self._loop(values, lambda: list(self._document(body)))
            case list():
                for part in tree:
                    yield from self._document(part)
            case Commented(comment, body):
                yield "---"
                yield from map(_escape, write_comment(comment, 0))
                yield from self._mapping(body, 0)
            case Expression():
                # A list of objects.
                yield f"{{{{- range {_strip(self.write(tree))} }}}}"
                yield "---"
                yield "{{ toYaml . }}"
                yield "{{- end }}"
            case _:
                yield "---"
                yield from self._mapping(tree, 0)

    def _loop(self, values: Expression, body: Callable[[], list[str]]) -> Iterator[str]:
        yield f"{{{{- range {_strip(self.write(values))} }}}}"
        self._root = "$"
        yield from body()
        self._root = ""
        yield "{{- end }}"

    def _mapping(self, tree: Tree, indent: int) -> Iterator[str]:
        entries = tree
        extra: tuple[Expression, ...] = ()
        if isinstance(tree, Extended):
            entries, extra = tree.base, tree.values
        for key, part in entries.items():
            yield from self._entry(key, part, indent)
        for value in extra:
            yield from self._spread(value, indent)

    def _entry(self, key: str, part: Tree, indent: int) -> Iterator[str]:
        pad = " " * indent
        if isinstance(part, When):
            yield f"{pad}{{{{- if {_strip(self.write(part.condition))} }}}}"
            yield from self._entry(key, part.body, indent)
            yield f"{pad}{{{{- end }}}}"
        elif isinstance(part, Commented):
            yield from map(_escape, write_comment(part.comment, indent))
            yield from self._entry(key, part.body, indent)
        else:
            yield from self._value(f"{pad}{_escape(write_scalar(key))}:", part, indent)

    def _value(self, prefix: str, part: Tree, indent: int) -> Iterator[str]:
        """What stands behind a key, on its line or below it."""
        match part:
            case Expression():
                if self._is_structure(part):
                    yield prefix
                    yield f"{' ' * (indent + 2)}{{{{- toYaml {self.write(part)} | nindent {indent + 2} }}}}"
                else:
                    yield f"{prefix} {self._inline(part)}"
            case YamlText(heading, value):
                yield f"{prefix} |"
                yield from map(_escape, write_block_text(heading, indent + 2))
                yield f"{' ' * (indent + 2)}{{{{- toYaml {self.write(value)} | nindent {indent + 2} }}}}"
            case dict() if part:
                yield prefix
                yield from self._mapping(part, indent + 2)
            case Extended(base=dict()):
                yield prefix
                yield from self._mapping(part, indent + 2)
            case list() if part:
                yield from self._list(prefix, part, (), indent)
            case Extended(base, values):
                yield from self._list(prefix, base, values, indent)
            case str() if is_block(part) or is_block(f"{part}\n"):
                yield f"{prefix} {'|' if part.endswith(chr(10)) else '|-'}"
                yield from map(_escape, write_block_text(part, indent + 2))
            case _:
                text = str(part) if isinstance(part, dict | list) else write_scalar(part)
                yield f"{prefix} {_escape(text)}"

    def _list(self, prefix: str, items: list[Tree], extra: tuple[Expression, ...], indent: int) -> Iterator[str]:
        if not extra and all(item is None or isinstance(item, str | int | float | bool) for item in items):
            text = write_flow_list(items, len(prefix) + 1)
            if text is not None:
                yield f"{prefix} {_escape(text)}"
                return
        yield prefix
        for item in items:
            yield from self._item(item, indent)
        for value in extra:
            yield from self._spread(value, indent)

    def _item(self, item: Tree, indent: int) -> Iterator[str]:
        pad = " " * indent
        match item:
            case When(condition, body):
                yield f"{pad}{{{{- if {_strip(self.write(condition))} }}}}"
                yield from self._item(body, indent)
                yield f"{pad}{{{{- end }}}}"
            case ForEach(values, body):
                yield from (pad + line for line in self._loop(values, lambda: list(self._item(body, 0))))
            case Commented(comment, body):
                yield from map(_escape, write_comment(comment, indent))
                yield from self._item(body, indent)
            case list() if item:
                # A list in a list occurs in what users add; brackets are the plainest form of it.
                yield _escape(f"{pad}- {write_flow(item)}")
            case dict() if item:
                lines = list(self._mapping(item, indent + 2))
                # The first line is a key: a condition there would separate the dash from its item.
                yield f"{pad}- {lines[0].lstrip()}"
                yield from lines[1:]
            case _:
                yield from self._value(f"{pad}-", item, indent)

    def _spread(self, value: Expression, indent: int) -> Iterator[str]:
        """The entries of a map, or the items of a list, beside those before."""
        pad = " " * indent
        yield f"{pad}{{{{- with {_strip(self.write(value))} }}}}"
        yield f"{pad}{{{{- toYaml . | nindent {indent} }}}}" if indent else "{{ toYaml . }}"
        yield f"{pad}{{{{- end }}}}"

    def _inline(self, expression: Expression) -> str:
        text = _strip(self.write(expression))
        match self._find_scalar_shape(expression):
            case JsonShape.STRING:
                return f"{{{{ {text} | quote }}}}"
            case JsonShape.INTEGER:
                return f"{{{{ {text} | int }}}}"
            case JsonShape.QUANTITY:
                return f"{{{{ {text} | toJson }}}}"
        return f"{{{{ {text} }}}}"

    def _find_scalar_shape(self, expression: Expression) -> JsonShape:
        match expression:
            case Value(path):
                return self._find_shape(path)
            case Item():  # a text or a number
                return JsonShape.QUANTITY
        return JsonShape.STRING

    def _is_structure(self, expression: Expression) -> bool:
        return isinstance(expression, Value) and self._find_shape(expression.path) in _STRUCTURES

    def _is_text(self, expression: Expression) -> bool:
        return isinstance(expression, Text | Choice | Release)

    def write(self, expression: Expression | str) -> str:
        """An expression as a term of Go's templates, in parentheses where it has arguments."""
        match expression:
            case str():
                return json.dumps(expression)
            case Value(path):
                return f"{self._root}.Values.{path}"
            case Release(fact):
                return f"{self._root}.Release.{fact}"
            case Item():
                return "."
            case Named(name, body):
                self.definitions[name] = body
                return f'(include "{_DEFINITION_PREFIX}{name}" {self._root or "."})'
            case Text(pattern, arguments):
                return f"(printf {' '.join((json.dumps(pattern), *map(self._write_argument, arguments)))})"
            case Joined(value):
                return f'(join "," {self.write(value)})'
            case Choice(condition, then, otherwise):
                # `ternary` takes truths alone.
                truth = self.write(condition)
                return f"(ternary {self.write(then)} {self.write(otherwise)} (not (not {truth})))"
        return self._write_condition(expression)

    def _write_argument(self, argument: Expression) -> str:
        text = self.write(argument)
        # Helm reads every number as a float, which %d does not print.
        is_number = isinstance(argument, Value) and self._find_shape(argument.path) is JsonShape.INTEGER
        return f"(int {text})" if is_number else text

    def _write_condition(self, expression: Expression) -> str:
        match expression:
            case Equals(value, text):
                return f"(eq {self.write(value)} {json.dumps(text)})"
            case OneOf(value, texts):
                return f"(has {self.write(value)} (list {' '.join(map(json.dumps, texts))}))"
            case Contains(value, text):
                return f"(has {json.dumps(text)} {self.write(value)})"
            case HasKey(value, key):
                return f"(hasKey {self.write(value)} {json.dumps(key)})"
            case Not(condition):
                return f"(not {self.write(condition)})"
            case AllOf(conditions):
                return f"(and {' '.join(map(self.write, conditions))})"
            case AnyOf(conditions):
                return f"(or {' '.join(map(self.write, conditions))})"
        raise InternalError(f"no template for {expression!r}")


def _strip(text: str) -> str:
    """Without the outer parentheses, which a term of its own does not need."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _escape(text: str) -> str:
    """Plain text in which Helm finds no template."""
    return text.replace("{{", '{{ "{{" }}')


def print_yaml(trees: Iterable[Any]) -> str:
    """Documents without nodes but comments, as YAML."""

    def no_shape(path: str) -> JsonShape:
        raise InternalError(f"{path} has not been evaluated")

    return TemplatePrinter(no_shape).print_documents(trees).replace('{{ "{{" }}', "{{")
