"""Which instance of a group is behind which node? By the node's name, or by the id that the node says it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from trellis.api.kube.nodes import Node
from trellis.core.nodes.groups import GroupState, Instance


class Ties(msgspec.Struct, frozen=True):
    """The group and the instance of each node that has one; and the node of each instance, as far as it is there."""

    instances: Mapping[str, tuple[str, Instance]] = {}
    nodes: Mapping[tuple[str, str], str] = {}


def tie(groups: Iterable[GroupState], nodes: Mapping[str, Node]) -> Ties:
    """Find them all."""
    found: dict[str, tuple[str, Instance]] = {}
    unnamed: dict[str, tuple[str, Instance]] = {}
    for state in groups:
        for each in state.instances:
            if each.node:
                found[each.node] = (state.group.name, each)
            else:
                unnamed[each.id] = (state.group.name, each)
    for name, node in nodes.items() if unnamed else ():
        known = unnamed.get(node.spec.provider_id)
        if known is not None:
            found.setdefault(name, known)
    return Ties(found, {(group, each.id): name for name, (group, each) in found.items() if name in nodes})
