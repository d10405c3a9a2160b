"""Evaluates a tree with given values: what `trellis install` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

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


class Context(msgspec.Struct, frozen=True):
    """The values of an installation, and its facts. `item` is the current item of a loop."""

    values: Mapping[str, Any]
    name: str
    namespace: str
    service: str
    item: str = ""

    def find(self, path: str) -> Any:
        """The value at a path."""
        found: Any = self.values
        for key in path.split("."):
            found = found[key]
        return found


class _Absent:
    """A part whose condition does not hold."""


_ABSENT: Final = _Absent()


def evaluate(tree: Tree, context: Context, *, comments: bool = False) -> list[Any]:
    """The parts that a tree yields: none, one, or with a loop several. With `comments` these stay in it."""
    return list(_evaluate_item(tree, context, comments))


def _evaluate_item(tree: Tree, context: Context, comments: bool) -> Iterator[Any]:
    """Evaluate what may be there never, once or several times."""
    match tree:
        case ForEach(values, body):
            for item in compute(values, context):
                yield from _evaluate_item(body, msgspec.structs.replace(context, item=item), comments)
        case list():
            for part in tree:
                yield from _evaluate_item(part, context, comments)
        case When(condition, body):
            if compute(condition, context):
                yield from _evaluate_item(body, context, comments)
        case _:
            yield _evaluate(tree, context, comments)


def _evaluate(tree: Tree, context: Context, comments: bool) -> Any:
    match tree:
        case Expression():
            return compute(tree, context)
        case When(condition, body):
            return _evaluate(body, context, comments) if compute(condition, context) else _ABSENT
        case Extended(base, values):
            return _extend(_evaluate(base, context, comments), [compute(value, context) for value in values])
        case YamlText(heading, value):
            return heading + yaml.safe_dump(compute(value, context))
        case Commented(comment, body):
            evaluated = _evaluate(body, context, comments)
            return Commented(comment, evaluated) if comments and evaluated is not _ABSENT else evaluated
        case dict():
            entries = ((key, _evaluate(part, context, comments)) for key, part in tree.items())
            return {key: part for key, part in entries if part is not _ABSENT}
        case list():
            # An item that is a list itself does not occur in manifests.
            return [part for item in tree for part in _evaluate_item(item, context, comments)]
    return tree


def _extend(base: Any, values: list[Any]) -> Any:
    if isinstance(base, list):
        return base + [item for value in values for item in value]
    return base | {key: entry for value in values for key, entry in value.items()}


def compute(expression: Expression | str, context: Context) -> Any:
    """The value of an expression."""
    match expression:
        case str():
            return expression
        case Value(path):
            return context.find(path)
        case Release(fact):
            return {"Name": context.name, "Namespace": context.namespace, "Service": context.service}[fact]
        case Item():
            return context.item
        case Named(_, body):
            return compute(body, context)
        case Text(pattern, arguments):
            return pattern % tuple(compute(argument, context) for argument in arguments)
        case Joined(value):
            return ",".join(compute(value, context))
        case Choice(condition, then, otherwise):
            return compute(then if compute(condition, context) else otherwise, context)
    return _holds(expression, context)


def _holds(expression: Expression, context: Context) -> bool:
    match expression:
        case Equals(value, text):
            return bool(compute(value, context) == text)
        case OneOf(value, texts):
            return compute(value, context) in texts
        case Contains(value, text):
            return text in compute(value, context)
        case HasKey(value, key):
            return key in compute(value, context)
        case Not(condition):
            return not compute(condition, context)
        case AllOf(conditions):
            return all(compute(condition, context) for condition in conditions)
        case AnyOf(conditions):
            return any(compute(condition, context) for condition in conditions)
    raise InternalError(f"no way to compute {expression!r}")
