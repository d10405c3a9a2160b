"""The coscheduling plugin's PodGroup (scheduling.x-k8s.io/v1alpha1): pods of which a minimum has to run together."""

from __future__ import annotations

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice


class PodGroupSpec(Slice, frozen=True):
    """How many pods have to run together."""

    min_member: int = 0


class PodGroup(KubeObject, frozen=True):
    """A group of pods, which name it by a label."""

    spec: PodGroupSpec = PodGroupSpec()
