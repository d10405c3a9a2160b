"""How does what the watch brings reach what is known of workloads? Each change is put there as it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trellis.api.hvpa import Hvpa
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.updater.slimming import GoverningHvpa, GoverningVpa
from trellis.controllers.updater.watching import Watching
from trellis.core.model.keys import BY_NAMESPACE, Key
from trellis.core.resize.gathering import Gathering
from trellis.kube.changes import Change
from trellis.kube.resources import HVPAS, VPAS
from trellis.runtime.component_settings import ScopeSettings


class Knowledge:
    """Follows the informers. What is known is in `gathering`."""

    def __init__(self, watching: Watching, scope: ScopeSettings, gathering: Gathering) -> None:
        self.gathering = gathering
        self._watching = watching
        self._scope = scope
        self._subscribe()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it is now."""
        return self._watching.pods.get(namespace, name)

    def _subscribe(self) -> None:
        watching = self._watching
        watching.vpas.subscribe(self._vpa_changed)
        watching.hvpas.subscribe(self._hvpa_changed)
        for kind, informer in watching.workloads.items():
            informer.subscribe(self._workload_changed(kind))
        watching.pods.subscribe(self._pod_changed)
        watching.limit_ranges.subscribe(self._limits_changed)
        watching.nodes.subscribe(self._node_changed)
        watching.namespaces.subscribe(self._namespace_changed)
        watching.hpas.subscribe(self._hpa_changed)
        if watching.switch is not None:
            watching.switch.subscribe(self._switched)

    def _vpa_changed(self, change: Change[VerticalPodAutoscaler]) -> None:
        self._put_governor(VPAS.kind, change.key, change.new if isinstance(change.new, GoverningVpa) else None)

    def _hvpa_changed(self, change: Change[Hvpa]) -> None:
        self._put_governor(HVPAS.kind, change.key, change.new if isinstance(change.new, GoverningHvpa) else None)

    def _put_governor(self, kind: str, key: Key, found: GoverningVpa | GoverningHvpa | None) -> None:
        if self._scope.covers(key[0]):
            governor, annotations = (found.governor, found.metadata.annotations) if found else (None, NOTHING)
            self.gathering.put_governor(kind, key, governor, annotations)

    def _pod_changed(self, change: Change[Pod]) -> None:
        self.gathering.put_pod(change.key, change.old, change.new)

    def _workload_changed(self, kind: str) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            self.gathering.put_workload(kind, change.key, change.old, change.new)

        return changed

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        namespace = change.key[0]
        self.gathering.put_limits(namespace, self._watching.limit_ranges.snapshot().by(BY_NAMESPACE, namespace))

    def _node_changed(self, change: Change[Node]) -> None:
        self.gathering.put_node(change.key[1], change.new)

    def _namespace_changed(self, change: Change[KubeObject]) -> None:
        annotations = change.new.metadata.annotations if change.new is not None else NOTHING
        self.gathering.put_namespace(change.key[1], annotations)

    def _hpa_changed(self, change: Change[HorizontalPodAutoscaler]) -> None:
        self.gathering.put_hpa(change.key, change.old, change.new)

    def _switched(self, change: Change[Any]) -> None:
        self.gathering.put_switch(change.new.data if change.new is not None else None)
