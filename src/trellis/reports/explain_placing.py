"""Which nodes are there, or would be ordered, for whoever wants one, in sentences?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trellis.base.counted import counted
from trellis.core.explain.buffer_parts import Hindrance
from trellis.core.explain.node_parts import Placing, Refusal
from trellis.reports.describe.words import listed
from trellis.reports.explain_node import told_sentence


def placing_lines(placing: Placing, noun: str) -> Iterator[str]:
    """What is found for so many of something: chunks, or pods that are alike."""
    yield verdict_sentence(placing)
    if placing.count:
        yield f"Of {counted(placing.count, noun)}: {'; '.join(_found(placing))}."
    if placing.obstacles:
        yield f"The nodes that there are take no more: {listed([_obstacle(each) for each in placing.obstacles])}."
    for each in placing.refused:
        yield _refusal(each)
    if placing.orders:
        yield f"The next order, for all who need nodes: {_nodes(placing.orders)}."
    elif placing.unplaced:
        yield "No node would be ordered now."


def verdict_sentence(placing: Placing) -> str:
    """The verdict; what is said of an order was not carried out by whoever explains it."""
    said = told_sentence(placing.told)
    return f"By the next plan, {said}" if placing.ordered else said


def _found(placing: Placing) -> Iterator[str]:
    if placing.ready:
        on = f" ({listed([f'{count} on {name}' for name, count in placing.nodes.items()])})" if placing.nodes else ""
        yield f"{placing.ready} with room on nodes that are ready{on}"
    if placing.coming:
        yield f"{placing.coming} with room on nodes on their way"
    for group, count in placing.ordered.items():
        yield f"{count} for which nodes of {group} would be ordered"
    if placing.unplaced:
        yield f"{placing.unplaced} without any"


def _refusal(refusal: Refusal) -> str:
    resource = f" ({refusal.resource})" if refusal.resource else ""
    groups = listed(list(refusal.groups))
    which = f"Group {groups} does" if len(refusal.groups) == 1 else f"Groups {groups} do"
    return f"{which} not help: {refusal.reason.code}{resource}."


def _obstacle(obstacle: Hindrance) -> str:
    resource = f" ({obstacle.resource})" if obstacle.resource else ""
    return f"{counted(obstacle.nodes, 'node')}, {obstacle.reason.code}{resource}"


def _nodes(orders: Mapping[str, int]) -> str:
    return listed([f"{counted(count, 'node')} of {group}" for group, count in orders.items()])
