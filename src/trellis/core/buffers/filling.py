"""How much of a dedicated Buffer is still to be kept empty?

Its size less what the pods use that are meant to fill it: the fewest chunks that cover the rest in every resource. With
more such pods than it has room for it is full, and keeps nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from trellis.api.kube.pods import Pod
from trellis.core.buffers.newest import is_live
from trellis.core.fit import held_at_least
from trellis.core.fit.demand import Amounts
from trellis.core.fit.resources import PODS
from trellis.core.recommend.capping.limit_ranges import Counts

_CHUNKS_WITHOUT_SIZE: Final = ((PODS, 1),)


def filled_by(pods: Iterable[Pod]) -> Counts:
    """What pods that fill a Buffer use in all; those that are finished or leave use nothing any more."""
    return filled_with(held_at_least(pod).amounts for pod in pods if is_live(pod))


def filled_with(held: Iterable[Amounts]) -> Counts:
    """The same of what each of them holds."""
    used: Counter[str] = Counter()
    for amounts in held:
        used.update(dict(amounts))
    return dict(used)


def unfilled(chunks: int, chunk: Amounts, filled: Counts) -> int:
    """How many chunks are left. `filled` is what pods request, in the counts of a chunk's amounts.

    How many pods it is does not matter, unless a chunk asks for nothing but to be one.
    """
    sized = tuple((name, each) for name, each in chunk if name != PODS) or _CHUNKS_WITHOUT_SIZE
    rests = ((max(chunks * each - filled.get(name, 0), 0), each) for name, each in sized)
    return max(-(-rest // each) for rest, each in rests)
