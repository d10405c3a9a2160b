"""Node groups as providers reported them when a cluster was collected, in one line of a dump."""

from __future__ import annotations

import msgspec

from trellis.base.json_lines import decode_payload
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.state import ClusterState
from trellis.core.nodes.node_groups import GroupState


class ReportedGroups(msgspec.Struct, frozen=True, omit_defaults=True):
    """The groups of the node autoscaler's providers, and the problems of groups, by name.

    `providers` are all that the autoscaler uses. Groups that are objects of the cluster are not among the states: a
    reader knows them from those objects.
    """

    providers: tuple[str, ...]
    states: tuple[GroupState, ...] = ()
    problems: tuple[tuple[str, DetailedReason], ...] = ()


def read_reported_groups(collected: ClusterState) -> ReportedGroups | None:
    """The groups that a collected state has from providers; None if no provider was asked."""
    if collected.reported_groups is None:
        return None
    return decode_payload(collected.reported_groups, ReportedGroups)
