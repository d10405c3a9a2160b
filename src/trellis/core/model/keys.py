"""Under what an object is found: its key, and the groups that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from trellis.api.buffer import Buffer
from trellis.api.checkpoint import VerticalPodAutoscalerCheckpoint
from trellis.api.hvpa import Hvpa
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_workloads import Observed
from trellis.api.kube.pods import Pod
from trellis.api.vpa import VerticalPodAutoscaler

# Whatever has metadata: other people's kinds, whole or in part, and ours, which are declared apart from them.
AnyObject: TypeAlias = KubeObject | Observed | VerticalPodAutoscaler | VerticalPodAutoscalerCheckpoint | Hvpa | Buffer

T = TypeVar("T", bound=AnyObject)
# Namespace and name; the namespace of a cluster-scoped object is empty. A plain tuple, because the cycle collector
# stops visiting those and a NamedTuple is visited for ever.
Key: TypeAlias = tuple[str, str]

# The groups that an object belongs to. Pure, and it raises for no object: it runs inside the watch.
IndexFunction: TypeAlias = Callable[[T], tuple[str, ...]]

BY_NAMESPACE: Final = "namespace"
BY_OWNER: Final = "owner"
BY_NODE: Final = "node"


def key_of(found: AnyObject) -> Key:
    """The name that an object has as long as it exists; a later object may have it again, with another UID."""
    metadata = found.metadata
    return metadata.namespace, metadata.name


def in_namespace(found: AnyObject) -> tuple[str, ...]:
    """Index by namespace."""
    return (found.metadata.namespace,)


def owned_by(found: AnyObject) -> tuple[str, ...]:
    """Index by the UID of the controller, because a name may be used again; nobody's objects are in no group."""
    for owner in found.metadata.owner_references:
        if owner.controller:
            return (owner.uid,)
    return ()


def on_node(pod: Pod) -> tuple[str, ...]:
    """Index by node; pods without one are in the group of the empty name, where a scheduler looks for them."""
    return (pod.spec.node_name,)
