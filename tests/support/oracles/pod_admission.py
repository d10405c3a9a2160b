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
    own = spec.get("resources")
    if own and own.get("limits"):
        of_containers = {
            name: str(Quantity(int(amount * 10**9))) for name, amount in aggregate(spec, "requests").items()
        }
        own["requests"] = {**own["limits"], **of_containers, **own.get("requests", {})}
    return made


def all_containers(spec: Document) -> list[Document]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def added(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in {*one, *other}}


def highest(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in {*one, *other}}


def aggregate(spec: Document, field: str) -> dict[str, Fraction]:
    """Sidecars add up with the ordinary containers; an init container has those sidecars beside it that came before."""
    result: dict[str, Fraction] = {}
    for container in spec["containers"]:
        result = added(result, amounts(container.get("resources", {}).get(field)))
    restartable: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("initContainers", []):
        own = amounts(container.get("resources", {}).get(field))
        beside = added(restartable, own)
        if container.get("restartPolicy") == "Always":
            result = added(result, own)
            restartable = beside
        peak = highest(peak, beside)
    return highest(result, peak)


def qos_class(spec: Document) -> str:
    own = spec.get("resources")
    lists = [own] if own is not None else [container.get("resources", {}) for container in all_containers(spec)]
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


def why_refused(pod: Document, ranges: list[Document]) -> list[str]:
    """Everything that is wrong with the resources of a pod that has its defaults."""
    spec = pod["spec"]
    return [*_invalid(spec), *_out_of_range(spec, ranges)]


def _invalid(spec: Document) -> Iterator[str]:
    for container in all_containers(spec):
        resources = container.get("resources", {})
        limits = amounts(resources.get("limits"))
        for name, request in amounts(resources.get("requests")).items():
            if name in limits and request > limits[name]:
                yield f"{container['name']}: {name} request {request} above limit {limits[name]}"
    own = spec.get("resources") or {}
    of_containers = aggregate(spec, "requests")
    for name, request in amounts(own.get("requests")).items():
        if of_containers.get(name, 0) > request:
            yield f"pod: {name} request {request} below {of_containers[name]} of its containers"
    for name, limit in amounts(own.get("limits")).items():
        for container in spec["containers"]:
            if amounts(container.get("resources", {}).get("limits")).get(name, 0) > limit:
                yield f"{container['name']}: {name} limit above the pod's {limit}"


def _out_of_range(spec: Document, ranges: list[Document]) -> Iterator[str]:
    own = spec.get("resources") or {}
    whole = {field: {**aggregate(spec, field), **amounts(own.get(field))} for field in ("requests", "limits")}
    parts = [container.get("resources", {}) for container in all_containers(spec)]
    each_alone = [{field: amounts(part.get(field)) for field in ("requests", "limits")} for part in parts]
    for item in ranges:
        for found in each_alone if item["type"] == "Container" else [whole]:
            yield from (f"{item['type']}: {problem}" for problem in _outside(found, item))


def _outside(found: dict[str, dict[str, Fraction]], item: Document) -> Iterator[str]:
    requests, limits = found["requests"], found["limits"]
    for name, least in amounts(item.get("min")).items():
        if name not in requests or requests[name] < least or limits.get(name, least) < least:
            yield f"{name} below {least}"
    for name, most in amounts(item.get("max")).items():
        if name not in limits or limits[name] > most or requests.get(name, most) > most:
            yield f"{name} above {most}"
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        if not requests.get(name) or not limits.get(name) or limits[name] / requests[name] > ratio:
            yield f"{name} limit more than {ratio} times the request"
