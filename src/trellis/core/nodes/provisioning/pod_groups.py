"""Gangs: pods of a PodGroup, for which nodes are ordered only if its minimum of pods gets a place.

A pod names its PodGroup by a label. Pods that run count for the minimum; once as many run, the others are like any
pods.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.state.pods import PendingPod, is_finished

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"


class Gang(msgspec.Struct, frozen=True):
    """The pending pods of a PodGroup, and how many of them need a place for it to have its minimum."""

    key: ObjectKey
    pods: tuple[PendingPod, ...]
    missing: int


class PodGroups:
    """All PodGroups by their minimum, and their pods. None says that an object was deleted."""

    def __init__(self) -> None:
        self._minimums: dict[ObjectKey, int] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._group_of: dict[ObjectKey, ObjectKey] = {}

    def put_group(self, key: ObjectKey, group: PodGroup | None) -> None:
        if group is not None:
            self._minimums[key] = group.spec.min_member
        else:
            self._minimums.pop(key, None)

    def put_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        """Record the group of a pod. A pod that has ended is in none."""
        previous = self._group_of.pop(key, None)
        if previous is not None:
            self._members[previous].pop(key)
            if not self._members[previous]:
                del self._members[previous]
        name = pod.metadata.labels.get(POD_GROUP_LABEL) if pod is not None and not is_finished(pod) else None
        if name is not None:
            group = self._group_of[key] = key[0], name
            self._members.setdefault(group, {})[key] = None

    def list_unschedulable_gangs(
        self,
        pending: Mapping[ObjectKey, PendingPod],
        placed: Container[ObjectKey],
        excluded: Container[ObjectKey],
    ) -> tuple[Gang, ...]:
        """The groups without their minimum of placed pods, of which a pending pod found no node, by their names.

        Pods that are `excluded` get their nodes in another way.
        """
        return tuple(self._list_gangs(pending, placed, excluded)) if self._minimums else ()

    def _list_gangs(
        self, pending: Mapping[ObjectKey, PendingPod], placed: Container[ObjectKey], excluded: Container[ObjectKey]
    ) -> Iterator[Gang]:
        for key in sorted(self._minimums.keys() & self._members.keys()):
            members = sorted(self._members[key])
            missing = self._minimums[key] - sum(member in placed for member in members)
            pods = tuple(pending[member] for member in members if member in pending and member not in excluded)
            if missing > 0 and any(pod.is_unschedulable for pod in pods):
                yield Gang(key, pods, missing)
