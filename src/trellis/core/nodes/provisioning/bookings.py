"""Places for the booked pods of ProvisioningRequests on existing nodes.

They are placed before all pending pods, so that no other pod counts on their capacity, and on the nodes where they were
before. As pods of the request get their nodes, the places on these nodes end first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.nodes.provisioning.lifecycle import RequestsView
from trellis.core.nodes.provisioning.requests import BookedPods
from trellis.core.nodes.state.placement import NodePlaces, place_chunks
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.usage.columns import IntColumn


class BookedPlacement(msgspec.Struct, frozen=True):
    """The numbers of the nodes on which pods of a request have their places, one for each pod with a place."""

    pods: BookedPods
    numbers: IntColumn


def place_bookings(
    simulation: ClusterSimulation, requests: RequestsView, chunk_nodes: Mapping[str, Sequence[str]]
) -> list[tuple[BookedPods, NodePlaces]]:
    """Place all booked pods. `chunk_nodes` has, by the UID of their set, the names of the nodes that they were on."""
    bookings = requests.bookings
    if not bookings:
        return []
    previous: dict[str, tuple[str, ...]] = {}
    for observed in requests.requests:
        for pods in observed.bookings:
            previous[pods.uid] = _without_taken_places(
                chunk_nodes.get(pods.uid, ()), pods.count, observed.consumer_nodes
            )
    return list(zip(bookings, place_chunks(simulation, bookings, previous), strict=True))


def list_booked_placements(placed: Sequence[tuple[BookedPods, NodePlaces]]) -> list[BookedPlacement]:
    """The same with the nodes of each set in one column."""
    return [BookedPlacement(pods, np.concatenate((places.ready, places.upcoming))) for pods, places in placed]


def _without_taken_places(nodes: Sequence[str], count: int, consumer_nodes: Sequence[str]) -> tuple[str, ...]:
    """The names of as many nodes as there are booked pods left, without those that pods have taken since."""
    surplus = len(nodes) - count
    arrived = Counter(consumer_nodes) if surplus > 0 else Counter[str]()
    kept: list[str] = []
    for name in nodes:
        if surplus > 0 and arrived[name] > 0:
            arrived[name] -= 1
            surplus -= 1
        else:
            kept.append(name)
    return tuple(kept[:count])
