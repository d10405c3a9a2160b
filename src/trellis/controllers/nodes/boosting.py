"""With how much CPU would the successor of a pod start? By the VPA or Hvpa that governs it, as admission would decide.

A pod that is moved is boosted again, so that it needs more on its new node than it has on its old one. Governors are
found through kinds that are well known; a chain of controllers that leads through others counts as ungoverned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from trellis.api.hvpa import Hvpa
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.admission.slimming import GoverningHvpa, GoverningVpa, WorkloadSlimmer, slim_hvpa, slim_vpa
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.admission.governors import Governors
from trellis.core.admission.starting import starting_boosts, unboosted
from trellis.core.boost.raising import BoostSettings
from trellis.core.fit.resources import Counts
from trellis.core.model.keys import BY_NAMESPACE, in_namespace
from trellis.core.model.owners import Owners, controller_in
from trellis.core.model.store import Snapshot
from trellis.core.nodes.moves import Starts, no_boosts
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import Governor
from trellis.kube.informer import Informer
from trellis.kube.resources import HVPAS, LIMIT_RANGES, OBSERVED_WORKLOADS, VPAS
from trellis.kube.served import Served
from trellis.runtime.boosts import boosts_in_force
from trellis.runtime.informers import Informers


class Boosting:
    """Follows all that decides about boosts."""

    def __init__(self, informers: Informers, settings: NodeControllerSettings, served: Served) -> None:
        own = settings.scope.vpa_object_namespace
        self._covers = settings.scope.covers
        self._settings = boosts_in_force(settings.scope.feature_gates, settings.loop.max_allowed_cpu_boost, served)
        # Without their definitions there are none, and nothing is boosted.
        self._vpas: Informer[VerticalPodAutoscaler] = informers.follow(
            VPAS, slim_vpa, namespace=own, served=served.serves(VPAS)
        )
        self._hvpas: Informer[Hvpa] = informers.follow(HVPAS, slim_hvpa, namespace=own, served=served.serves(HVPAS))
        self._limit_ranges: Informer[LimitRange] = informers.follow(
            LIMIT_RANGES, indexes={BY_NAMESPACE: in_namespace}, namespace=own
        )
        self._workloads: dict[str, Informer[Any]] = {
            each.kind: informers.follow(each, WorkloadSlimmer().slim, namespace=own) for each in OBSERVED_WORKLOADS
        }

    def starts(self) -> Starts:
        """What is known now, for a plan in another thread."""
        found = [*self._governors(VPAS.kind, self._vpas), *self._governors(HVPAS.kind, self._hvpas)]
        if not self._settings.enabled or not any(governor.vpa.boosts for _, governor in found):
            return no_boosts
        workloads = {kind: each.snapshot() for kind, each in self._workloads.items()}
        return _Starting(found, workloads, self._limit_ranges.snapshot(), self._settings)

    def _governors(self, kind: str, informer: Informer[Any]) -> Iterable[tuple[tuple[str, str, str], Governor]]:
        for key, each in informer.snapshot().objects.items():
            if isinstance(each, GoverningVpa | GoverningHvpa) and each.governor is not None and self._covers(key[0]):
                yield (kind, *key), each.governor


class _Starting:
    """All of it at one moment; it belongs to whoever asks first."""

    def __init__(
        self,
        governors: Iterable[tuple[tuple[str, str, str], Governor]],
        workloads: Mapping[str, Snapshot[Any]],
        limit_ranges: Snapshot[LimitRange],
        settings: BoostSettings,
    ) -> None:
        self._found = governors
        self._owners = Owners({kind: each.get for kind, each in workloads.items()}, {})
        self._limit_ranges = limit_ranges
        self._settings = settings
        self._limits: dict[str, NamespaceLimits] = {}

    def __call__(self, pod: Pod) -> Counts:
        """By container, the millicores with which its successor would start; only those that would be boosted."""
        namespace = pod.metadata.namespace
        controller = controller_in(namespace, pod.metadata.controller)
        if controller is None or not self._governors.rules_in(namespace):
            return {}
        topmost = self._owners.follow(controller).topmost
        found = self._governors.find(topmost, pod.metadata.labels, self._owners) if topmost is not None else None
        if not isinstance(found, Governor):
            return {}
        return starting_boosts(unboosted(pod).spec, found, self._limits_in(namespace), self._settings)

    @cached_property
    def _governors(self) -> Governors:
        governors = Governors()
        for (kind, namespace, name), governor in self._found:
            governors.put(kind, namespace, name, governor)
        return governors

    def _limits_in(self, namespace: str) -> NamespaceLimits:
        if namespace not in self._limits:
            ranges = self._limit_ranges.by(BY_NAMESPACE, namespace)
            self._limits[namespace] = read_limit_ranges(ranges) if ranges else NamespaceLimits()
        return self._limits[namespace]
