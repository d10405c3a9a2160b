"""Finds the Hvpas that a change of an Hvpa, an HPA, a VPA or a pod concerns, and enqueues them."""

from __future__ import annotations

from typing import Final

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.controllers.hvpa.informers import HvpaInformers
from trellis.controllers.hvpa.state import HvpaStates
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.hvpa.view_builder import HvpaPod, PodEdit, WatchedHvpa
from trellis.kube.resources import HVPAS
from trellis.kube.watch.cache import ObjectChange
from trellis.runtime.queue_controller import Enqueue

# Pods change in numbers: seconds from the first change until the Hvpa is reconciled.
_DEBOUNCE_SECONDS: Final = 0.25


class HvpaChangeHandlers:
    """Handles changes once it has subscribed. What was edited in a pod is noted in its Hvpa's state."""

    def __init__(self, informers: HvpaInformers, states: HvpaStates, enqueue: Enqueue) -> None:
        self._informers = informers
        self._states = states
        self._enqueue = enqueue

    def subscribe(self) -> None:
        """Handle all changes from now on."""
        self._informers.hvpas.subscribe(self._hvpa_changed)
        self._informers.hpas.subscribe(self._hpa_changed)
        self._informers.pods.subscribe(self._pod_changed)
        self._informers.vpas.subscribe(self._vpa_changed)

    def _hvpa_changed(self, change: ObjectChange[WatchedHvpa]) -> None:
        self._enqueue(change.key)
        targets = {hvpa.spec.target_ref for hvpa in (change.old, change.new) if hvpa is not None}
        if change.old is None or change.new is None or len(targets) > 1:
            # Another one with the same target may come first now, or no longer.
            for target in targets:
                self._enqueue_by_target(change.key[0], target.kind, target.name)

    def _vpa_changed(self, change: ObjectChange[VerticalPodAutoscaler]) -> None:
        self._enqueue_existing(change.key)
        for vpa in (change.old, change.new):
            if vpa is not None:
                self._enqueue_by_target(change.key[0], vpa.spec.target_ref.kind, vpa.spec.target_ref.name)

    def _hpa_changed(self, change: ObjectChange[HorizontalPodAutoscaler]) -> None:
        self._enqueue_existing(change.key)
        for hpa in (change.old, change.new):
            if hpa is not None:
                target = hpa.spec.scale_target_ref
                if target.kind == HVPAS.kind:
                    self._enqueue_existing((change.key[0], target.name))
                else:
                    self._enqueue_by_target(change.key[0], target.kind, target.name)

    def _pod_changed(self, change: ObjectChange[HvpaPod]) -> None:
        edit = None
        if change.old is not None and change.new is not None and change.old.spec != change.new.spec:
            edit = PodEdit(change.old, change.new)
        # A pod whose labels have changed may have left one target and joined another.
        for pod in (change.old, change.new):
            if pod is not None:
                for key in self._states.selectors.find_matching(change.key[0], pod.metadata.labels):
                    self._enqueue(key, _DEBOUNCE_SECONDS)
                    if edit is not None and pod is change.new:
                        self._states.add_edit(key, edit)

    def _enqueue_by_target(self, namespace: str, kind: str, name: str) -> None:
        for hvpa in self._informers.list_hvpas(namespace, kind, name):
            self._enqueue(key_of(hvpa))

    def _enqueue_existing(self, key: ObjectKey) -> None:
        if self._informers.hvpas.get(*key) is not None:
            self._enqueue(key)
