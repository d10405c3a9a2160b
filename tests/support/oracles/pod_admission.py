"""What the API server makes of a pod, and why it would refuse one: its rules written down once more, on plain JSON.

Taken from the sources of Kubernetes 1.36: defaults of v1 Pod, `validateResourceRequirements`,
`validatePodResourceConsistency`, `ComputePodQOS` in its older form (sums over all containers) and the LimitRanger.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from trellis.base.quantities import Quantity

Document = dict[str, Any]
BOTH = ("cpu", "memory")


def amounts(written: dict[str, str] | None) -> dict[str, Fraction]:
    return {name: Quantity.parse(text).exact() for name, text in (written or {}).items() if name in BOTH}


def with_defaults(pod: Document) -> Document:
    """The pod as a webhook gets to see it."""
    made = copy.deepcopy(pod)
    spec = made["spec"]
    for container in all_containers(spec):
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    pod_level = spec.get("resources")
    if pod_level and pod_level.get("limits"):
        container_requests = {
            name: str(Quantity(int(amount * 10**9))) for name, amount in aggregate(spec, "requests").items()
        }
        pod_level["requests"] = {**pod_level["limits"], **container_requests, **pod_level.get("requests", {})}
    return made


def all_containers(spec: Document) -> list[Document]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def added(first: dict[str, Fraction], second: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: first.get(name, Fraction(0)) + second.get(name, Fraction(0)) for name in {*first, *second}}


def highest(first: dict[str, Fraction], second: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(first.get(name, Fraction(0)), second.get(name, Fraction(0))) for name in {*first, *second}}


def aggregate(spec: Document, field: str) -> dict[str, Fraction]:
    """Sidecars add up with the ordinary containers; an init container has those sidecars beside it that came before."""
    result: dict[str, Fraction] = {}
    for container in spec["containers"]:
        result = added(result, amounts(container.get("resources", {}).get(field)))
    restartable: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers", []):
        requested = amounts(container.get("resources", {}).get(field))
        beside = added(restartable, requested)
        if container.get("restartPolicy") == "Always":
            result = added(result, requested)
            restartable = beside
        peak = highest(peak, beside)
    return highest(result, peak)


def qos_class(spec: Document) -> str:
    pod_level = spec.get("resources")
    lists = (
        [pod_level] if pod_level is not None else [container.get("resources", {}) for container in all_containers(spec)]
    )
    requests: dict[str, Fraction] = {}
    limits: dict[str, Fraction] = {}
    guaranteed = True
    for resources in lists:
        most = {name: amount for name, amount in amounts(resources.get("limits")).items() if amount > 0}
        requests = added(
            requests, {name: amount for name, amount in amounts(resources.get("requests")).items() if amount > 0}
        )
        limits = added(limits, most)
        guaranteed = guaranteed and set(most) == set(BOTH)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def list_problems(pod: Document, ranges: list[Document]) -> list[str]:
    """Everything that is wrong with the resources of a pod that has its defaults."""
    spec = pod["spec"]
    return [*_find_invalid_resources(spec), *_find_range_violations(spec, ranges)]


def _find_invalid_resources(spec: Document) -> Iterator[str]:
    for container in all_containers(spec):
        resources = container.get("resources", {})
        limits = amounts(resources.get("limits"))
        for name, request in amounts(resources.get("requests")).items():
            if name in limits and request > limits[name]:
                yield f"{container['name']}: {name} request {request} above limit {limits[name]}"
    pod_level = spec.get("resources") or {}
    container_requests = aggregate(spec, "requests")
    for name, request in amounts(pod_level.get("requests")).items():
        if container_requests.get(name, 0) > request:
            yield f"pod: {name} request {request} below {container_requests[name]} of its containers"
    for name, limit in amounts(pod_level.get("limits")).items():
        for container in spec["containers"]:
            if amounts(container.get("resources", {}).get("limits")).get(name, 0) > limit:
                yield f"{container['name']}: {name} limit above the pod's {limit}"


def _find_range_violations(spec: Document, ranges: list[Document]) -> Iterator[str]:
    pod_level = spec.get("resources") or {}
    pod = {field: {**aggregate(spec, field), **amounts(pod_level.get(field))} for field in ("requests", "limits")}
    parts = [container.get("resources", {}) for container in all_containers(spec)]
    containers = [{field: amounts(part.get(field)) for field in ("requests", "limits")} for part in parts]
    for item in ranges:
        for resources in containers if item["type"] == "Container" else [pod]:
            yield from (f"{item['type']}: {problem}" for problem in _find_item_violations(resources, item))


def _find_item_violations(resources: dict[str, dict[str, Fraction]], item: Document) -> Iterator[str]:
    requests, limits = resources["requests"], resources["limits"]
    for name, least in amounts(item.get("min")).items():
        if name not in requests or requests[name] < least or limits.get(name, least) < least:
            yield f"{name} below {least}"
    for name, most in amounts(item.get("max")).items():
        if name not in limits or limits[name] > most or requests.get(name, most) > most:
            yield f"{name} above {most}"
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        if not requests.get(name) or not limits.get(name) or limits[name] / requests[name] > ratio:
            yield f"{name} limit more than {ratio} times the request"
