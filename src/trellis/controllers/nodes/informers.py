"""Informers of the node autoscaler: nodes, all pods, Buffers, and everything that decides where pods may run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeVar

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.controllers.nodes.provisioning_requests import follow_requests
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.cluster.store import AnyObject, ObjectKey
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES, DeviceObjects
from trellis.kube.discovery import Served
from trellis.kube.resources import (
    BUFFERS,
    DAEMON_SETS,
    DEVICE_CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
    NODES,
    PDBS,
    POD_GROUPS,
    PODS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    Resource,
)
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import (
    FULL_DAEMON_SETS,
    FULL_NAMESPACES,
    MANAGED_BUFFERS,
    OWNING_WORKLOADS,
    PLACED_PODS,
    SIZING_HVPAS,
    SIZING_VPAS,
    UNFINISHED_PODS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.shared_informers import FollowedKind

D = TypeVar("D", DeviceClaim, DeviceClaimTemplate, ResourceSlice)

_NO_POD_GROUPS: Final = OptionalKind("nodes are ordered for pods of a PodGroup one by one")
_NO_DEVICES: Final = OptionalKind("pods with resource claims get no nodes, and keep theirs")


def list_followed_kinds(settings: NodeControllerSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the autoscaler follows, for sizes of pods as well, and others of its process may follow too."""
    return (
        follow_pods(PLACED_PODS, (), UNFINISHED_PODS),
        *follow_in((), FULL_DAEMON_SETS, FULL_NAMESPACES),
        *follow_in(settings.scope.vpa_object_namespace, MANAGED_BUFFERS, SIZING_VPAS, SIZING_HVPAS, *OWNING_WORKLOADS),
    )


class NodeInformers:
    """The informers of the autoscaler. Only Buffers may be those of some namespaces: nodes hold pods of all."""

    def __init__(self, informers: Informers, settings: NodeControllerSettings, served: Served) -> None:
        self._informers = informers
        self.nodes: Informer[Node] = informers.follow(NODES)
        self.pods: Informer[Pod] = informers.follow(PLACED_PODS, namespaces=(), field_selector=UNFINISHED_PODS)
        self.buffers: Informer[Buffer] = informers.follow(
            MANAGED_BUFFERS, namespaces=settings.scope.vpa_object_namespace, served=served.serves(BUFFERS)
        )
        self.daemon_sets: Informer[DaemonSet] = informers.follow(FULL_DAEMON_SETS, namespaces=())
        self.namespaces: Informer[KubeObject] = informers.follow(FULL_NAMESPACES)
        self.budgets: Informer[PodDisruptionBudget] = informers.follow(PDBS, namespaces=())
        self.claims: Informer[PersistentVolumeClaim] = informers.follow(VOLUME_CLAIMS, namespaces=())
        self.volumes: Informer[PersistentVolume] = informers.follow(VOLUMES)
        self.classes: Informer[StorageClass] = informers.follow(STORAGE_CLASSES)
        # Pods of all namespaces need nodes, and so do their groups.
        self.pod_groups: Informer[PodGroup] = informers.follow(
            POD_GROUPS, namespaces=(), dispensable=_NO_POD_GROUPS, served=served.serves(POD_GROUPS)
        )
        self.requests = (
            follow_requests(informers, served, settings.scope.vpa_object_namespace)
            if settings.requests.enable_provisioning_requests
            else None
        )
        self.device_claims: Informer[DeviceClaim] = self._follow_devices(DEVICE_CLAIMS, served, namespaces=())
        self.device_claim_templates: Informer[DeviceClaimTemplate] = self._follow_devices(
            DEVICE_CLAIM_TEMPLATES, served, namespaces=()
        )
        self.resource_slices: Informer[ResourceSlice] = self._follow_devices(RESOURCE_SLICES, served)

    def _follow_devices(
        self, resource: Resource[D], served: Served, namespaces: tuple[str, ...] | None = None
    ) -> Informer[D]:
        """Follow a kind that API servers serve since Kubernetes 1.34, and that older roles do not name."""
        return self._informers.follow(
            resource, namespaces=namespaces, served=served.serves(resource), dispensable=_NO_DEVICES
        )

    def storage(self) -> Storage:
        """All claims, volumes and classes as they are now."""
        return Storage(
            claims=self.claims.snapshot().objects,
            volumes={volume.metadata.name: volume for volume in self.volumes.snapshot()},
            classes={storage_class.metadata.name: storage_class for storage_class in self.classes.snapshot()},
        )

    @property
    def are_devices_known(self) -> bool:
        """Whether resource claims, templates and published devices can all be followed."""
        informers = (self.device_claims, self.device_claim_templates, self.resource_slices)
        return all(self._informers.is_available(it) and not self._informers.is_lacking(it) for it in informers)

    def devices(self) -> DeviceObjects:
        """All resource claims, templates and published devices as they are now, if all of them can be followed."""
        if not self.are_devices_known:
            return UNKNOWN_DEVICES
        return DeviceObjects(
            claims=self.device_claims.snapshot().objects,
            templates=self.device_claim_templates.snapshot().objects,
            slices={slice_.metadata.name: slice_ for slice_ in self.resource_slices.snapshot()},
        )

    def list_nodes(self) -> Collection[Node]:
        """All nodes as they are now."""
        return self.nodes.snapshot().objects.values()

    def find(self, kind: str, key: ObjectKey) -> AnyObject | None:
        """An object of a kind of which some cannot be read."""
        informers: dict[str, Informer[Any]] = {
            PODS.kind: self.pods,
            BUFFERS.kind: self.buffers,
            DAEMON_SETS.kind: self.daemon_sets,
        }
        cached: AnyObject | None = informers[kind].get(*key)
        return cached
