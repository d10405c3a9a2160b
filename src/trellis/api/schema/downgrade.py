"""Fields and values of an object that are lost when upstream's CRD replaces ours.

Upstream's schema prunes unknown fields silently at the next write. An unknown value stays stored and makes every later
edit of that field fail. Both follow from the declaration: a field that is `added`, and values beyond `upstream_enum`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.problems import MapKey, Path, ValidationProblem
from trellis.api.registry import Kind
from trellis.api.schema.tree import SchemaNode, build_schema_tree
from trellis.base.reasons import Reason, Severity

PRUNED = Reason("Pruned", "Upstream's CRD does not have this field: it is lost at the next write.", Severity.WARNING)
UNSUPPORTED_STORED_VALUE = Reason(
    "UnsupportedStoredValue",
    "Upstream does not support this value: it stays stored, and the next write is refused.",
    Severity.WARNING,
)


def find_losses(kind: Kind, document: object) -> list[ValidationProblem]:
    """Every field and value of an object that upstream's CRD would prune or refuse."""
    losses: list[ValidationProblem] = []
    if isinstance(document, dict):
        for name, struct in (("spec", kind.spec), ("status", kind.status)):
            losses += _find_losses_below(build_schema_tree(struct), document.get(name), (name,))
    return losses


def _find_losses_below(node: SchemaNode, value: object, path: Path) -> Iterator[ValidationProblem]:
    if node.field.added:
        yield ValidationProblem(path, PRUNED, "upstream's CRD has no such field: it is lost at the next write", value)
        return
    upstream = node.field.upstream_enum
    if upstream and isinstance(value, str) and value not in upstream:
        values = ", ".join(f'"{name}"' for name in upstream)
        yield ValidationProblem(path, UNSUPPORTED_STORED_VALUE, f"upstream knows only {values}", value)
    if isinstance(value, dict):
        for name, below in value.items():
            member = node.members.get(name)
            if member is not None and below is not None:
                yield from _find_losses_below(member, below, (*path, name))
            elif node.items is not None and below is not None:
                yield from _find_losses_below(node.items, below, (*path, MapKey(name)))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from _find_losses_below(node.items, item, (*path, index))
