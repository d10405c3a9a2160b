"""Transforms of the Buffer controller's informers.

Of a target's tens of thousands of pods one shows the shape, and that one is read as a whole. Of all others the
transform keeps labels, age and requests, and stores what many have in common once. `managedFields` is read of Buffers
alone, and reduced to the owners of the status fields that two components may write, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias, cast

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import LabelSelector, ManagedFieldsEntry, ObjectMeta, PodMeta
from trellis.api.kube.observed_workloads import CountedReplicationController, CountedWorkload
from trellis.api.kube.pods import Pod, PodStatus
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.boost.annotation import ANNOTATION_PREFIX
from trellis.core.buffers import is_live
from trellis.core.fit import running_demand_or_empty
from trellis.core.fit.demand import ResourceAmounts
from trellis.kube.resources import (
    BUFFERS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)

CountedTarget: TypeAlias = CountedWorkload | CountedReplicationController

_DAEMON_SET: Final = "DaemonSet"

# The kinds whose count is seen by a watch; of any other the scale is asked.
COUNTED_WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    DEPLOYMENTS.read_as(CountedWorkload),
    REPLICA_SETS.read_as(CountedWorkload),
    STATEFUL_SETS.read_as(CountedWorkload),
    JOBS.read_as(CountedWorkload),
    REPLICATION_CONTROLLERS.read_as(CountedReplicationController),
)


class PodSummary(Pod, frozen=True):
    """A pod of which little is kept. `held` is what it takes on its node; `daemon_on` that node, for a DaemonSet's."""

    held: ResourceAmounts = ()
    daemon_on: str = ""


class PodSummaryTransform:
    """Makes pods small. Lists come in the order of names, so that the pods of a workload follow each other."""

    def __init__(self) -> None:
        self._labels: Labels = NOTHING
        self._held: ResourceAmounts = ()

    def slim(self, found: Pod) -> Pod:
        """The same pod, smaller."""
        metadata, controller = found.metadata, found.metadata.controller
        kept = PodMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=self._shared_labels(metadata.labels),
            annotations=_boosts(metadata.annotations),
        )
        daemon = controller is not None and controller.kind == _DAEMON_SET
        return PodSummary(
            metadata=kept,
            status=_phase(found.status.phase),
            held=self._shared_held(found),
            daemon_on=intern(found.spec.node_name) if daemon else "",
        )

    def _shared_labels(self, labels: Labels) -> Labels:
        if labels != self._labels:
            self._labels = {intern(key): intern(value) for key, value in labels.items()}
        return self._labels

    def _shared_held(self, pod: Pod) -> ResourceAmounts:
        held = running_demand_or_empty(pod).amounts
        if held != self._held:
            self._held = tuple((intern(name), amount) for name, amount in held)
        return self._held


def pod_differs(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change of a pod can make a difference to a Buffer; most tell that a container became ready."""
    if not isinstance(old, PodSummary) or not isinstance(new, PodSummary):
        return True
    return is_live(old) is not is_live(new) or _pod_key(old) != _pod_key(new)


def workload_differs(old: CountedTarget | None, new: CountedTarget | None) -> bool:
    """Whether a change of a workload can: to its spec, its count, or to another one of its name."""
    if old is None or new is None:
        return True
    return _workload_key(old) != _workload_key(new)


def transform_workload(found: CountedTarget) -> CountedTarget:
    """A workload with text that others share."""
    metadata = msgspec.structs.replace(found.metadata, namespace=intern(found.metadata.namespace))
    if isinstance(found, CountedReplicationController):
        return msgspec.structs.replace(found, metadata=metadata)
    spec = msgspec.structs.replace(found.spec, selector=_transform_selector(found.spec.selector))
    return msgspec.structs.replace(found, metadata=metadata, spec=spec)


def _pod_key(pod: PodSummary) -> tuple[object, ...]:
    metadata = pod.metadata
    return metadata.uid, metadata.generation, metadata.labels, metadata.annotations, pod.held, pod.daemon_on


def _workload_key(found: CountedTarget) -> tuple[object, ...]:
    return found.metadata.uid, found.metadata.generation, found.status.replicas


@lru_cache(maxsize=16)
def _phase(phase: str) -> PodStatus:
    return PodStatus(phase=intern(phase))


def _boosts(annotations: Mapping[str, str]) -> Labels:
    return {key: value for key, value in annotations.items() if key.startswith(ANNOTATION_PREFIX)} or NOTHING


def _transform_selector(selector: LabelSelector | None) -> LabelSelector | None:
    if selector is None or not selector.match_labels:
        return selector
    return msgspec.structs.replace(
        selector, match_labels={intern(key): value for key, value in selector.match_labels.items()}
    )


_PROVISIONED: Final = 'k:{"type":"Provisioned"}'
_LAST_FULL: Final = "f:lastFullyProvisioned"
_NONE: Final[frozenset[str]] = frozenset()


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with who owns what."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class ManagedBuffer(Buffer, frozen=True):
    """A Buffer, and by field manager the leaves it owns of `Provisioned` and `lastFullyProvisioned`."""

    metadata: ManagedMeta = ManagedMeta()
    owners: Mapping[str, tuple[str, ...]] = {}


MANAGED_BUFFERS: Final = cast("Resource[Buffer]", BUFFERS.read_as(ManagedBuffer))


def transform_buffer(found: Buffer) -> Buffer:
    """The Buffer with the owners found, and without `managedFields`."""
    if not isinstance(found, ManagedBuffer):
        return found
    owners = {
        each.manager: leaves
        for each in found.metadata.managed_fields
        if each.subresource == "status" and (leaves := tuple(_leaves(each.fields_v1)))
    }
    metadata = msgspec.structs.replace(found.metadata, managed_fields=())
    return msgspec.structs.replace(found, metadata=metadata, owners=owners)


def owned_fields(buffer: Buffer, manager: str) -> frozenset[str]:
    """The leaves that a field manager owns."""
    return frozenset(buffer.owners.get(manager, ())) if isinstance(buffer, ManagedBuffer) else _NONE


def _leaves(fields: Mapping[str, Any]) -> Iterator[str]:
    status = fields.get("f:status", {})
    yield from (name for name in status.get("f:conditions", {}).get(_PROVISIONED, {}) if name != ".")
    if _LAST_FULL in status:
        yield _LAST_FULL
