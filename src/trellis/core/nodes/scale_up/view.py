"""The view that a scale-up is planned on: snapshot, readiness, upcoming nodes, node templates and backoffs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.scale_up.backoff import GroupBackoff, active_backoffs, back_off
from trellis.core.nodes.scale_up.memory import ScaleUpMemory
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.node_templates import NodeTemplates
from trellis.core.nodes.state.readiness import NodeReadiness, classify_nodes
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.upcoming_nodes import UpcomingNodes, find_upcoming_nodes


class ScaleUpView(msgspec.Struct, frozen=True):
    """The snapshot, the readiness of its nodes, upcoming nodes, templates of new nodes, and backoffs of groups."""

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    upcoming: UpcomingNodes
    templates: NodeTemplates
    backoffs: Mapping[str, GroupBackoff]
    now: float
    settings: ScaleUpSettings

    def target(self, name: str) -> int:
        """The target of a group, unconfirmed orders included."""
        unconfirmed_order = self.upcoming.unconfirmed_orders.get(name)
        shown = self.snapshot.groups[name].target
        return shown if unconfirmed_order is None else max(shown, unconfirmed_order.target)

    @property
    def largest_node(self) -> tuple[float, float]:
        """The most millicores and bytes of any existing or new node."""
        tables = (self.snapshot.table, self.templates.table)
        cores, memory = (max(float(table.offered(name).max(initial=0)) for table in tables) for name in (CPU, MEMORY))
        return cores, memory


def build_scale_up_view(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ScaleUpView:
    readiness = classify_nodes(snapshot, now, settings.max_node_provision_seconds)
    upcoming = find_upcoming_nodes(snapshot, memory.unconfirmed_orders, memory.missing_since, now, settings)
    backoffs = active_backoffs(memory.backoffs, now, settings)
    for failure in sorted(upcoming.failures, key=lambda failure: failure.failed_at):
        backoffs[failure.group] = back_off(
            backoffs.get(failure.group), failure.failed_at, str(failure.reason), settings
        )
    return ScaleUpView(snapshot, readiness, upcoming, NodeTemplates(snapshot, readiness), backoffs, now, settings)
