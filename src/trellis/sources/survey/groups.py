"""How is something asked about many namespaces? Some of them at a time, and fewer where that is too much."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from trellis.base.errors import PrometheusTooMuch
from trellis.sources.prometheus.queries import namespace_groups

T = TypeVar("T")


async def ask_in_groups(
    namespaces: Collection[str], most: int, ask: Callable[[tuple[str, ...]], Awaitable[T]]
) -> list[T]:
    """An answer for each group; raises `PrometheusError`, `PrometheusTooMuch` only if one namespace is too much."""
    waiting, found = deque(namespace_groups(namespaces, most)), []
    while waiting:
        group = waiting.popleft()
        try:
            found.append(await ask(group))
        except PrometheusTooMuch:
            if len(group) < 2:
                raise
            middle = len(group) // 2
            waiting.extendleft((group[middle:], group[:middle]))
    return found
