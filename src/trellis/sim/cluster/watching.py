"""Who is told what happens in the model cluster?"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod


class What(StrEnum):
    """What happened to a pod, in a word."""

    MADE = "made"
    PLACED = "placed"
    STARTED = "started"
    KILLED = "killed"
    RESTARTED = "restarted"
    EVICTED = "evicted"
    PRESSED_OUT = "pressed out"
    RESIZED = "resized"
    RESIZE_DEFERRED = "resize deferred"
    RESIZE_INFEASIBLE = "resize infeasible"
    ENDED = "ended"
    LOST = "lost"
    MOVED = "moved"
    PREEMPTED = "preempted"


class Watcher(Protocol):
    """Whoever looks at the cluster: changes as a watch brings them, and words for what lies behind them.

    Of an object, `old` is None when it is new and `new` when it is gone. All calls come at the kernel's time, and
    none of them may change the cluster at once: what is to be done is asked for as an event.
    """

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob changed."""

    def node(self, old: Node | None, new: Node | None) -> None:
        """A node changed."""

    def event(self, event: Event) -> None:
        """A kubelet evicted a pod because its node was short of memory, and says so as kubelets do."""

    def happened(self, workload: int, what: What, pod: Pod, text: str) -> None:
        """Something happened to a pod of the workload of that number; `text` says more, in few words."""
