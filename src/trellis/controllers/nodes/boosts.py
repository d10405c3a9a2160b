"""The CPU that the replacement of a pod starts with, by the VPA or Hvpa that governs it, as admission decides.

A pod that is moved is boosted again, and needs more on its new node than it has on its old one. Governors are found
through well-known kinds of workloads; a pod whose chain of controllers leads through other kinds counts as ungoverned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.admission.starting_cpu import compute_starting_boosts, remove_boost
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.cluster.owners import Owners, build_controller_ref
from trellis.core.cluster.store import BY_NAMESPACE, Snapshot, index_by_namespace
from trellis.core.fit.resources import ResourceCounts
from trellis.core.nodes.scale_down.drainability import StartupBoosts, no_boosts
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import Governor, get_governor
from trellis.kube.discovery import Served
from trellis.kube.resources import HVPAS, LIMIT_RANGES, VPAS
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import OWNING_WORKLOADS, SIZING_HVPAS, SIZING_VPAS
from trellis.runtime.informers import Informers
from trellis.runtime.settings.component import effective_boost_settings


class BoostInformers:
    """The informers of everything that boosts depend on."""

    def __init__(self, informers: Informers, settings: NodeControllerSettings, served: Served) -> None:
        namespaces = settings.scope.vpa_object_namespace
        self._covers = settings.scope.covers
        self._settings = effective_boost_settings(
            settings.scope.feature_gates, settings.loop.max_allowed_cpu_boost, served
        )
        # Where the CRDs are not installed, nothing is boosted.
        self._vpas: Informer[VerticalPodAutoscaler] = informers.follow(
            SIZING_VPAS, namespaces=namespaces, served=served.serves(VPAS)
        )
        self._hvpas: Informer[Hvpa] = informers.follow(SIZING_HVPAS, namespaces=namespaces, served=served.serves(HVPAS))
        self._limit_ranges: Informer[LimitRange] = informers.follow(
            LIMIT_RANGES, indexes={BY_NAMESPACE: index_by_namespace}, namespaces=namespaces
        )
        self._workloads: dict[str, Informer[Any]] = {
            kind.resource.kind: informers.follow(kind, namespaces=namespaces) for kind in OWNING_WORKLOADS
        }

    def build_startup_boosts(self) -> StartupBoosts:
        """The boosts by the present cluster state, for a plan in another thread."""
        governors = [*self._governors(VPAS.kind, self._vpas), *self._governors(HVPAS.kind, self._hvpas)]
        if not self._settings.enabled or not any(governor.vpa.can_boost for _, governor in governors):
            return no_boosts
        workloads = {kind: informer.snapshot() for kind, informer in self._workloads.items()}
        return _StartingBoosts(governors, workloads, self._limit_ranges.snapshot(), self._settings)

    def _governors(self, kind: str, informer: Informer[Any]) -> Iterable[tuple[tuple[str, str, str], Governor]]:
        for key, vpa in informer.snapshot().objects.items():
            governor = get_governor(vpa)
            if governor is not None and self._covers(key[0]):
                yield (kind, *key), governor


class _StartingBoosts:
    """Boosts by a snapshot of the cluster state. It is used by one thread only."""

    def __init__(
        self,
        governors: Iterable[tuple[tuple[str, str, str], Governor]],
        workloads: Mapping[str, Snapshot[Any]],
        limit_ranges: Snapshot[LimitRange],
        settings: BoostSettings,
    ) -> None:
        self._governor_items = governors
        self._owners = Owners({kind: objects.get for kind, objects in workloads.items()}, {})
        self._limit_ranges = limit_ranges
        self._settings = settings
        self._limits: dict[str, NamespaceLimits] = {}

    def __call__(self, pod: Pod) -> ResourceCounts:
        """By container, the millicores with which its replacement would start; only those that would be boosted."""
        namespace = pod.metadata.namespace
        controller = build_controller_ref(namespace, pod.metadata.controller)
        if controller is None or not self._governors.governs_namespace(namespace):
            return {}
        topmost = self._owners.follow(controller).topmost
        governor = self._governors.find(topmost, pod.metadata.labels, self._owners) if topmost is not None else None
        if not isinstance(governor, Governor):
            return {}
        return compute_starting_boosts(remove_boost(pod).spec, governor, self._limits_in(namespace), self._settings)

    @cached_property
    def _governors(self) -> GovernorIndex:
        governors = GovernorIndex()
        for (kind, namespace, name), governor in self._governor_items:
            governors.put(kind, namespace, name, governor)
        return governors

    def _limits_in(self, namespace: str) -> NamespaceLimits:
        if namespace not in self._limits:
            ranges = self._limit_ranges.by_index(BY_NAMESPACE, namespace)
            self._limits[namespace] = read_limit_ranges(ranges) if ranges else NamespaceLimits()
        return self._limits[namespace]
