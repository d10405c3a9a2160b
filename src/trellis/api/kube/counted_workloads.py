"""Workloads, as far as "which pods are yours, and how many?" needs them: their templates are read when they are needed.

`generation` says that a template may be another one.
"""

from __future__ import annotations

from trellis.api.kube.observed_workloads import (
    ObservedReplicationController,
    ObservedWorkload,
    OwnedMeta,
    PlainlySelectingSpec,
    SelectingSpec,
)
from trellis.api.kube.slices import Slice


class CountedMeta(OwnedMeta, frozen=True):
    """Name, owners and generation."""

    generation: int = 0


class CountedSpec(SelectingSpec, frozen=True):
    """A Job has `parallelism` where others have replicas."""

    parallelism: int | None = None


class CountedStatus(Slice, frozen=True):
    """How many replicas there are."""

    replicas: int = 0


class CountedWorkload(ObservedWorkload, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet or Job."""

    metadata: CountedMeta = CountedMeta()
    spec: CountedSpec = CountedSpec()
    status: CountedStatus = CountedStatus()


class CountedReplicationController(ObservedReplicationController, frozen=True):
    """A ReplicationController."""

    metadata: CountedMeta = CountedMeta()
    spec: PlainlySelectingSpec = PlainlySelectingSpec()
    status: CountedStatus = CountedStatus()
