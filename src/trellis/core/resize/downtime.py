"""Which containers of a pod are down, and since when?

A container that ended and will be restarted is down: in its crash back-off the kubelet reports it as `terminated`, and
as `waiting` only when the back-off ends. A container that never ran yet is not down: nothing of the pod's cgroups was
made for an older size. A container that has ended for good (in a Job, or an init container) is not awaited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.api.kube.containers import Container, ContainerStatus, Terminated
from trellis.api.kube.pods import Pod

# Times in a status are whole seconds. A resize written in the second of a start could have come before it.
_SECOND: Final = 1.0


class Downtime(msgspec.Struct, frozen=True):
    """`since` is when the container that is down for the longest ended, `restarted` when the last one came back."""

    since: float | None = None
    restarted: float | None = None
    containers: tuple[str, ...] = ()

    def is_settling(self, now: float) -> bool:
        """Whether a container was restarted in this very second."""
        return self.restarted is not None and self.restarted <= now < self.restarted + _SECOND

    @property
    def settled(self) -> float | None:
        """When a restarted container counts as running."""
        return self.restarted + _SECOND if self.restarted is not None else None


_ALL_UP: Final = Downtime()


def downtime_of(pod: Pod) -> Downtime:
    """Which containers are down."""
    ended: list[tuple[str, float]] = []
    restarted: float | None = None
    for container, status, is_sidecar in _lasting(pod):
        state, last = status.state, status.last_state.terminated
        if state.terminated is not None or (state.running is None and last is not None):
            end = state.terminated or last
            if end is not None and (is_sidecar or _comes_back(pod, container, end)):
                ended.append((status.name, end.finished_at.timestamp() if end.finished_at is not None else 0.0))
        elif last is not None and state.running is not None and state.running.started_at is not None:
            restarted = max(restarted or 0.0, state.running.started_at.timestamp())
    if not ended and restarted is None:
        return _ALL_UP
    return Downtime(min(at for _, at in ended) if ended else None, restarted, tuple(name for name, _ in ended))


def _comes_back(pod: Pod, container: Container, end: Terminated) -> bool:
    """Whether the kubelet restarts a container; one may have a policy of its own (Kubernetes 1.34)."""
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return end.exit_code != 0
        case _:
            return True


def _lasting(pod: Pod) -> Iterator[tuple[Container, ContainerStatus, bool]]:
    """Containers and native sidecars with their statuses."""
    if pod.status.container_statuses:
        containers = {each.name: each for each in pod.spec.containers}
        yield from (
            (containers[each.name], each, False) for each in pod.status.container_statuses if each.name in containers
        )
    if pod.status.init_container_statuses:
        sidecars = {each.name: each for each in pod.spec.init_containers if each.is_sidecar}
        yield from (
            (sidecars[each.name], each, True) for each in pod.status.init_container_statuses if each.name in sidecars
        )
