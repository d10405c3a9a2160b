"""What an object loses when upstream's CRD takes the place of ours.

Upstream's schema prunes fields it does not have, at the next write and without a word; a value it does not know stays
stored and makes every later edit of that field fail. Both follow from the declaration: a field that is `added`, and
values beyond `upstream_enum`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.kinds import Kind
from trellis.api.problems import Key, Path, Problem
from trellis.api.schema import Node, schema_of
from trellis.base.reason import Reason, Severity

PRUNED = Reason("Pruned", "A field that upstream's CRD does not have is lost at the next write.", Severity.WARNING)
STRANDED = Reason(
    "Stranded", "A value that upstream does not know stays stored and is refused later.", Severity.WARNING
)


def losses(kind: Kind, document: object) -> list[Problem]:
    """Every field and value of an object that upstream would drop or not understand."""
    found: list[Problem] = []
    if isinstance(document, dict):
        for name, struct in (("spec", kind.spec), ("status", kind.status)):
            found += _below(schema_of(struct), document.get(name), (name,))
    return found


def _below(node: Node, value: object, path: Path) -> Iterator[Problem]:
    if node.field.added:
        yield Problem(path, PRUNED, "upstream's CRD has no such field: it is lost at the next write", value)
        return
    known = node.field.upstream_enum
    if known and isinstance(value, str) and value not in known:
        values = ", ".join(f'"{name}"' for name in known)
        yield Problem(path, STRANDED, f"upstream knows only {values}", value)
    if isinstance(value, dict):
        for name, below in value.items():
            member = node.members.get(name)
            if member is not None and below is not None:
                yield from _below(member, below, (*path, name))
            elif node.items is not None and below is not None:
                yield from _below(node.items, below, (*path, Key(name)))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from _below(node.items, item, (*path, index))
