"""Keeps the state of workloads current: changes from informers, and scales of targets that are not watched.

Scales are read every 30 seconds, and at once when a target is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING
from trellis.controllers.updater.informers import UpdaterInformers
from trellis.core.cluster.owners import Owners
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.core.sizing.governors import get_governor
from trellis.kube.resources import HVPAS, VPAS
from trellis.kube.scales import ScaleLookups
from trellis.kube.watch.cache import ObjectChange
from trellis.runtime.settings.component import ScopeSettings


class StateFeed:
    """Feeds changes from the informers to the cache of workloads, `gathering`."""

    def __init__(self, informers: UpdaterInformers, scope: ScopeSettings, cache: WorkloadCache) -> None:
        self.cache = cache
        self._informers = informers
        self._scope = scope
        self._subscribe()

    def get_pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it is now."""
        return self._informers.pods.get(namespace, name)

    def _subscribe(self) -> None:
        informers = self._informers
        informers.vpas.subscribe(self._vpa_changed)
        informers.hvpas.subscribe(self._hvpa_changed)
        for kind, informer in informers.workloads.items():
            informer.subscribe(self._workload_changed(kind))
        informers.pods.subscribe(self._pod_changed)
        informers.limit_ranges.subscribe(self._limits_changed)
        informers.nodes.subscribe(self._node_changed)
        informers.namespaces.subscribe(self._namespace_changed)
        informers.hpas.subscribe(self._hpa_changed)
        if informers.switch is not None:
            informers.switch.subscribe(self._freeze_config_changed)

    def _vpa_changed(self, change: ObjectChange[VerticalPodAutoscaler]) -> None:
        self._put_governor(VPAS.kind, change.key, change.new)

    def _hvpa_changed(self, change: ObjectChange[Hvpa]) -> None:
        self._put_governor(HVPAS.kind, change.key, change.new)

    def _put_governor(self, kind: str, key: ObjectKey, governing: VerticalPodAutoscaler | Hvpa | None) -> None:
        if self._scope.covers(key[0]):
            annotations = governing.metadata.annotations if governing is not None else NOTHING
            self.cache.put_governor(kind, key, get_governor(governing), annotations)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        self.cache.put_pod(change.key, change.old, change.new)

    def _workload_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            self.cache.put_workload(kind, change.key, change.old, change.new)

        return changed

    def _limits_changed(self, change: ObjectChange[LimitRange]) -> None:
        namespace = change.key[0]
        self.cache.put_limits(namespace, self._informers.limit_ranges.snapshot().by_index(BY_NAMESPACE, namespace))

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        self.cache.put_node(change.key[1], change.new)

    def _namespace_changed(self, change: ObjectChange[KubeObject]) -> None:
        annotations = change.new.metadata.annotations if change.new is not None else NOTHING
        self.cache.put_namespace(change.key[1], annotations)

    def _hpa_changed(self, change: ObjectChange[HorizontalPodAutoscaler]) -> None:
        self.cache.put_hpa(change.key, change.old, change.new)

    def _freeze_config_changed(self, change: ObjectChange[Any]) -> None:
        self.cache.put_freeze_config(change.new.data if change.new is not None else None)


_REFRESH_SECONDS: Final = 30.0


class ScaleRefresher:
    """Keeps scales current, and reads them at once when a target is new. `run` in a task of its own."""

    def __init__(
        self, cache: WorkloadCache, informers: UpdaterInformers, lookups: ScaleLookups, new_target: asyncio.Event
    ) -> None:
        self._cache = cache
        self._lookups = lookups
        self._watched = {kind: informer.get for kind, informer in informers.workloads.items()}
        self._woken = new_target

    async def run(self) -> None:
        """Read scales until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()
            await self.refresh()

    async def refresh(self) -> None:
        """Read the scales of targets without an informer, and of the controllers of targets."""
        governed = self._cache.governors
        targets = governed.list_scaled_targets()
        scales = await self._lookups.find_all(targets) if targets else {}
        while unread := Owners(self._watched, scales).find_unread_scales(governed.list_targets()):
            scales |= await self._lookups.find_all(unread)
        if scales != self._cache.scales:
            self._cache.put_scales(scales)
