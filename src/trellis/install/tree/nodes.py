"""The nodes of a tree that are not plain data: expressions over values, conditions, loops and comments.

A manifest is written once, as dicts and lists with these nodes in them. `evaluate` makes manifests of it for given
values, and `print_template` makes a template for Helm of it; a test compares what both yield.

| node | as a key's value, or as an item of a list |
|---|---|
| an expression | its value |
| `When(condition, body)` | the body if the condition holds; else the key or item is left out |
| `Extended(base, values)` | a dict or list with the entries of a value added |
| `ForEach(values, body)` | in a list: the body once for each item, which is `ITEM` in it |
| `YamlText(value)` | a text: the value as YAML |
| `Commented(comment, body)` | the body, with a comment above it |
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

# A tree of dicts, lists and plain values with nodes in it.
Tree: TypeAlias = Any


class Expression(msgspec.Struct, frozen=True):
    """What is computed from values: a text, a number, a truth or a structure."""


class Value(Expression, frozen=True):
    """A value by its path, such as `image.tag`."""

    path: str


class Release(Expression, frozen=True):
    """A fact of the installation: `Name`, `Namespace` or `Service` (the tool that installs)."""

    fact: str


class Item(Expression, frozen=True):
    """The current item of the loop around it."""


class Text(Expression, frozen=True):
    """A text with expressions in it, as `format_text` makes it."""

    pattern: str
    arguments: tuple[Expression, ...]


class Joined(Expression, frozen=True):
    """A list of texts as one, separated by commas."""

    value: Expression


class Choice(Expression, frozen=True):
    """One of two texts, by a condition."""

    condition: Expression
    then: Expression | str
    otherwise: Expression | str


class Equals(Expression, frozen=True):
    """Whether a text is this one."""

    value: Expression
    text: str


class OneOf(Expression, frozen=True):
    """Whether a text is among these."""

    value: Expression
    texts: tuple[str, ...]


class Contains(Expression, frozen=True):
    """Whether a list of texts contains this one."""

    value: Expression
    text: str


class HasKey(Expression, frozen=True):
    """Whether a map has this key."""

    value: Expression
    key: str


class Not(Expression, frozen=True):
    """Whether a condition does not hold. Empty texts, lists and maps, false and 0 do not hold."""

    condition: Expression


class AllOf(Expression, frozen=True):
    """Whether all conditions hold."""

    conditions: tuple[Expression, ...]


class AnyOf(Expression, frozen=True):
    """Whether a condition holds."""

    conditions: tuple[Expression, ...]


class Named(Expression, frozen=True):
    """A condition or a text that many places need; a chart defines it once."""

    name: str
    body: Expression


class When(msgspec.Struct, frozen=True):
    """A part that is there if a condition holds."""

    condition: Expression
    body: Tree


class Extended(msgspec.Struct, frozen=True):
    """A dict with the entries of maps added, or a list with the items of lists added."""

    base: Tree
    values: tuple[Expression, ...]


class ForEach(msgspec.Struct, frozen=True):
    """A part once for each item of a list of texts."""

    values: Expression
    body: Tree


class YamlText(msgspec.Struct, frozen=True):
    """A text that is a structure in YAML, below fixed lines."""

    heading: str
    value: Expression


class Commented(msgspec.Struct, frozen=True):
    """A part with a comment above it."""

    comment: str
    body: Tree


ITEM: Final = Item()
NAMESPACE: Final = Release("Namespace")


def format_text(pattern: str, *arguments: Expression) -> Text:
    """A text with expressions in it: `format_text("%s:%s", repository, tag)`."""
    return Text(pattern, arguments)


def extend(base: Tree, *values: Expression) -> Extended:
    """A dict or list with the entries of values added."""
    return Extended(base, values)


def all_of(*conditions: Expression) -> Expression:
    """All of these conditions; of one condition, itself."""
    return conditions[0] if len(conditions) == 1 else AllOf(conditions)


def any_of(*conditions: Expression) -> Expression:
    """Any of these conditions; of one condition, itself."""
    return conditions[0] if len(conditions) == 1 else AnyOf(conditions)
