"""Storage: PersistentVolumeClaim, PersistentVolume and StorageClass."""

from __future__ import annotations

from typing import Final

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.placement import NodeSelector
from trellis.api.kube.slices import Slice

# Annotations of a claim: bound for good, and the node that its volume is being made for.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
# The access mode of a claim that one pod at a time may use.
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


class PersistentVolumeClaimSpec(Slice, frozen=True):
    """What is claimed. `volume_name` is empty until a volume was found or made."""

    volume_name: str = ""
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaimStatus(Slice, frozen=True):
    """`phase` is Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True):
    """A claim for a volume that stays when the pod goes."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Slice, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Slice, frozen=True):
    """A volume's spec."""

    storage_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(KubeObject, frozen=True):
    """A volume. Older ones say their zone in labels, others in `node_affinity`."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class TopologySelectorLabelRequirement(Slice, frozen=True):
    """A label of a node, and the values it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Slice, frozen=True):
    """All of it must hold. Empty matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True):
    """How volumes are made: at once, or when a pod that needs one is placed, and then where."""

    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
