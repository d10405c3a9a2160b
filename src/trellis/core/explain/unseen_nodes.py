"""What could not be seen of what decides about nodes, and so is not part of the answer?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.api.kinds import BUFFER
from trellis.base.reason import Reason, Severity
from trellis.core.explain.explained import Unseen
from trellis.core.explain.noding import KnownGroups, Noded
from trellis.core.explain.settings import Components
from trellis.core.explain.unseen import DUMP_CUT_OFF, FLAG_UNREADABLE, FLAGS_UNSEEN, OBJECTS_UNSEEN
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import NODE_GROUPS, NOT_SERVED

REMOVALS_UNSEEN = Reason(
    "RemovalsUnseen",
    "Since when nodes are not needed, and what failed, is known to the autoscaler's process alone: here it begins now.",
)
PLACES_UNSEEN = Reason(
    "PlacesUnseen",
    "Where chunks were before, and which groups failed, is known to the autoscaler's process alone: here nothing was.",
)
GROUPS_UNSEEN = Reason(
    "NodeGroupsUnseen", "Nothing that declares groups of nodes was found: every node is taken for one of no group."
)
GROUP_UNREADABLE = Reason(
    "NodeGroupUnreadable", "A group of nodes could not be read, so that it is left out.", Severity.WARNING
)
NODES_UNSEEN = Reason(
    "NodesUnseen", "What becomes of nodes is not told: not all nodes and pods could be seen.", Severity.WARNING
)
OBJECT_UNREADABLE = Reason(
    "ObjectUnreadable", "What an object asks of nodes could not be read, so that it is left out.", Severity.WARNING
)

_COMPONENT: Final = "nodes"
_STORAGE: Final = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
# What decides about nodes, wherever it is; what is not served of the first, there is none of.
_WITH_SAY: Final = (
    BUFFER.name,
    "Node",
    "Pod",
    "Namespace",
    "DaemonSet",
    "PodDisruptionBudget",
    NODE_GROUPS,
    "Deployments",
    *_STORAGE,
)


def unseen_about_nodes(
    collected: Collected, groups: KnownGroups, components: Components, noded: Noded | None
) -> Iterator[Unseen]:
    """All of it, for an answer about a node."""
    if not collected.is_whole:
        yield Unseen(DUMP_CUT_OFF)
    for missing in collected.missing:
        is_none = missing.why == NOT_SERVED and missing.what == BUFFER.name
        if missing.what.partition(" ")[0] in _WITH_SAY and not is_none:
            yield Unseen(OBJECTS_UNSEEN, str(missing))
    for problem in components.problems:
        yield Unseen(FLAG_UNREADABLE, problem)
    if noded is None:
        yield from _of_groups(groups)
        yield Unseen(NODES_UNSEEN)
    else:
        yield from _of_plans(noded)
        yield Unseen(REMOVALS_UNSEEN)


def unseen_of_nodes(collected: Collected, noded: Noded | None) -> Iterator[Unseen]:
    """What an answer about whoever wants a node goes without, beside what every answer does."""
    for missing in collected.missing:
        if missing.what == NODE_GROUPS or (noded is not None and missing.what.partition(" ")[0] in _STORAGE):
            yield Unseen(OBJECTS_UNSEEN, str(missing))
    if noded is not None:
        yield from _of_plans(noded)
        yield Unseen(PLACES_UNSEEN)


def _of_plans(noded: Noded) -> Iterator[Unseen]:
    yield from _of_groups(noded.groups)
    if _COMPONENT not in noded.components.seen:
        yield Unseen(FLAGS_UNSEEN, _COMPONENT)
    for (kind, key), said in noded.snapshot.problems.items():
        yield Unseen(OBJECT_UNREADABLE, f"{kind} {'/'.join(key)}: {said}")


def _of_groups(groups: KnownGroups) -> Iterator[Unseen]:
    if not groups.declared:
        yield Unseen(GROUPS_UNSEEN)
    for group, said in groups.problems:
        yield Unseen(GROUP_UNREADABLE, f"{group}: {said}" if group else str(said))
