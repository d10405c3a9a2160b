"""Divides the quotas of a namespace among its Buffers, all of them together, whenever one of them changes.

In a namespace without quotas each Buffer has all of its chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from trellis.api.kube.policies import ResourceQuota
from trellis.core.buffers import Translation, apply_quotas
from trellis.core.buffers.quotas import ClaimKey as Claimant
from trellis.runtime.queue_controller import Enqueue


class QuotaShares:
    """Translations by namespace, and the same within quotas. A claimant is a namespace and a name."""

    def __init__(self, quotas: Callable[[str], Collection[ResourceQuota]]) -> None:
        self._quotas = quotas
        self._translations: dict[str, dict[Claimant, tuple[float, Translation]]] = {}
        self._within_quotas: dict[Claimant, Translation] = {}

    def put(self, key: Claimant, created: float, translation: Translation) -> bool:
        """Put the translation of a Buffer; returns whether quotas have to be divided before it can be published."""
        own = self._translations.setdefault(key[0], {})
        before = own.get(key)
        if before is not None and before[1] == translation and key in self._within_quotas:
            return False
        own[key] = (created, translation)
        if self._quotas(key[0]):
            # The share of the previous translation does not apply to this one.
            self._within_quotas.pop(key, None)
            return True
        self._within_quotas[key] = translation
        return False

    def drop(self, key: Claimant) -> bool:
        """Drop a Buffer that is deleted or not translated here; returns whether that leaves more to others."""
        self._within_quotas.pop(key, None)
        own = self._translations.get(key[0], {})
        if own.pop(key, None) is None:
            return False
        if not own:
            del self._translations[key[0]]
        return bool(own) and bool(self._quotas(key[0]))

    def find(self, key: Claimant) -> Translation | None:
        """A Buffer's translation within quotas; None if quotas are not divided yet."""
        return self._within_quotas.get(key)

    def is_translated(self, key: Claimant) -> bool:
        return key in self._translations.get(key[0], {})

    def divide(self, namespace: str) -> list[Claimant]:
        """Divide the quotas again; returns the Buffers whose share changed."""
        divided = apply_quotas(self._translations.get(namespace, {}), self._quotas(namespace))
        changed = [key for key, translation in divided.items() if self._within_quotas.get(key) != translation]
        for key in changed:
            self._within_quotas[key] = divided[key]
        return changed

    def clear(self) -> None:
        self._translations.clear()
        self._within_quotas.clear()


# A quota is divided once all Buffers of its namespace are translated, or after this number of tries.
_TRIES: Final = 20
_TRY_SECONDS: Final = 0.25


class QuotaDivision:
    """Divides quotas once all Buffers of a namespace are translated. `is_awaited` says whether some are not yet."""

    def __init__(self, shares: QuotaShares, is_awaited: Callable[[str], bool], enqueue: Enqueue) -> None:
        self._shares = shares
        self._is_awaited = is_awaited
        self._enqueue = enqueue
        self._tries: dict[str, int] = {}

    def divide(self, namespace: str) -> float | None:
        """Divide the quotas, and enqueue the Buffers whose share changed; returns the seconds to a retry, if any."""
        tries = self._tries[namespace] = self._tries.get(namespace, 0) + 1
        if tries <= _TRIES and self._is_awaited(namespace):
            return _TRY_SECONDS
        del self._tries[namespace]
        for key in self._shares.divide(namespace):
            self._enqueue((key[0], key[1]))
        return None
