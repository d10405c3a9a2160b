"""What does a node say about its order?

All that is known of an order stands on its Node, so that any process can go on with it. Until its boot time is over a
node carries a taint that keeps pods away. By then it is given to kwok, which knows its nodes by an annotation, as it is
shipped, or by a label:

- By a label, a node gets it when it has booted, and is not ready before.
- By an annotation, kwok looks at nodes only when they are new (seen in 0.8), so that they have it from the beginning
  and are ready at once. The taint alone makes them wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.api.kwok_groups import BOOT_SECONDS, KWOK_KEY, MISHAP, ORDERED_AT, STARTING_TAINT
from trellis.base.errors import InvalidTime
from trellis.base.times import format_micro_time, parse_time

KWOK_VALUE: Final = "fake"

_HIGHEST: Final = 9_999_999
_LONGEST_BOOT: Final = 86_400.0


class Order(msgspec.Struct, frozen=True):
    """When a node was ordered, how long it boots, and what goes wrong."""

    at: float
    boot_seconds: float
    mishap: str = ""

    @property
    def due(self) -> float:
        """When it has booted."""
        return self.at + self.boot_seconds

    @property
    def annotations(self) -> dict[str, str]:
        """As it stands on the node; kwok gets no node that is not to come up."""
        at = format_micro_time(datetime.fromtimestamp(self.at, UTC))
        fate = {MISHAP: self.mishap} if self.mishap else {KWOK_KEY: KWOK_VALUE}
        return {ORDERED_AT: at, BOOT_SECONDS: repr(self.boot_seconds), **fate}


def order_of(node: Node) -> Order:
    """What a node says about its order; one that says nothing sensible was up when it was made."""
    notes, made = node.metadata.annotations, node.metadata.creation_timestamp
    at = _instant(notes.get(ORDERED_AT, ""))
    if at is None:
        at = made.timestamp() if made is not None else 0.0
    return Order(at, _seconds(notes.get(BOOT_SECONDS, "")), notes.get(MISHAP, ""))


def ordered_node(document: dict[str, Any], name: str, order: Order) -> dict[str, Any]:
    """The Node to create for an order, from that of its group."""
    labels = {key: value for key, value in document["metadata"]["labels"].items() if key != KWOK_KEY}
    starting = {"key": STARTING_TAINT, "effect": "NoSchedule"}
    return {
        **document,
        "metadata": {
            "name": name,
            "labels": {**labels, "kubernetes.io/hostname": name},
            "annotations": order.annotations,
        },
        "spec": {"providerID": f"kwok://{name}", "taints": [*document["spec"].get("taints", ()), starting]},
        "status": {key: value for key, value in document["status"].items() if key != "conditions"},
    }


def free_names(group: str, taken: Collection[str]) -> Iterator[str]:
    """Names for new nodes of a group; as long as no node comes or goes, always the same.

    They go on after the highest, so that a node rarely gets the name of one that has just gone.
    """
    form = re.compile(rf"{re.escape(group)}-([0-9]{{1,7}})")
    highest = max((int(match[1]) for name in taken if (match := form.fullmatch(name))), default=0)
    for number in chain(range(highest + 1, _HIGHEST + 1), range(1, highest)):
        if (name := f"{group}-{number}") not in taken:
            yield name


# Asked of every node in every pass; reading a time takes longer than the rest of a node.
@lru_cache(maxsize=16_384)
def _instant(text: str) -> float | None:
    try:
        return parse_time(text).timestamp()
    except InvalidTime:
        return None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(seconds, _LONGEST_BOOT) if seconds >= 0 else 0.0
