"""The informers of an observation: nodes, all pods, and everything that decides where pods may run.

They run only while this process observes, apart from those of the translation: a cluster has tens of thousands of pods,
and of the others little more than labels is kept.
"""

from __future__ import annotations

from typing import Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES, DeviceObjects
from trellis.kube.resources import NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import FULL_NAMESPACES, PLACED_PODS, PLAIN_BUFFERS, UNFINISHED_PODS
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind

_NO_NAMESPACES: Final = OptionalKind("for Buffers, pod affinity by namespace labels is ignored")
_NO_VOLUMES: Final = OptionalKind("for Buffers, the volumes of pending pods are ignored")


class HeadroomInformers:
    """All that is observed. Only Buffers may be those of some namespaces: nodes hold pods of all of them."""

    daemon_sets: None = None
    # Where pods with resource claims would fit is not observed: no node is ordered here.
    device_claims: None = None
    device_claim_templates: None = None
    resource_slices: None = None
    are_devices_known: bool = False

    def __init__(self, informers: Informers, namespaces: tuple[str, ...]) -> None:
        self.buffers: Informer[Buffer] = informers.follow(PLAIN_BUFFERS, namespaces=namespaces)
        self.nodes: Informer[Node] = informers.follow(NODES)
        self.pods: Informer[Pod] = informers.follow(PLACED_PODS, namespaces=(), field_selector=UNFINISHED_PODS)
        self.namespaces: Informer[KubeObject] = informers.follow(FULL_NAMESPACES, dispensable=_NO_NAMESPACES)
        self.claims: Informer[PersistentVolumeClaim] = informers.follow(
            VOLUME_CLAIMS, namespaces=(), dispensable=_NO_VOLUMES
        )
        self.volumes: Informer[PersistentVolume] = informers.follow(VOLUMES, dispensable=_NO_VOLUMES)
        self.classes: Informer[StorageClass] = informers.follow(STORAGE_CLASSES, dispensable=_NO_VOLUMES)

    def devices(self) -> DeviceObjects:
        return UNKNOWN_DEVICES

    def storage(self) -> Storage:
        """All claims, volumes and classes as they are now."""
        return Storage(
            claims=self.claims.snapshot().objects,
            volumes={volume.metadata.name: volume for volume in self.volumes.snapshot()},
            classes={storage_class.metadata.name: storage_class for storage_class in self.classes.snapshot()},
        )
