"""Divides the quotas of a namespace among its Buffers, all of them together, whenever one of them changes.

In a namespace without quotas each Buffer has what it was translated to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from trellis.api.kube.policies import ResourceQuota
from trellis.core.buffers import Translation, apply_quotas
from trellis.core.buffers.quotas import ClaimKey as Claimant


class QuotaShares:
    """Translations by namespace, and what is left of them. A claimant is known by its namespace and its name."""

    def __init__(self, quotas: Callable[[str], Collection[ResourceQuota]]) -> None:
        self._quotas = quotas
        self._made: dict[str, dict[Claimant, tuple[float, Translation]]] = {}
        self._settled: dict[Claimant, Translation] = {}

    def put(self, key: Claimant, created: float, made: Translation) -> bool:
        """A Buffer was translated to this; whether its namespace has to be settled before that can be told."""
        own = self._made.setdefault(key[0], {})
        before = own.get(key)
        if before is not None and before[1] == made and key in self._settled:
            return False
        own[key] = (created, made)
        if self._quotas(key[0]):
            # What was left of the one before says nothing of this one.
            self._settled.pop(key, None)
            return True
        self._settled[key] = made
        return False

    def drop(self, key: Claimant) -> bool:
        """A Buffer is gone, or none of ours; whether that leaves more to others."""
        self._settled.pop(key, None)
        own = self._made.get(key[0], {})
        if own.pop(key, None) is None:
            return False
        if not own:
            del self._made[key[0]]
        return bool(own) and bool(self._quotas(key[0]))

    def of(self, key: Claimant) -> Translation | None:
        """What is left of a Buffer's translation; None if that is not known yet."""
        return self._settled.get(key)

    def knows(self, key: Claimant) -> bool:
        """Whether a Buffer has been translated."""
        return key in self._made.get(key[0], {})

    def settle(self, namespace: str) -> list[Claimant]:
        """Share out anew; the Buffers for which that makes a difference."""
        found = apply_quotas(self._made.get(namespace, {}), self._quotas(namespace))
        changed = [key for key, each in found.items() if self._settled.get(key) != each]
        for key in changed:
            self._settled[key] = found[key]
        return changed

    def clear(self) -> None:
        """Forget all."""
        self._made.clear()
        self._settled.clear()
