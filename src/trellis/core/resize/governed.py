"""Which object governs this workload? The most senior of those that name it, whoever came later.

Governors are compiled when an object changes. Everything else here goes by the workload that is their target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TypeAlias

import msgspec

from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.model.owners import TargetRef
from trellis.core.sizing.governors import Governor

# Namespace, kind and name of a target or of any other controller. The version is not in it: people write any that the
# kind ever had.
Workload: TypeAlias = tuple[str, str, str]


class Governing(msgspec.Struct, frozen=True):
    """A governor and the annotations of its object."""

    governor: Governor
    annotations: Labels = NOTHING


class Governed:
    """All workloads that something governs."""

    def __init__(self) -> None:
        # By kind, namespace and name of the object.
        self._objects: dict[tuple[str, str, str], Governing] = {}
        self._by_target: dict[Workload, tuple[Governing, ...]] = {}
        self._by_namespace: dict[str, dict[Workload, None]] = {}

    def __len__(self) -> int:
        return len(self._by_target)

    def __contains__(self, workload: Workload) -> bool:
        return workload in self._by_target

    def workloads(self) -> tuple[Workload, ...]:
        """All of them."""
        return tuple(self._by_target)

    def find(self, workload: Workload) -> Governing | None:
        """Who governs a workload."""
        rivals = self._by_target.get(workload)
        return rivals[0] if rivals else None

    def in_namespace(self, namespace: str) -> Collection[Workload]:
        """The governed workloads there."""
        return tuple(self._by_namespace.get(namespace, ()))

    def names(self) -> set[tuple[str, str]]:
        """Name and namespace of each object."""
        return {(name, namespace) for _, namespace, name in self._objects}

    def counts(self) -> Counter[str]:
        """How many objects there are of each kind."""
        return Counter(kind for kind, _, _ in self._objects)

    def scaled_targets(self) -> set[TargetRef]:
        """Targets whose selector only their scale can tell."""
        targets = (each[0].governor.claim.target for each in self._by_target.values())
        return {target for target in targets if not target.is_well_known and target.name}

    def targets(self) -> set[TargetRef]:
        """All targets."""
        return {each[0].governor.claim.target for each in self._by_target.values()}

    def put(self, kind: str, namespace: str, name: str, governing: Governing | None) -> tuple[Workload, ...]:
        """An object is new, has changed or, without a governor, governs nothing; the answer is whom that concerns."""
        old = self._objects.pop((kind, namespace, name), None)
        if old is not None and governing is not None and self._takes_over(old, governing):
            self._objects[kind, namespace, name] = governing
            return (workload_of(governing),)
        concerned: dict[Workload, None] = {}
        if old is not None:
            concerned[workload_of(old)] = None
            self._leave(old)
        if governing is not None:
            self._objects[kind, namespace, name] = governing
            workload = workload_of(governing)
            rivals = (*self._by_target.get(workload, ()), governing)
            # The first governs.
            self._by_target[workload] = tuple(sorted(rivals, key=lambda each: each.governor.claim.seniority))
            self._by_namespace.setdefault(namespace, {})[workload] = None
            concerned[workload] = None
        return tuple(concerned)

    def _takes_over(self, old: Governing, new: Governing) -> bool:
        """Whether one that is alone with its target only says something else now: that is nearly every change."""
        workload = workload_of(old)
        if new.governor.claim != old.governor.claim or len(self._by_target[workload]) > 1:
            return False
        self._by_target[workload] = (new,)
        return True

    def _leave(self, old: Governing) -> None:
        workload = workload_of(old)
        rest = tuple(each for each in self._by_target[workload] if each is not old)
        if rest:
            self._by_target[workload] = rest
            return
        del self._by_target[workload]
        there = self._by_namespace[workload[0]]
        del there[workload]
        if not there:
            del self._by_namespace[workload[0]]


def workload_of(governing: Governing) -> Workload:
    """What an object names as its target."""
    target = governing.governor.claim.target
    return target.namespace, target.kind, target.name
