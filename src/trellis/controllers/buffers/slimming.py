"""What of a pod, a workload or a node is worth keeping? What finds the newest pod of a target, and what it takes.

A cluster has tens of thousands of pods, and of each target one shows the shape: that one is asked for. Of all others
their labels, their age and what they hold are kept, and what many of them have alike is kept once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.counted_workloads import CountedReplicationController, CountedWorkload
from trellis.api.kube.meta import LabelSelector, PodMeta
from trellis.api.kube.pods import Pod, PodStatus
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.boost.memory import PREFIX
from trellis.core.buffers import is_live
from trellis.core.fit import held_at_least
from trellis.core.fit.demand import Amounts
from trellis.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)

AnyCounted: TypeAlias = CountedWorkload | CountedReplicationController

_DAEMON_SET: Final = "DaemonSet"

# The kinds whose count is seen by a watch; of any other the scale is asked.
COUNTED: Final[tuple[Resource[Any], ...]] = (
    DEPLOYMENTS.read_as(CountedWorkload),
    REPLICA_SETS.read_as(CountedWorkload),
    STATEFUL_SETS.read_as(CountedWorkload),
    JOBS.read_as(CountedWorkload),
    REPLICATION_CONTROLLERS.read_as(CountedReplicationController),
)


class SeenPod(Pod, frozen=True):
    """A pod of which little is kept. `held` is what it takes on its node; `daemon_on` that node, for a DaemonSet's."""

    held: Amounts = ()
    daemon_on: str = ""


class PodSlimmer:
    """Makes pods small. Lists come in the order of names, so that the pods of a workload follow each other."""

    def __init__(self) -> None:
        self._labels: Labels = NOTHING
        self._held: Amounts = ()

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
        return SeenPod(
            metadata=kept,
            status=_phase(found.status.phase),
            held=self._shared_held(found),
            daemon_on=intern(found.spec.node_name) if daemon else "",
        )

    def _shared_labels(self, labels: Labels) -> Labels:
        if labels != self._labels:
            self._labels = {intern(key): intern(value) for key, value in labels.items()}
        return self._labels

    def _shared_held(self, pod: Pod) -> Amounts:
        held = held_at_least(pod).amounts
        if held != self._held:
            self._held = tuple((intern(name), amount) for name, amount in held)
        return self._held


def pod_differs(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change of a pod can make a difference to a Buffer; most tell that a container became ready."""
    if not isinstance(old, SeenPod) or not isinstance(new, SeenPod):
        return True
    return is_live(old) is not is_live(new) or _told(old) != _told(new)


def workload_differs(old: AnyCounted | None, new: AnyCounted | None) -> bool:
    """Whether a change of a workload can: to its spec, its count, or to another one of its name."""
    if old is None or new is None:
        return True
    return _counted(old) != _counted(new)


def slim_workload(found: AnyCounted) -> AnyCounted:
    """A workload with text that others share."""
    metadata = msgspec.structs.replace(found.metadata, namespace=intern(found.metadata.namespace))
    if isinstance(found, CountedReplicationController):
        return msgspec.structs.replace(found, metadata=metadata)
    spec = msgspec.structs.replace(found.spec, selector=_slim_selector(found.spec.selector))
    return msgspec.structs.replace(found, metadata=metadata, spec=spec)


def _told(pod: SeenPod) -> tuple[object, ...]:
    metadata = pod.metadata
    return metadata.uid, metadata.generation, metadata.labels, metadata.annotations, pod.held, pod.daemon_on


def _counted(found: AnyCounted) -> tuple[object, ...]:
    return found.metadata.uid, found.metadata.generation, found.status.replicas


@lru_cache(maxsize=16)
def _phase(phase: str) -> PodStatus:
    return PodStatus(phase=intern(phase))


def _boosts(annotations: Mapping[str, str]) -> Labels:
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX)} or NOTHING


def _slim_selector(selector: LabelSelector | None) -> LabelSelector | None:
    if selector is None or not selector.match_labels:
        return selector
    return msgspec.structs.replace(
        selector, match_labels={intern(key): value for key, value in selector.match_labels.items()}
    )
