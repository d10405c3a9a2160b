"""How much of its node does a running pod hold?

The scheduler's rule since in-place resizes (`determineEffectiveRequests` in Kubernetes 1.36): while what is asked for,
what the node has set aside and what is in force differ, the largest counts. A resize that the node can never do does
not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trellis.api.kube.containers import Container, ContainerStatus
from trellis.api.kube.pods import RESIZE_PENDING, Pod
from trellis.base.errors import InvalidInput
from trellis.core.fit.demand import Demand
from trellis.core.fit.resources import CPU, LARGEST, MEMORY, Counts, counted, readable_nanos

_RESIZED = (CPU, MEMORY)


def held_by(pod: Pod) -> Demand:
    """The demand of a pod that has its node already."""
    status = pod.status
    pending = status.condition(RESIZE_PENDING)
    infeasible = pending is not None and pending.reason == "Infeasible"
    reported = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}
    requests = dict(_held(_resizable(pod), reported, infeasible))
    asked = pod.spec.resources.requests if pod.spec.resources is not None else {}
    whole: Counts = {}
    if asked and status.resources is not None:
        sources = [status.resources.requests, status.allocated_resources]
        held = _largest(sources if infeasible else [asked, *sources])
        whole = {name: held.get(name, 0) for name in _RESIZED if name in asked}
    return Demand.of(pod.spec, requests, whole=whole)


def held_at_least(pod: Pod) -> Demand:
    """The same of any pod: one with an amount that cannot be read is known to be a pod, and no more."""
    try:
        return held_by(pod)
    except InvalidInput:
        return Demand()


def _resizable(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.containers
    yield from (each for each in pod.spec.init_containers if each.is_sidecar)


def _held(
    containers: Iterable[Container], reported: Mapping[str, ContainerStatus], infeasible: bool
) -> Iterator[tuple[str, Counts]]:
    for container in containers:
        status = reported.get(container.name)
        if status is None or status.resources is None:
            continue
        sources = [status.resources.requests, status.allocated_resources]
        held = _largest(sources if infeasible else [container.resources.requests, *sources])
        # What a status that counts does not name is not held, however it is written in the spec.
        yield container.name, {name: held.get(name, 0) for name in _RESIZED}


def _largest(sources: Iterable[Mapping[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for source in sources:
        for name in _RESIZED:
            if name in source:
                found[name] = max(found.get(name, 0), counted(name, readable_nanos(source[name]), LARGEST))
    return found
