"""What does one pod ask of a node?

All that the rules look at, read once: pods of one template have equal demands, so that what was found for one of them
holds for all. What it asks about other pods goes by its own name and labels: it is read where these are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.placement import Toleration
from trellis.api.kube.pods import PodSpec
from trellis.base.label_requirements import Requirement
from trellis.core.fit.pod_terms import PodTerm, near_terms
from trellis.core.fit.ports import HostPort, host_ports
from trellis.core.fit.requests import effective_requests, overhead
from trellis.core.fit.resident import Resident, resident_of
from trellis.core.fit.resources import LARGEST, PODS, Counts, counted, is_counted
from trellis.core.fit.spread_rules import SpreadRule, spread_rules
from trellis.core.fit.taints import hard_tolerations
from trellis.core.fit.terms import NodeTerm, selector_of, terms_of

Amounts: TypeAlias = tuple[tuple[str, int], ...]

_NONE: Mapping[str, Counts] = {}
_NO_COUNTS: Counts = {}
_NOBODY = Resident()


class Demand(msgspec.Struct, frozen=True):
    """What must be there, and what must be free.

    `amounts` are millicores of CPU and units of all else, in the order of their names and none of them zero; one of
    `pods` is always among them. `overhead` is the part of them that belongs to no container. Of each of `volumes` one
    term must hold; one without terms can be had nowhere. `resident` is what the rules of other pods see of this one.
    """

    amounts: Amounts = ((PODS, 1),)
    overhead: Amounts = ()
    node_name: str = ""
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    near: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    resident: Resident = _NOBODY

    @classmethod
    def of(
        cls,
        spec: PodSpec,
        requests: Mapping[str, Counts] = _NONE,
        *,
        whole: Counts = _NO_COUNTS,
        moves: bool = False,
        metadata: ObjectMeta | None = None,
        volumes: tuple[tuple[NodeTerm, ...], ...] = (),
    ) -> Demand:
        """Of a pod, or of a template.

        `requests` has, by container, counts that take the place of what is written; `whole` those that take the place
        of what the pod asks for as a whole. A pod that `moves` is asked about as if it had no node yet. Without
        `metadata` nothing is asked about other pods; `volumes` is what `volume_terms` says.
        """
        extra = overhead(spec)
        total = effective_requests(spec, requests, whole)
        for name, nanos in extra.items():
            total[name] = total.get(name, 0) + nanos
        return cls(
            amounts=tuple(sorted((*_amounts(total), (PODS, 1)))),
            overhead=_amounts(extra),
            node_name="" if moves else spec.node_name,
            selector=selector_of(spec),
            terms=terms_of(spec),
            tolerations=hard_tolerations(spec.tolerations),
            ports=host_ports(spec),
            volumes=volumes,
            near=near_terms(spec, metadata) if metadata is not None else (),
            spread=spread_rules(spec, metadata) if metadata is not None else (),
            resident=resident_of(spec, metadata) if metadata is not None else _NOBODY,
        )

    @property
    def requests(self) -> Counts:
        """The amounts by resource; what is absent is not asked for."""
        return dict(self.amounts)

    def without(self, resource: str) -> Demand:
        """The same pod, if it asked for nothing of one resource."""
        kept = tuple(each for each in self.amounts if each[0] != resource)
        return msgspec.structs.replace(self, amounts=kept)


def _amounts(nanos: Mapping[str, int]) -> Amounts:
    # One more than any node has: what is beyond all measure fits nowhere.
    counts = ((name, counted(name, each, LARGEST + 1)) for name, each in nanos.items() if is_counted(name))
    return tuple(sorted(each for each in counts if each[1]))
