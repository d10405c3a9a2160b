"""Which of the placed pods are counted?

The three ways in which a rule counts pods, node by node. Equal questions share one column.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from trellis.api.kube.slices import Labels
from trellis.base.selectors import Selector
from trellis.core.fit.pod_terms import PodQuery, PodTerm
from trellis.core.fit.resident import Resident


class MeantByAll(msgspec.Struct, frozen=True, gc=False):
    """Pods that every one of the queries means; also those that are leaving."""

    queries: tuple[PodQuery, ...]

    @property
    def selector(self) -> Selector:
        """What their labels must be, as far as one selector says it."""
        return self.queries[0].selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in; None for any."""
        query = self.queries[0]
        return query.namespaces if query.namespace_selector.selects_nothing else None

    def counts(self, resident: Resident, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod is one of them."""
        return all(each.means(resident.namespace, namespace_labels, labels) for each in self.queries)


class SpreadOver(msgspec.Struct, frozen=True, gc=False):
    """Pods of one namespace that are to stay, as constraints of spread count them."""

    namespace: str
    selector: Selector

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces they can be in."""
        return (self.namespace,)

    def counts(self, resident: Resident, labels: Labels, _namespace_labels: Labels) -> bool:
        """Whether a pod is one of them."""
        return resident.namespace == self.namespace and not resident.leaving and self.selector.matches(labels)


class KeepingAway(msgspec.Struct, frozen=True, gc=False):
    """Pods that have this term of anti-affinity themselves."""

    term: PodTerm


# Those that are answered by looking at a pod's labels, and all of them.
ByLabels: TypeAlias = MeantByAll | SpreadOver
Question: TypeAlias = ByLabels | KeepingAway
