"""Which namespaces are collected? Those that are wanted, as far as the cluster tells which there are."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from trellis.api.kube.coordination import Namespace
from trellis.base.errors import KubeError, UnreadableObject
from trellis.base.names import nearest
from trellis.core.model.dump_lines import Missing
from trellis.kube.client import Client
from trellis.kube.resources import NAMESPACES
from trellis.sources.cluster.listing import NOT_THERE, pages_of, why_not

_WILD: Final = frozenset("*?[")


class Wanted(msgspec.Struct, frozen=True):
    """Namespaces by name or pattern, all of them if there is none.

    `own` is the one that is meant where nobody says anything: all there is if the cluster does not tell which
    namespaces it has. With `all_pods`, pods of other namespaces are collected too, for what they take of the nodes.
    `node_groups` is the ConfigMap, as namespace/name, that declares groups of nodes: with it, all that decides about
    nodes is collected, wherever it is; with `nodes_alone` nothing else.
    """

    patterns: tuple[str, ...] = ()
    own: str = ""
    all_pods: bool = False
    node_groups: str = ""
    nodes_alone: bool = False


class Places(msgspec.Struct, frozen=True):
    """Namespaces that are looked into. `asked` is how: all at once, which is the empty name, or each for itself."""

    names: tuple[str, ...]
    asked: tuple[str, ...]
    objects: tuple[Namespace, ...] = ()
    missing: tuple[Missing, ...] = ()


async def find_places(client: Client, wanted: Wanted) -> Places:
    """Where to look. Whoever names namespaces needs no right to list them."""
    if wanted.patterns and not any(map(_is_wild, wanted.patterns)):
        return await _named(client, tuple(dict.fromkeys(wanted.patterns)))
    try:
        found = [each async for page in pages_of(client, NAMESPACES) for each in page.items]
    except (KubeError, UnreadableObject) as error:
        missing = Missing(NAMESPACES.kind, "", why_not(error))
        names = [each for each in wanted.patterns if not _is_wild(each)] or ([wanted.own] if wanted.own else [])
        # Somebody may well list all pods and yet no namespaces.
        asked = tuple(names) if wanted.patterns else ("",)
        return Places(tuple(names), asked, (), (missing,))
    if not wanted.patterns:
        return Places(tuple(each.metadata.name for each in found), ("",), tuple(found))
    chosen = [each for each in found if any(fnmatchcase(each.metadata.name, one) for one in wanted.patterns)]
    names_ = tuple(each.metadata.name for each in chosen)
    lacking = [each for each in wanted.patterns if not any(fnmatchcase(name, each) for name in names_)]
    every = [each.metadata.name for each in found]
    missing_ = tuple(Missing(NAMESPACES.kind, each, _does_not_exist(each, every)) for each in lacking)
    return Places(names_, names_, tuple(chosen), missing_)


async def _named(client: Client, names: tuple[str, ...]) -> Places:
    objects: list[Namespace] = []
    missing: list[Missing] = []
    for name in names:
        try:
            objects.append(await client.get(NAMESPACES, name))
        except (KubeError, UnreadableObject) as error:
            is_gone = getattr(error, "code", 0) == 404
            why = _does_not_exist(name, await _every(client)) if is_gone else why_not(error)
            missing.append(Missing(NAMESPACES.kind, name, why))
    return Places(names, names, tuple(objects), tuple(missing))


async def _every(client: Client) -> list[str]:
    """The names that there are, if anybody may list them."""
    try:
        return [each.metadata.name async for page in pages_of(client, NAMESPACES) for each in page.items]
    except (KubeError, UnreadableObject):
        return []


def _does_not_exist(name: str, there: Sequence[str]) -> str:
    guess = None if _is_wild(name) else nearest(name, there)
    return f'{NOT_THERE} (did you mean "{guess}"?)' if guess else NOT_THERE


def _is_wild(pattern: str) -> bool:
    return bool(_WILD & set(pattern))
