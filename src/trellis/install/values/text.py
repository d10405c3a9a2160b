"""`values.yaml`: the default values, each with its meaning as a comment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree
from trellis.install.tree.nodes import Commented
from trellis.install.tree.printing import print_yaml
from trellis.install.values.declarations import InstallValues
from trellis.install.values.loading import default_values

_HEADING = """\
Values of the chart. docs/reference/chart-values.md has the same list as a table.
Helm refuses unknown values and wrong types, by values.schema.json."""


def build_values_text() -> str:
    """The default values with comments."""
    tree = Commented(_HEADING + "\n", _comment(build_schema_tree(InstallValues), default_values()))
    return print_yaml([tree]).removeprefix("---\n")


def _comment(node: SchemaNode, values: dict[str, Any]) -> dict[str, Any]:
    commented: dict[str, Any] = {}
    for name, member in node.members.items():
        body = _comment(member, values[name]) if member.shape is JsonShape.OBJECT else values[name]
        comment = " ".join(_describe(member))
        commented[name] = Commented(comment, body) if comment else body
    return commented


def _describe(node: SchemaNode) -> Iterator[str]:
    if node.struct is not None and node.struct.__doc__:
        yield node.struct.__doc__.strip()
    if node.field.doc:
        yield node.field.doc
    enum = node.field.enum or (node.items.field.enum if node.items else ())
    if enum:
        yield f"One of {', '.join(value or 'empty' for value in enum)}."
