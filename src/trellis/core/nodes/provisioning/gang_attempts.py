"""Attempts to place gangs: the minimum of pods of a PodGroup, or none of them.

Gangs are tried after all other pending pods. If fewer pods get a place than the PodGroup requires, no node is ordered
for any of them, and the rest of the pass goes on as if they were not there.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.provisioning.attempts import ExplainRefusal
from trellis.core.nodes.provisioning.pod_groups import Gang
from trellis.core.nodes.scale_up.estimator import NodeEstimator, UnplacedPods
from trellis.core.nodes.scale_up.tentative_placement import TentativePlacement
from trellis.core.nodes.state.placement import NodePlaces, PodEquivalenceGroup, build_equivalence_groups
from trellis.core.nodes.state.simulation import ClusterSimulation

GANG_UNSATISFIABLE = Reason(
    "GangUnsatisfiable", "Fewer pods of the PodGroup would get a place than have to run together.", Severity.WARNING
)


class GangPlacement(msgspec.Struct, frozen=True):
    """The places of equal pods of a gang. With a `refusal` none of them has a place."""

    group: PodEquivalenceGroup
    places: NodePlaces
    unplaced: UnplacedPods
    refusal: DetailedReason | None = None


def try_gang(
    gang: Gang,
    largest_node: tuple[float, float],
    simulation: ClusterSimulation,
    estimator: NodeEstimator,
    explain: ExplainRefusal,
) -> list[GangPlacement]:
    """Place the pods of a gang on existing, upcoming and new nodes; if too few fit, place none."""
    tentative = TentativePlacement(simulation, estimator)
    placements: list[GangPlacement] = []
    for group in build_equivalence_groups(gang.pods, largest_node):
        count = len(group.pods)
        ready = tentative.place(group.demand, count, simulation.ready)
        upcoming = tentative.place(group.demand, count - len(ready), simulation.upcoming)
        places = NodePlaces(ready, upcoming)
        placements.append(GangPlacement(group, places, UnplacedPods(group.demand, count - places.count)))
    tentative.place_on_new_nodes([placement.unplaced for placement in placements])
    without_place = sum(placement.unplaced.count for placement in placements)
    placed = len(gang.pods) - without_place
    if placed >= gang.missing:
        return placements
    text = f"{placed} of {pluralize(gang.missing, 'pod')} that PodGroup {'/'.join(gang.key)} needs would get a place"
    refused = next((placement.unplaced for placement in placements if placement.unplaced.count), None)
    if refused is not None:
        text += f": {explain(refused.demand)}"
    tentative.undo()
    refusal = DetailedReason(GANG_UNSATISFIABLE, text)
    return [
        GangPlacement(
            placement.group,
            NodePlaces(),
            UnplacedPods(placement.group.demand, len(placement.group.pods)),
            refusal,
        )
        for placement in placements
    ]
