"""What holds for a workload from outside? The limits of its namespace, freezes, and HPAs that scale it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.model.keys import Key
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.resize.family import leave
from trellis.core.resize.freezing import Freeze, freeze_of
from trellis.core.resize.governed import Workload
from trellis.core.resize.hpas import scaled_by

_UNLIMITED: Final = NamespaceLimits()


class Surroundings:
    """Of all workloads."""

    def __init__(self) -> None:
        self._limits: dict[str, NamespaceLimits] = {}
        self._namespaces: dict[str, Labels] = {}
        self._switch: Mapping[str, str] | None = None
        # By target and by name of the HPA.
        self._hpas: dict[Workload, dict[str, frozenset[str]]] = {}

    def limits(self, namespace: str) -> NamespaceLimits:
        """What LimitRanges say."""
        return self._limits.get(namespace, _UNLIMITED)

    def scaled_by(self, workload: Workload) -> frozenset[str]:
        """The resources by whose utilization HPAs scale it."""
        return frozenset().union(*self._hpas.get(workload, {}).values())

    def frozen(self, namespace: str, own: Labels) -> Freeze | None:
        """Who has stopped changes there; `own` are the annotations of what governs."""
        return freeze_of(self._switch, self._namespaces.get(namespace, NOTHING), own)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """All LimitRanges of a namespace."""
        found = tuple(ranges)
        if found:
            self._limits[namespace] = read_limit_ranges(found)
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
        self, key: Key, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None
    ) -> tuple[Workload, ...]:
        """An HPA; the answer is whom it scales, and scaled before."""
        concerned: dict[Workload, None] = {}
        for each in (old, new):
            if each is None:
                continue
            target = each.spec.scale_target_ref
            workload = (key[0], target.kind, target.name)
            concerned[workload] = None
            resources = scaled_by([each])
            if each is new and resources:
                self._hpas.setdefault(workload, {})[key[1]] = resources
            else:
                leave(self._hpas, workload, key[1])
        return tuple(concerned)
