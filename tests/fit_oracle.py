"""Whether one pod can be placed on one node, one rule at a time: slow, obvious, the measure of the masks.

Written from the scheduler's filters of Kubernetes 1.36. Pods and nodes are the JSON that the API server has, quantities
exact fractions of a unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Json = Mapping[str, Any]

SUFFIXES: Mapping[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "M": 10**6,
    "G": 10**9,
    "Mi": 2**20,
    "Gi": 2**30,
}
ALL = "0.0.0.0"  # noqa: S104 - nothing is bound
WHOLE_POD = re.compile(r"cpu|memory|hugepages-.*")
COUNTED = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.*|[^/]+/.+")


def amount(text: str) -> Fraction:
    number, suffix = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", text).groups()  # type: ignore[union-attr]
    return Fraction(number) * SUFFIXES[suffix]


def count(resource: str, value: Fraction) -> int:
    return math.ceil(value * 1000 if resource == "cpu" else value)


def requests(container: Json) -> dict[str, Fraction]:
    resources = container.get("resources", {})
    return {name: amount(text) for name, text in (resources.get("limits", {}) | resources.get("requests", {})).items()}


def total(each: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    added: dict[str, Fraction] = {}
    for amounts in each:
        for name, value in amounts.items():
            added[name] = added.get(name, Fraction(0)) + value
    return added


def is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def container_requests(spec: Json) -> dict[str, Fraction]:
    """The largest of all moments: each init container beside the sidecars before it, and all that run in the end."""
    starting = spec.get("initContainers", [])
    moments = [total(map(requests, [*spec["containers"], *filter(is_sidecar, starting)]))]
    for at, container in enumerate(starting):
        moments.append(total(map(requests, [container, *filter(is_sidecar, starting[:at])])))
    names = {name for moment in moments for name in moment}
    return {name: max(moment.get(name, Fraction(0)) for moment in moments) for name in names}


def pod_requests(spec: Json) -> dict[str, int]:
    """What the scheduler compares, of what it counts; never below zero."""
    found = container_requests(spec)
    whole = spec.get("resources", {})
    for name, text in whole.get("limits", {}).items():
        if name in whole.get("requests", {}) or not WHOLE_POD.fullmatch(name):
            continue
        if name not in found or name.startswith("hugepages-"):
            found[name] = amount(text)
    for name, text in whole.get("requests", {}).items():
        if WHOLE_POD.fullmatch(name):
            found[name] = amount(text)
    found = total([found, {name: amount(text) for name, text in spec.get("overhead", {}).items()}])
    return {name: count(name, value) for name, value in found.items() if COUNTED.fullmatch(name) and value > 0}


def ports(spec: Json) -> list[tuple[str, str, int]]:
    containers = [*spec["containers"], *filter(is_sidecar, spec.get("initContainers", []))]
    found = []
    for port in (port for container in containers for port in container.get("ports", [])):
        number = port.get("hostPort", 0) or (port["containerPort"] if spec.get("hostNetwork") else 0)
        if number:
            found.append((port.get("hostIP") or ALL, port.get("protocol", "TCP"), number))
    return found


def ports_clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or ALL in (one[0], other[0]))


def tolerates(spec: Json, taint: Json) -> bool:
    for toleration in spec.get("tolerations", []):
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        wanted, have = toleration.get("value", ""), taint.get("value", "")
        whole = all(re.fullmatch(r"0|-?[1-9][0-9]*", text) for text in (wanted, have))
        match toleration.get("operator") or "Equal":
            case "Equal" if wanted == have:
                return True
            case "Exists":
                return True
            case "Lt" if whole and int(have) < int(wanted):
                return True
            case "Gt" if whole and int(have) > int(wanted):
                return True
    return False


def holds(expression: Json, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return re.fullmatch(r"[0-9]+", labels.get(key, "")) is not None and int(labels[key]) > int(values[0])
        case "Lt":
            return re.fullmatch(r"[0-9]+", labels.get(key, "")) is not None and int(labels[key]) < int(values[0])
    raise AssertionError(expression)


def is_selected(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    if "requiredDuringSchedulingIgnoredDuringExecution" not in affinity:
        return True
    names = {"metadata.name": node["metadata"]["name"]}
    for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
        expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
        if (
            (expressions or fields)
            and all(holds(each, labels) for each in expressions)
            and all(holds(each, names) for each in fields)
        ):
            return True
    return False


def is_eligible(spec: Json, node: Json) -> bool:
    """Everything but room."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node["spec"].get("unschedulable") and not tolerates(spec, cordon):
        return False
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]):
        return False
    for taint in node["spec"].get("taints", []):
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(spec, taint):
            return False
    return is_selected(spec, node)


def has_room(spec: Json, node: Json, others: Iterable[Json]) -> bool:
    """Beside the pods that are there already."""
    others = list(others)
    allocatable = {name: count(name, amount(text)) for name, text in node["status"]["allocatable"].items()}
    if len(others) + 1 > allocatable.get("pods", 0):
        return False
    if any(ports_clash(mine, theirs) for mine in ports(spec) for other in others for theirs in ports(other)):
        return False
    taken = [pod_requests(other) for other in others]
    return all(
        asked <= allocatable.get(name, 0) - sum(each.get(name, 0) for each in taken)
        for name, asked in pod_requests(spec).items()
    )


def fits(spec: Json, node: Json, others: Iterable[Json] = ()) -> bool:
    return is_eligible(spec, node) and has_room(spec, node, others)
