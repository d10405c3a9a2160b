"""The quality-of-service class that the API server gives a pod.

The rules of Kubernetes 1.36 (`ComputePodQOS`): a container is Guaranteed if it has limits of CPU and memory and equal
requests, BestEffort if it has none of the four. A pod is what all of its containers are, init containers among them,
and Burstable if they differ. Where the pod has resources of its own, these alone decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts


class QosClass(StrEnum):
    """The classes there are. A resize that would change the class of a pod is refused."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def compute_qos(resources: Iterable[tuple[ResourceAmounts, ResourceAmounts]]) -> QosClass:
    """The class of a pod whose containers have these requests and limits."""
    found = {_container_qos(requests, limits) for requests, limits in resources} or {QosClass.BEST_EFFORT}
    return found.pop() if len(found) == 1 else QosClass.BURSTABLE


def _container_qos(requests: ResourceAmounts, limits: ResourceAmounts) -> QosClass:
    """Zero is "not set"."""
    limited = 0
    for resource in RESOURCES:
        limit = limits.get(resource, 0)
        if requests.get(resource, 0) != limit:
            return QosClass.BURSTABLE
        limited += limit > 0
    if not limited:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if limited == len(RESOURCES) else QosClass.BURSTABLE
