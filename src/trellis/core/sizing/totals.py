"""How much does a pod need at a time?

While an init container runs, native sidecars that were started before it run too; after the last one, all ordinary
containers and sidecars run. The most that is needed at any of these stages is what the scheduler sets aside, and what
LimitRanges and the pod's own resources are held against.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Stage(msgspec.Struct, frozen=True):
    """Containers that run at the same time, by their positions; at most one of them is an init container that ends."""

    running: tuple[int, ...]
    init: int | None = None


def stages(sized: int, sidecars: Sequence[tuple[int, int]], inits: Sequence[int]) -> tuple[Stage, ...]:
    """The stages of a pod: first the last one, in which all that is sized runs.

    Of sidecars the position among what is sized and the index among init containers are given, of init containers that
    end the index.
    """
    starting = (
        Stage(tuple(position for position, index in sidecars if index < before), init)
        for init, before in enumerate(inits)
    )
    return Stage(tuple(range(sized))), *starting


def needed(stage: Stage, amounts: Sequence[int], inits: Sequence[int]) -> int:
    """What one stage needs."""
    return sum(amounts[position] for position in stage.running) + (inits[stage.init] if stage.init is not None else 0)


def most_needed(all_stages: Sequence[Stage], amounts: Sequence[int], inits: Sequence[int]) -> int:
    """What the pod needs."""
    return max(needed(stage, amounts, inits) for stage in all_stages)
