"""Which Buffers does a change concern? Those about the workload, the pod, the node, or the namespace that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from trellis.api.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.controllers.buffers.capacity import Capacity
from trellis.controllers.buffers.classes import Classes
from trellis.controllers.buffers.keeping import Keeping
from trellis.controllers.buffers.slimming import pod_differs, workload_differs
from trellis.controllers.buffers.watching import Watching, governor_of
from trellis.core.model.keys import Key, key_of
from trellis.kube.changes import Change
from trellis.kube.resources import JOBS

# Pods, quotas and nodes change in numbers: so long the rest of them is waited for.
GATHER_SECONDS: Final = 0.25


class Add(Protocol):
    """Has a Buffer looked at."""

    def __call__(self, key: Key, delay: float = 0.0, /) -> None:
        """Soon, or in so many seconds."""


class Calling:
    """Calls for looks. `settle` is told of namespaces whose quotas have to be shared out anew."""

    def __init__(
        self,
        watching: Watching,
        keeping: Keeping,
        classes: Classes,
        capacity: Capacity,
        *,
        add: Add,
        settle: Callable[[str, float], None],
    ) -> None:
        self._watching = watching
        self._keeping = keeping
        self._classes = classes
        self._capacity = capacity
        self._add = add
        self._settle = settle

    def subscribe(self) -> None:
        """Be told of all that is followed."""
        watching = self._watching
        watching.buffers.subscribe(self._buffer_changed)
        watching.pods.subscribe(self._pod_changed)
        watching.nodes.subscribe(self._node_changed)
        watching.quotas.subscribe(self._quota_changed)
        watching.limit_ranges.subscribe(self._limits_changed)
        for informer in (watching.vpas, watching.hvpas):
            informer.subscribe(self._governor_changed)
        for kind, workloads in watching.workloads.items():
            workloads.subscribe(self._workload_changed(kind))
        self._capacity.subscribe(self._add)

    def _buffer_changed(self, change: Change[Buffer]) -> None:
        self._add(change.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if not pod_differs(change.old, change.new):
            return
        if self._classes.pod_changed(change):
            self._call_classes()
        # A pod whose labels have changed may have left one and joined another.
        for each in (change.old, change.new):
            if each is not None:
                for selecting in (self._keeping.selecting, self._keeping.filling):
                    for key in selecting.concerned(change.key[0], each.metadata.labels):
                        self._add(key, GATHER_SECONDS)

    def _node_changed(self, change: Change[Node]) -> None:
        if self._classes.node_changed(change):
            self._call_classes()

    def _quota_changed(self, change: Change[ResourceQuota]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or (old.spec, old.status) != (new.spec, new.status):
            self._settle(change.key[0], GATHER_SECONDS)

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        namespace = change.key[0]
        self._keeping.forget_templates(namespace)
        self._capacity.forget_templates(namespace)
        for key in (*map(key_of, self._watching.buffers_in(namespace)), *self._capacity.keys_in(namespace)):
            self._add(key, GATHER_SECONDS)

    def _governor_changed(self, change: Change[Any]) -> None:
        for each in (change.old, change.new):
            governor = governor_of(each)
            if governor is not None:
                target = governor.claim.target
                self._call(target.namespace, target.kind, target.name)
                for job in self._watching.jobs_of(target.namespace, target.kind, target.name):
                    self._call(target.namespace, JOBS.kind, job)

    def _workload_changed(self, kind: str) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            if workload_differs(change.old, change.new):
                self._call(change.key[0], kind, change.key[1])

        return changed

    def _call(self, namespace: str, kind: str, name: str) -> None:
        """Look at those with this target."""
        found = map(key_of, self._watching.buffers_of(namespace, kind, name))
        for key in (*found, *self._capacity.keys_of(namespace, kind, name)):
            self._add(key)

    def _call_classes(self) -> None:
        for key in self._keeping.of_classes:
            self._add(key, GATHER_SECONDS)
