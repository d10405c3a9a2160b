"""Finds the Buffers that a change of a workload, a pod, a node, a quota or a governor concerns, and enqueues them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.controllers.buffers.capacity_buffers.controller import CapacityBuffers
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.state import BufferStates
from trellis.core.buffers.pod_summaries import is_relevant_workload_change
from trellis.core.cluster.store import key_of
from trellis.core.sizing.governors import get_governor
from trellis.kube.resources import JOBS
from trellis.kube.watch.cache import ObjectChange
from trellis.runtime.queue_controller import Enqueue

# Pods, quotas and nodes change in numbers: seconds from the first change until Buffers are reconciled.
DEBOUNCE_SECONDS: Final = 0.25


class BufferChangeHandlers:
    """Enqueues Buffers. `enqueue_division` is called with namespaces whose quotas have to be divided again."""

    def __init__(
        self,
        informers: BufferInformers,
        states: BufferStates,
        classes: NodeClasses,
        capacity: CapacityBuffers,
        *,
        enqueue: Enqueue,
        enqueue_division: Callable[[str, float], None],
    ) -> None:
        self._informers = informers
        self._states = states
        self._classes = classes
        self._capacity = capacity
        self._enqueue = enqueue
        self._enqueue_division = enqueue_division

    def subscribe(self) -> None:
        """Handle all changes from now on."""
        informers = self._informers
        informers.buffers.subscribe(self._buffer_changed)
        informers.pods.subscribe(self._pod_changed)
        informers.nodes.subscribe(self._node_changed)
        informers.quotas.subscribe(self._quota_changed)
        informers.limit_ranges.subscribe(self._limits_changed)
        for informer in (informers.vpas, informers.hvpas):
            informer.subscribe(self._governor_changed)
        for kind, workloads in informers.workloads.items():
            workloads.subscribe(self._workload_changed(kind))
        self._capacity.subscribe(self._enqueue)

    def _buffer_changed(self, change: ObjectChange[Buffer]) -> None:
        self._enqueue(change.key)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        if not self._informers.demands.is_relevant_change(change.old, change.new):
            return
        if self._classes.pod_changed(change):
            self._enqueue_by_class()
        # A pod whose labels have changed may have left one target and joined another.
        for pod in (change.old, change.new):
            if pod is not None:
                for selectors in (self._states.selecting, self._states.filling):
                    for key in selectors.find_matching(change.key[0], pod.metadata.labels):
                        self._enqueue(key, DEBOUNCE_SECONDS)

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        if self._classes.node_changed(change):
            self._enqueue_by_class()

    def _quota_changed(self, change: ObjectChange[ResourceQuota]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or (old.spec, old.status) != (new.spec, new.status):
            self._enqueue_division(change.key[0], DEBOUNCE_SECONDS)

    def _limits_changed(self, change: ObjectChange[LimitRange]) -> None:
        namespace = change.key[0]
        self._states.forget_templates(namespace)
        self._capacity.forget_templates(namespace)
        for key in (*map(key_of, self._informers.list_buffers_in(namespace)), *self._capacity.keys_in(namespace)):
            self._enqueue(key, DEBOUNCE_SECONDS)

    def _governor_changed(self, change: ObjectChange[Any]) -> None:
        for version in (change.old, change.new):
            governor = get_governor(version)
            if governor is not None:
                target = governor.claim.target
                self._enqueue_by_target(target.namespace, target.kind, target.name)
                for job in self._informers.list_job_names(target.namespace, target.kind, target.name):
                    self._enqueue_by_target(target.namespace, JOBS.kind, job)

    def _workload_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            if is_relevant_workload_change(change.old, change.new):
                self._enqueue_by_target(change.key[0], kind, change.key[1])

        return changed

    def _enqueue_by_target(self, namespace: str, kind: str, name: str) -> None:
        buffers = map(key_of, self._informers.list_buffers(namespace, kind, name))
        for key in (*buffers, *self._capacity.list_keys_of(namespace, kind, name)):
            self._enqueue(key)

    def _enqueue_by_class(self) -> None:
        for key in self._states.with_node_class:
            self._enqueue(key, DEBOUNCE_SECONDS)
