"""What would a resize change? What the spec of a container asks for, beside what is reported of it."""

from __future__ import annotations

from typing import Final

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.pods import Pod
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.sim.cluster.pods import reported

_RESTARTS: Final = "RestartContainer"


def differs(container: Container, pod: Pod) -> bool:
    """Whether a container has, or is set aside, something else than its spec asks for."""
    found = reported(pod, container.name)
    if found is None or found.resources is None:
        return False
    wanted = _amounts(container.resources)
    return wanted != _amounts(found.resources) or wanted[0] != counts(found.allocated_resources)


def lowers(container: Container, pod: Pod) -> bool:
    """Whether something is asked to become less."""
    return any(asked.get(name, 0) < amount for asked, had in _pairs(container, pod) for name, amount in had.items())


def restarts(container: Container, pod: Pod) -> bool:
    """Whether a resource changes of which the container wants to be told by a restart."""
    named = [each.resource_name for each in container.resize_policy if each.restart_policy == _RESTARTS]
    return any(asked.get(name) != had.get(name) for name in named for asked, had in _pairs(container, pod))


def _pairs(container: Container, pod: Pod) -> list[tuple[Counts, Counts]]:
    """Requests, then limits: what is asked for, and what is in force."""
    found = reported(pod, container.name)
    if found is None or found.resources is None:
        return []
    return list(zip(_amounts(container.resources), _amounts(found.resources), strict=True))


def _amounts(resources: Resources) -> tuple[Counts, Counts]:
    return counts(resources.requests), counts(resources.limits)
