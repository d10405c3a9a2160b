"""Expanders choose the node group to order from if several would do.

Each expander scores an option, the lower the better. In a chain, the first expander that prefers some options leaves
the choice among those to the next. A tie after the last goes by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.usage.columns import FloatColumn, IntColumn


class ScaleUpOptions(msgspec.Struct, frozen=True):
    """One option in each entry of the columns: so many nodes of a group, for so many pods.

    `cores` and `memory` are what these nodes have, `asked_cores` and `asked_memory` what the pods ask for.
    """

    groups: IntColumn
    nodes: FloatColumn
    pods: FloatColumn
    cores: FloatColumn
    memory: FloatColumn
    asked_cores: FloatColumn
    asked_memory: FloatColumn
    price: FloatColumn
    priority: IntColumn

    def take(self, which: IntColumn) -> ScaleUpOptions:
        """The options of some groups."""
        return ScaleUpOptions(*(getattr(self, name)[which] for name in self.__struct_fields__))


Expander: TypeAlias = Callable[[ScaleUpOptions], FloatColumn]

# Differences that come from rounding are none.
_SAME: Final = 1e-9


def least_waste(options: ScaleUpOptions) -> FloatColumn:
    """The share of CPU and memory that would stay idle."""
    idle = _idle(options.cores, options.asked_cores) + _idle(options.memory, options.asked_memory)
    return idle / 2


def price(options: ScaleUpOptions) -> FloatColumn:
    """What the nodes cost beside what the pods ask for, at the example prices."""
    worth = options.asked_cores * EXAMPLE_PRICES.core_hour + options.asked_memory / 2**30 * EXAMPLE_PRICES.gib_hour
    return options.price / np.maximum(worth, _SAME)


def priority(options: ScaleUpOptions) -> FloatColumn:
    """The groups that are to come first."""
    return -options.priority.astype(np.float64)


def most_pods(options: ScaleUpOptions) -> FloatColumn:
    """As many pods as possible."""
    return -options.pods


def least_nodes(options: ScaleUpOptions) -> FloatColumn:
    """As few nodes as possible."""
    return options.nodes


EXPANDERS: Final[Mapping[str, Expander]] = MappingProxyType(
    {
        "least-waste": least_waste,
        "price": price,
        "priority": priority,
        "most-pods": most_pods,
        "least-nodes": least_nodes,
    }
)


def expanders_by_name(names: Sequence[str]) -> tuple[Expander, ...]:
    """The expanders of a setting, in its order; an unknown name is refused."""
    for name in names:
        if name not in EXPANDERS:
            raise InvalidInput(name, f"expanders: the expanders are {', '.join(EXPANDERS)}")
    return tuple(EXPANDERS[name] for name in names)


def choose_group(options: ScaleUpOptions, expanders: Sequence[Expander]) -> int:
    """The group to order from; groups are numbered by name, so that the first is taken of those that are equal."""
    left = options
    for expander in expanders:
        scores = expander(left)
        near_best = scores <= scores.min() + _SAME * max(1.0, abs(float(scores.min())))
        left = left.take(np.flatnonzero(near_best))
    return int(left.groups[0])


def _idle(offered: FloatColumn, requested: FloatColumn) -> FloatColumn:
    idle: FloatColumn = 1 - requested / np.maximum(offered, _SAME)
    return idle
