"""The lines of a dump: the state of a cluster at one time, its usage, and what is missing.

An object is written as the document that the API server would return, as far as Trellis reads its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.api import registry
from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.checkpoint import VerticalPodAutoscalerCheckpoint
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import ConfigMap, Event, Lease, Namespace
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, PodDisruptionBudget, ResourceQuota
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef

# The component that a dump's header names.
DUMP: Final = "dump"

# What each line is called.
ABOUT: Final = "about"
OBJECT: Final = "object"
SCALE: Final = "scale"
COMPONENT: Final = "component"
MISSING: Final = "missing"
USAGE: Final = "usage"
HISTORY: Final = "history"
# The node groups that providers reported.
REPORTED_GROUPS: Final = "reportedGroups"
# The last line of a complete dump.
END: Final = "end"

# Why something is missing that a cluster does not have at all.
NOT_SERVED: Final = "is not served by the cluster"
# The ConfigMap that stops all changes; any other one declares groups of nodes.
FREEZE_CONFIG_MAP: Final = "trellis-freeze"
# What is missing where the ConfigMap that declares groups of nodes could not be read.
NODE_GROUPS: Final = "NodeGroups"

WORKLOAD_KINDS: Final = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController)
# Kinds of Dynamic Resource Allocation, which API servers serve since Kubernetes 1.34.
DEVICE_KINDS: Final[Mapping[str, type[Any]]] = {
    "ResourceClaim": DeviceClaim,
    "ResourceClaimTemplate": DeviceClaimTemplate,
    "ResourceSlice": ResourceSlice,
}
# As what an object is read, by the kind that its document names.
DUMPED_KINDS: Final[Mapping[str, type[Any]]] = {
    registry.VPA.name: VerticalPodAutoscaler,
    registry.CHECKPOINT.name: VerticalPodAutoscalerCheckpoint,
    registry.HVPA.name: Hvpa,
    registry.BUFFER.name: Buffer,
    **{
        kind_type.__name__: kind_type
        for kind_type in (
            *WORKLOAD_KINDS,
            ConfigMap,
            Event,
            HorizontalPodAutoscaler,
            Lease,
            LimitRange,
            Namespace,
            Node,
            PersistentVolume,
            PersistentVolumeClaim,
            Pod,
            PodDisruptionBudget,
            ResourceQuota,
            StorageClass,
        )
    },
    **DEVICE_KINDS,
}


class DumpInfo(msgspec.Struct, frozen=True):
    """When it was collected, from which server, and where: the namespaces that were looked into.

    `patterns` are how they were asked for, which an anonymous dump does not tell; `everywhere` is whether it was all.
    `all_pods` is whether the pods of other namespaces were asked for too, for what they take of the nodes.
    """

    time: float
    server: str = ""
    resizes_pods: bool = True
    namespaces: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    anonymous: bool = False
    everywhere: bool = True
    all_pods: bool = False


class DumpEnd(msgspec.Struct, frozen=True):
    """How much there is: objects by kind, and samples."""

    counts: dict[str, int] = {}


class DumpedScale(msgspec.Struct, frozen=True, rename={"scale": "answer"}):
    """The scale of a target whose kind is not well known; `replicas` if a Buffer depends on their number."""

    target: TargetRef
    scale: ScaleInfo
    replicas: int | None = None


class DumpedComponent(msgspec.Struct, frozen=True):
    """A component of an autoscaler as its Deployment has it: which one, its image, and its flags without secrets."""

    component: str
    namespace: str
    name: str
    image: str = ""
    replicas: int = 1
    flags: Mapping[str, str] = {}


class MissingData(msgspec.Struct, frozen=True):
    """What is not in a collection: `what` is a kind or a source, `where` a namespace or nothing for all, and why."""

    what: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}{f' in {self.where}' if self.where else ''}: {self.why}"


class UsageColumns(msgspec.Struct, frozen=True):
    """What containers used, in columns of equal length: cores and bytes, NaN where not measured."""

    namespaces: list[str]
    pods: list[str]
    containers: list[str]
    times: npt.NDArray[np.float64]
    cpu: npt.NDArray[np.float64]
    memory: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def concatenate(cls, parts: Sequence[UsageColumns]) -> UsageColumns:
        """The rows of several parts, in order."""
        names = (
            [part.namespaces for part in parts],
            [part.pods for part in parts],
            [part.containers for part in parts],
        )
        numbers = ([part.times for part in parts], [part.cpu for part in parts], [part.memory for part in parts])
        namespaces, pods, containers = (list(chain.from_iterable(column)) for column in names)
        times, cpu, memory = (np.concatenate([np.zeros(0), *column]) for column in numbers)
        return cls(namespaces, pods, containers, times, cpu, memory)


class ContainerHistory(msgspec.Struct, frozen=True):
    """What one container of one pod used over time, oldest first; NaN where not measured."""

    namespace: str
    pod: str
    container: str
    times: npt.NDArray[np.float64]
    cpu: npt.NDArray[np.float64]
    memory: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times)
