"""What does the API server show of a workload by name: the object, its pods, and the budget that covers them?"""

from __future__ import annotations

from collections.abc import Iterator

from trellis.api.kube.meta import KubeObject, ObjectMeta
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from trellis.sim.cluster.state import State


class Targets:
    """Workloads by namespace, kind and name."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._numbers = {
            (each.namespace, each.kind, each.name): number for number, each in enumerate(state.fleet.workloads)
        }

    def find(self, namespace: str, kind: str, name: str) -> KubeObject | None:
        """The object; None if there is none."""
        number = self._numbers.get((namespace, kind, name))
        return self._state.objects[number] if number is not None else None

    def pods_of(self, namespace: str, kind: str, name: str) -> Iterator[Pod]:
        """The pods that it has."""
        number = self._numbers.get((namespace, kind, name))
        return (each.pod for each in self._state.mates[number].values()) if number is not None else iter(())

    def budgets(self) -> Iterator[PodDisruptionBudget]:
        """The disruption budgets of all workloads, with what they allow now."""
        state = self._state
        for number, each in enumerate(state.fleet.workloads):
            if each.max_unavailable is None:
                continue
            healthy = sum(pod.ready for pod in state.mates[number].values())
            needed = max(state.replicas[number] - each.max_unavailable, 0)
            yield PodDisruptionBudget(
                ObjectMeta(name=each.name, namespace=each.namespace),
                PodDisruptionBudgetSpec(
                    selector=state.templates[number].selector, max_unavailable=each.max_unavailable
                ),
                PodDisruptionBudgetStatus(
                    disruptions_allowed=max(healthy - needed, 0),
                    current_healthy=healthy,
                    desired_healthy=needed,
                    expected_pods=state.replicas[number],
                ),
            )
