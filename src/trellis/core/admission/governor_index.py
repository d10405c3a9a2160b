"""Finds the VPA or Hvpa that sizes a new pod by the pod's topmost controller, however many objects there are.

Governors are compiled when an object changes, not when a pod comes. The labels that a target selects are resolved when
the first of its pods comes, and cached until the target changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TypeAlias

from trellis.api.kube.slices import Labels
from trellis.base.selectors import Selector
from trellis.core.cluster.owners import Owners, TargetRef
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.core.sizing.governors import Governor

# Namespace, kind and name. The version of a target is not in it: people write any that the kind ever had.
_TargetKey: TypeAlias = tuple[str, str, str]
# Kind, namespace and name of the object itself.
_GovernorKey: TypeAlias = tuple[str, str, str]


class GovernorIndex:
    """All VPAs and Hvpas that size or boost pods, by their target."""

    def __init__(self) -> None:
        self._objects: dict[_GovernorKey, Governor] = {}
        self._by_target: dict[_TargetKey, tuple[Governor, ...]] = {}
        self._namespaces: Counter[str] = Counter()
        self._selectors: dict[_TargetKey, Selector] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def counts(self) -> Counter[str]:
        """How many there are of each kind."""
        return Counter(kind for kind, _, _ in self._objects)

    def put(self, kind: str, namespace: str, name: str, governor: Governor | None) -> None:
        """Add or replace the governor of an object; None removes it."""
        old = self._objects.pop((kind, namespace, name), None)
        if old is not None and governor is not None and self._replace(old, governor):
            self._objects[kind, namespace, name] = governor
            return
        if old is not None:
            self._remove(old)
        if governor is not None:
            self._objects[kind, namespace, name] = governor
            target = _key(governor.claim.target)
            rivals = (*self._by_target.get(target, ()), governor)
            # The first that fits governs.
            self._by_target[target] = tuple(sorted(rivals, key=lambda rival: rival.claim.seniority))
            self._namespaces[namespace] += 1

    def rules_in(self, namespace: str) -> bool:
        """Whether anything there is governed."""
        return namespace in self._namespaces

    def find(self, topmost: TargetRef, labels: Labels, owners: Owners) -> Governor | TargetProblem | None:
        """Find the governor of a pod with these labels and topmost controller, or why its target cannot be used."""
        target = _key(topmost)
        claimants = self._by_target.get(target)
        if claimants is None:
            return None
        selector = self._selectors.get(target)
        if selector is None:
            resolved = resolve_selector(topmost, owners)
            if isinstance(resolved, TargetProblem):
                return resolved
            selector = self._selectors[target] = resolved
        # All of them claim the same target, and so the same labels.
        return claimants[0] if selector.matches(labels) else None

    def target_changed(self, kind: str, namespace: str, name: str) -> None:
        """Drop the cached selector of a workload that has changed."""
        self._selectors.pop((namespace, kind, name), None)

    def scaled_targets(self) -> Collection[TargetRef]:
        """Return the targets whose selector is known from their scale alone."""
        claims = (governors[0].claim.target for governors in self._by_target.values())
        return {target for target in claims if not target.is_well_known and target.name}

    def _replace(self, old: Governor, new: Governor) -> bool:
        """Replace in place the only governor of an unchanged target, if it is that: nearly every change is."""
        target = _key(old.claim.target)
        if new.claim != old.claim or len(self._by_target[target]) > 1:
            return False
        self._by_target[target] = (new,)
        return True

    def _remove(self, old: Governor) -> None:
        target = _key(old.claim.target)
        remaining = tuple(governor for governor in self._by_target[target] if governor is not old)
        if remaining:
            self._by_target[target] = remaining
        else:
            del self._by_target[target]
            self._selectors.pop(target, None)
        namespace = target[0]
        self._namespaces[namespace] -= 1
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]


def _key(target: TargetRef) -> _TargetKey:
    return target.namespace, target.kind, target.name
