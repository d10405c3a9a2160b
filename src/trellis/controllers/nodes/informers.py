"""Informers of the node autoscaler: nodes, all pods, Buffers, and everything that decides where pods may run."""

from __future__ import annotations

from typing import Any

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.cluster.store import AnyObject, ObjectKey
from trellis.core.fit import Storage
from trellis.kube.discovery import Served
from trellis.kube.resources import (
    BUFFERS,
    CONFIG_MAPS,
    DAEMON_SETS,
    NODES,
    PDBS,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from trellis.kube.watch.informer import Informer
from trellis.providers.kwok import KwokObjects
from trellis.runtime.cached_kinds import (
    FULL_DAEMON_SETS,
    FULL_NAMESPACES,
    OWNING_WORKLOADS,
    PLACED_PODS,
    PLAIN_BUFFERS,
    SIZING_HVPAS,
    SIZING_VPAS,
    UNFINISHED_PODS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers
from trellis.runtime.shared_informers import FollowedKind


def list_followed_kinds(settings: NodeControllerSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the autoscaler follows, for boosts as well, and others of its process may follow too."""
    return (
        follow_pods(PLACED_PODS, "", UNFINISHED_PODS),
        *follow_in("", FULL_DAEMON_SETS, FULL_NAMESPACES),
        *follow_in(settings.scope.vpa_object_namespace, PLAIN_BUFFERS, SIZING_VPAS, SIZING_HVPAS, *OWNING_WORKLOADS),
    )


class NodeInformers:
    """The informers of the autoscaler. Only Buffers may be limited to one namespace: nodes hold pods of all of them."""

    def __init__(self, informers: Informers, settings: NodeControllerSettings, served: Served) -> None:
        self.nodes: Informer[Node] = informers.follow(NODES)
        self.pods: Informer[Pod] = informers.follow(PLACED_PODS, namespace="", field_selector=UNFINISHED_PODS)
        self.buffers: Informer[Buffer] = informers.follow(
            PLAIN_BUFFERS, namespace=settings.scope.vpa_object_namespace, served=served.serves(BUFFERS)
        )
        self.daemon_sets: Informer[DaemonSet] = informers.follow(FULL_DAEMON_SETS, namespace="")
        self.namespaces: Informer[KubeObject] = informers.follow(FULL_NAMESPACES)
        self.budgets: Informer[PodDisruptionBudget] = informers.follow(PDBS, namespace="")
        self.claims: Informer[PersistentVolumeClaim] = informers.follow(VOLUME_CLAIMS, namespace="")
        self.volumes: Informer[PersistentVolume] = informers.follow(VOLUMES)
        self.classes: Informer[StorageClass] = informers.follow(STORAGE_CLASSES)
        place, _, name = settings.provider.kwok_node_groups.partition("/")
        self._config_name = (place, name)
        self.config: Informer[ConfigMap] = informers.follow(
            CONFIG_MAPS, namespace=place, field_selector=f"metadata.name={name}"
        )

    def storage(self) -> Storage:
        """All claims, volumes and classes as they are now."""
        return Storage(
            claims=self.claims.snapshot().objects,
            volumes={volume.metadata.name: volume for volume in self.volumes.snapshot()},
            classes={storage_class.metadata.name: storage_class for storage_class in self.classes.snapshot()},
        )

    def kwok_objects(self) -> KwokObjects:
        """The objects that the provider of kwok nodes reads."""
        return KwokObjects(self.config.get(*self._config_name), self.nodes.snapshot().objects.values())

    def find(self, kind: str, key: ObjectKey) -> AnyObject | None:
        """An object of a kind of which some cannot be read."""
        informers: dict[str, Informer[Any]] = {
            PODS.kind: self.pods,
            BUFFERS.kind: self.buffers,
            DAEMON_SETS.kind: self.daemon_sets,
        }
        cached: AnyObject | None = informers[kind].get(*key)
        return cached
