"""Startup and status taints: taints that nodes have for a while, and that say nothing about the nodes of a group.

A startup taint keeps pods away until an agent has prepared the node, such as a network plug-in. Until then the node is
not ready. A status taint reports a passing condition of a node that is otherwise ready. Neither is part of the template
of a group: nodes to be ordered would seem to refuse all pods. The prefixes are those of Cluster Autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node, Taint

# The second is the older name of the first.
STARTUP_TAINT_PREFIXES: Final = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
STATUS_TAINT_PREFIX: Final = "status-taint.cluster-autoscaler.kubernetes.io/"


class TransientTaints(msgspec.Struct, frozen=True):
    """The keys of further startup taints and status taints, beside those with the prefixes."""

    startup: tuple[str, ...] = ()
    status: tuple[str, ...] = ()

    def is_startup(self, taint: Taint) -> bool:
        """Whether a node with this taint is not ready yet."""
        return taint.key in self.startup or taint.key.startswith(STARTUP_TAINT_PREFIXES)

    def is_transient(self, taint: Taint) -> bool:
        """Whether a taint is left out of templates."""
        return self.is_startup(taint) or taint.key in self.status or taint.key.startswith(STATUS_TAINT_PREFIX)

    def has_startup_taint(self, node: Node) -> bool:
        """Whether the node still has a startup taint."""
        return any(self.is_startup(taint) for taint in node.spec.taints)

    def remove_from(self, template: Node) -> Node:
        """The template without startup and status taints."""
        lasting = self.select_lasting(template.spec.taints)
        if lasting == template.spec.taints:
            return template
        return msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, taints=lasting))

    def select_lasting(self, taints: Iterable[Taint]) -> tuple[Taint, ...]:
        """The taints that are neither startup nor status taints."""
        return tuple(taint for taint in taints if not self.is_transient(taint))


NO_TRANSIENT_TAINTS: Final = TransientTaints()
