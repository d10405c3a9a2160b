"""Who controls whom? Pods by their direct controller, and controllers by theirs.

From a target one goes down to its pods, and from a pod up to the target that it may belong to. No pod is walked past
that belongs to somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.api.kube.pods import Pod
from trellis.core.resize.governed import Workload

K = TypeVar("K")
V = TypeVar("V")

# A chain of controllers is never this long, unless it is a circle.
_DEEPEST: Final = 10


class Family:
    """All pods and workloads; `find` finds a workload of a kind that is watched."""

    def __init__(self, find: Callable[[Workload], KubeObject | None]) -> None:
        self._find = find
        self._pods: dict[Workload, dict[str, Pod]] = {}
        self._children: dict[Workload, dict[Workload, None]] = {}

    def put_pod(self, name: str, old: Pod | None, new: Pod | None) -> None:
        """A pod is new, has changed or is gone."""
        if old is not None and old.metadata.controller is not None:
            leave(self._pods, _controller(old), name)
        if new is not None and new.metadata.controller is not None:
            self._pods.setdefault(_controller(new), {})[name] = new

    def put_workload(self, itself: Workload, old: KubeObject | None, new: KubeObject | None) -> None:
        """A workload is new, has changed or is gone."""
        if old is not None and old.metadata.controller is not None:
            leave(self._children, _controller(old), itself)
        if new is not None and new.metadata.controller is not None:
            self._children.setdefault(_controller(new), {})[itself] = None

    def pods_of(self, workload: Workload) -> Iterator[Pod]:
        """The pods that it controls itself, in the order in which they came."""
        return iter(self._pods.get(workload, {}).values())

    def below(self, workload: Workload) -> Iterator[Workload]:
        """A controller and all that it controls."""
        passed = {workload}
        waiting = [workload]
        while waiting:
            at = waiting.pop()
            yield at
            for child in self._children.get(at, ()):
                if child not in passed:
                    passed.add(child)
                    waiting.append(child)

    def above(self, namespace: str, controller: OwnerReference | None) -> Iterator[Workload]:
        """A controller and all that control it."""
        for _ in range(_DEEPEST):
            if controller is None:
                return
            at = (namespace, controller.kind, controller.name)
            yield at
            found = self._find(at)
            controller = found.metadata.controller if found is not None else None


def leave(index: dict[Workload, dict[K, V]], where: Workload, what: K) -> None:
    """Take one out of a group, and the group out of the index if it was the last."""
    members = index.get(where)
    if members is not None:
        members.pop(what, None)
        if not members:
            del index[where]


def _controller(found: Any) -> Workload:
    controller = found.metadata.controller
    return found.metadata.namespace, controller.kind, controller.name
