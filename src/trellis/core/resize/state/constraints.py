"""Constraints on workloads from outside: LimitRanges of the namespace, freezes, and HPAs that scale the workload.

An HPA's utilization is usage as a share of requests, so a change of a request changes what the HPA does: a lower
request is a higher utilization, more replicas, less usage each, and a lower recommendation. Metrics by average value
do not depend on requests, and do not conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.resize.freeze import Freeze, find_freeze
from trellis.core.resize.state.ownership import WorkloadKey, remove_member

_UTILIZATION: Final = "Utilization"


def find_utilization_resources(hpas: Iterable[HorizontalPodAutoscaler]) -> frozenset[str]:
    """Those of CPU and memory by whose utilization any of these scales; of one container is enough."""
    sources = (metric.resource or metric.container_resource for hpa in hpas for metric in hpa.spec.metrics)
    return frozenset(
        source.name
        for source in sources
        if source is not None and source.target.type == _UTILIZATION and source.name in RESOURCES
    )


_UNLIMITED: Final = NamespaceLimits()


class WorkloadConstraints:
    """The constraints of all workloads."""

    def __init__(self) -> None:
        self._limits: dict[str, NamespaceLimits] = {}
        self._namespaces: dict[str, Labels] = {}
        self._switch: Mapping[str, str] | None = None
        # By target and by name of the HPA.
        self._hpas: dict[WorkloadKey, dict[str, frozenset[str]]] = {}

    def limits(self, namespace: str) -> NamespaceLimits:
        """What LimitRanges say."""
        return self._limits.get(namespace, _UNLIMITED)

    def scaled_by(self, workload: WorkloadKey) -> frozenset[str]:
        """The resources by whose utilization HPAs scale it."""
        return frozenset().union(*self._hpas.get(workload, {}).values())

    def frozen(self, namespace: str, own: Labels) -> Freeze | None:
        """The freeze that holds there; `own` are the annotations of the governing object."""
        return find_freeze(self._switch, self._namespaces.get(namespace, NOTHING), own)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """All LimitRanges of a namespace."""
        limit_ranges = tuple(ranges)
        if limit_ranges:
            self._limits[namespace] = read_limit_ranges(limit_ranges)
        else:
            self._limits.pop(namespace, None)

    def put_namespace(self, name: str, annotations: Labels) -> bool:
        """What is written on a namespace; the answer is whether that is new."""
        if annotations == self._namespaces.get(name, NOTHING):
            return False
        if annotations:
            self._namespaces[name] = annotations
        else:
            del self._namespaces[name]
        return True

    def put_switch(self, data: Mapping[str, str] | None) -> None:
        """What the ConfigMap says that freezes the cluster."""
        self._switch = data

    def put_hpa(
        self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None
    ) -> tuple[WorkloadKey, ...]:
        """An HPA; the answer is whom it scales, and scaled before."""
        concerned: dict[WorkloadKey, None] = {}
        for hpa in (old, new):
            if hpa is None:
                continue
            target = hpa.spec.scale_target_ref
            workload = (key[0], target.kind, target.name)
            concerned[workload] = None
            resources = find_utilization_resources([hpa])
            if hpa is new and resources:
                self._hpas.setdefault(workload, {})[key[1]] = resources
            else:
                remove_member(self._hpas, workload, key[1])
        return tuple(concerned)
