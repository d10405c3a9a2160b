"""What does the API server say to a write? The rules for evictions, resizes and annotations of pods."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.kube.containers import Container
from trellis.api.kube.meta import RESIZE, SubresourceWrite
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput
from trellis.core.model.patches import PatchOp
from trellis.core.model.told import Told
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping.limit_ranges import counts
from trellis.core.resize.actions import PodRef
from trellis.core.sizing.shapes import PodShape
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.patching import patched
from trellis.sim.cluster.pods import FAILED, PENDING, SUCCEEDED, moment
from trellis.sim.cluster.resizing import Resizing
from trellis.sim.cluster.state import State
from trellis.sim.cluster.watching import What


class Server:
    """Takes writes to pods, and answers as outcomes are told."""

    def __init__(self, state: State, making: Making, resizing: Resizing) -> None:
        self._state = state
        self._making = making
        self._resizing = resizing

    def evict(self, ref: PodRef) -> Told:
        """Have a pod go, if its disruption budget permits."""
        living = self._find(ref)
        if living is None:
            return Told.GONE
        if living.going:
            return Told.APPLIED
        if living.pod.status.phase != PENDING and not self._may_go(living):
            return Told.REFUSED
        self._state.tally.evictions[living.workload] += 1
        self._state.happened(living, What.EVICTED)
        self._making.delete(living)
        return Told.APPLIED

    def move(self, ref: PodRef) -> Told:
        """Have a pod go because its node does, if its disruption budget permits."""
        living = self._find(ref)
        if living is None:
            return Told.GONE
        if living.pod.status.phase != PENDING and not living.going and not self._may_go(living):
            return Told.REFUSED
        if not living.going:
            self._state.happened(living, What.MOVED)
            self._making.delete(living)
        return Told.APPLIED

    def resize(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> tuple[Told, str]:
        """Change what the containers of a pod ask for; with a refusal, why."""
        living = self._find(ref)
        if living is None:
            return Told.GONE, ""
        try:
            new = patched(living.pod, patch)
        except InvalidInput as error:
            return Told.INVALID, str(error)
        problem = next(_problems(living.pod, new), "")
        if problem:
            return Told.INVALID, problem
        if new.spec != living.pod.spec:
            metadata = msgspec.structs.replace(
                new.metadata,
                generation=new.metadata.generation + 1,
                managed_fields=(SubresourceWrite(moment(self._state.now), RESIZE),),
            )
            self._state.put(living, msgspec.structs.replace(new, metadata=metadata), resized=True)
            if living.units:
                self._resizing.asked(living)
            else:
                self._state.kick()
        return Told.APPLIED, ""

    def annotate(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> Told:
        """Change the annotations of a pod."""
        living = self._find(ref)
        if living is None:
            return Told.GONE
        try:
            new = patched(living.pod, patch)
        except InvalidInput:
            return Told.INVALID
        if new.spec != living.pod.spec:
            return Told.INVALID
        if new.metadata != living.pod.metadata:
            self._state.put(living, msgspec.structs.replace(living.pod, metadata=new.metadata))
        return Told.APPLIED

    def _find(self, ref: PodRef) -> Living | None:
        living = self._state.pods.get((ref.namespace, ref.name))
        return living if living is not None and living.pod.metadata.uid == ref.uid else None

    def _may_go(self, living: Living) -> bool:
        """Whether the workload's PodDisruptionBudget permits it; a pod that is not Ready goes if the others suffice."""
        workload = self._state.fleet.workloads[living.workload]
        if workload.max_unavailable is None:
            return True
        healthy = sum(each.ready for each in self._state.mates[living.workload].values())
        needed = self._state.replicas[living.workload] - workload.max_unavailable
        return healthy - living.ready >= needed


def _problems(old: Pod, new: Pod) -> Iterator[str]:
    """What the API server has against a resize."""
    if old.status.phase in (SUCCEEDED, FAILED):
        yield "a pod that has ended cannot be resized"
    if new.metadata != old.metadata or _bare(new) != _bare(old):
        yield "only the resources of containers may be changed"
    for container in (*new.spec.containers, *new.spec.init_containers):
        yield from _container_problems(container)
    if PodShape.of(new.spec).qos is not PodShape.of(old.spec).qos:
        yield "the class of the pod (QoS) must not change"


def _bare(pod: Pod) -> object:
    """A spec without what a resize may change."""
    spec = pod.spec
    return msgspec.structs.replace(
        spec,
        containers=tuple(map(_without_resources, spec.containers)),
        init_containers=tuple(_without_resources(each) if each.is_sidecar else each for each in spec.init_containers),
    )


def _without_resources(container: Container) -> tuple[object, ...]:
    resources = container.resources
    others = [
        {name: text for name, text in written.items() if name not in RESOURCES}
        for written in (resources.requests, resources.limits)
    ]
    named = [sorted(set(written) & set(RESOURCES)) for written in (resources.requests, resources.limits)]
    return others, named, msgspec.structs.replace(container, resources=type(resources)(claims=resources.claims))


def _container_problems(container: Container) -> Iterator[str]:
    requests, limits = counts(container.resources.requests), counts(container.resources.limits)
    for resource, limit in limits.items():
        if requests.get(resource, 0) > limit:
            yield f"container {container.name}: the request of {resource} is above its limit"
