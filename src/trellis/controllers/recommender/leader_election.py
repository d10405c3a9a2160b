"""The leases of the recommender: one for each name it serves, so that replicas can share the names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trellis.api.resolve import DEFAULT_RECOMMENDER

LEASE: Final = "vpa-recommender-lease"
LEASE_NAMESPACE: Final = "kube-system"


def lease_names(names: Sequence[str], base: str, namespace: str = LEASE_NAMESPACE) -> dict[str, str]:
    """The lease of each name. That of `default` is upstream's, so that upstream's recommender and ours take turns.

    A lease or a namespace that is set for a single recommender is used as it is: rights may be limited to it, as in
    upstream's chart. Where neither is given, recommenders of different names do not take turns.
    """
    if len(names) == 1 and (base, namespace) != (LEASE, LEASE_NAMESPACE):
        return {names[0]: base}
    return {name: base if name == DEFAULT_RECOMMENDER else f"{base}-{name}" for name in names}
