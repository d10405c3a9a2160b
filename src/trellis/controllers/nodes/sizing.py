"""Informers of everything that sizes of pods depend on: VPAs, Hvpas, LimitRanges, and the workloads that they target.

A pod that is moved gets the recommended size on its new node and is boosted again, and pods that stay will grow.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.policies import LimitRange
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.cluster.store import BY_NAMESPACE, Snapshot, index_by_namespace
from trellis.core.nodes.state.recommended_sizes import GovernorKey, SizingSources
from trellis.core.sizing.governors import Governor, get_governor
from trellis.kube.discovery import Served
from trellis.kube.resources import HVPAS, LIMIT_RANGES, VPAS
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import OWNING_WORKLOADS, SIZING_HVPAS, SIZING_VPAS
from trellis.runtime.informers import Informers
from trellis.runtime.settings.component import effective_boost_settings


class SizingInformers:
    """The informers of everything that sizes depend on."""

    def __init__(self, informers: Informers, settings: NodeControllerSettings, served: Served) -> None:
        namespaces = settings.scope.vpa_object_namespace
        self._covers = settings.scope.covers
        self._boosts = effective_boost_settings(
            settings.scope.feature_gates, settings.loop.max_allowed_cpu_boost, served
        )
        # Where the CRDs are not installed, nothing is sized.
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

    def build_sources(self) -> SizingSources:
        """The present cluster state, for a plan in another thread."""
        governing: dict[str, Snapshot[Any]] = {VPAS.kind: self._vpas.snapshot(), HVPAS.kind: self._hvpas.snapshot()}
        limit_ranges = self._limit_ranges.snapshot()
        return SizingSources(
            partial(self._list_governors, governing),
            {kind: informer.snapshot().get for kind, informer in self._workloads.items()},
            partial(limit_ranges.by_index, BY_NAMESPACE),
            self._boosts,
        )

    def _list_governors(self, governing: dict[str, Snapshot[Any]]) -> Iterable[tuple[GovernorKey, Governor]]:
        for kind, snapshot in governing.items():
            for key, vpa in snapshot.objects.items():
                governor = get_governor(vpa)
                if governor is not None and self._covers(key[0]):
                    yield (kind, *key), governor
