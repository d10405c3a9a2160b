"""Names of what is ordered, and steps of writes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from trellis.kube.write.actions import Action
from trellis.providers.protocol import Steps

_HIGHEST: Final = 9_999_999


def generate_names(group: str, used_names: Collection[str]) -> Iterator[str]:
    """Names for new nodes of a group, the same as long as none is added or deleted.

    They continue after the highest, so that a node rarely gets the name of one that was just deleted.
    """
    form = re.compile(rf"{re.escape(group)}-([0-9]{{1,7}})")
    highest = max((int(match[1]) for name in used_names if (match := form.fullmatch(name))), default=0)
    for number in chain(range(highest + 1, _HIGHEST + 1), range(1, highest)):
        if (name := f"{group}-{number}") not in used_names:
            yield name


def build_steps(*steps: Iterable[Action]) -> Steps:
    """Steps of these actions, without those that are empty."""
    return tuple(step for step in map(tuple, steps) if step)
