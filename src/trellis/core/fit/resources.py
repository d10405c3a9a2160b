"""What does the scheduler count, and in what?

CPU in millicores, all else in whole units, rounded up after adding: the rules of `Resource.SetMaxResource` and
`IsScalarResourceName` in Kubernetes 1.36. What it does not count, such as `storage` or a made-up name without a
domain, no node lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity
from trellis.base.quantity_text import NANOS

Counts: TypeAlias = Mapping[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

# A node is taken to have this much at most, and no pod to ask for more than one above it: 8 PiB, or 9 million million
# cores. A thousand pods that ask for as much still add up to an int64.
LARGEST: Final = 2**53

_NANOS_IN_COUNT: Final = {CPU: 10**6}
_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


# Asked of every resource of every pod and node, and there are a dozen names.
@lru_cache(maxsize=1024)
def is_counted(name: str) -> bool:
    """Whether a pod may be refused for asking too much of it."""
    if name in (CPU, MEMORY, STORAGE) or name.startswith(_PREFIXES):
        return True
    return "/" in name and (not name.startswith("requests.") or "kubernetes.io/" in name)


def is_for_whole_pods(name: str) -> bool:
    """Whether a pod may ask for it as a whole, above its containers."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


# A cluster has few different texts, and reading one takes longer than the rest of a pod.
@lru_cache(maxsize=4096)
def nanos_of(text: str) -> int:
    """An amount as exactly as Kubernetes adds it."""
    return Quantity.parse(text).nanos


def readable_nanos(text: str) -> int:
    """The same; nothing for a text that only a broken writer leaves behind."""
    try:
        return nanos_of(text)
    except InvalidQuantity:
        return 0


def counted(name: str, nanos: int, most: int) -> int:
    """Nanos as the count that is compared, between 0 and a most."""
    return min(max(-(-nanos // _NANOS_IN_COUNT.get(name, NANOS)), 0), most)


def nanos_in(name: str, count: int) -> int:
    """A count as nanos."""
    return count * _NANOS_IN_COUNT.get(name, NANOS)
