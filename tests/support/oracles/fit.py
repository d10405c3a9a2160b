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


def total(items: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    added: dict[str, Fraction] = {}
    for amounts in items:
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
    amounts = container_requests(spec)
    pod_level = spec.get("resources", {})
    for name, text in pod_level.get("limits", {}).items():
        if name in pod_level.get("requests", {}) or not WHOLE_POD.fullmatch(name):
            continue
        if name not in amounts or name.startswith("hugepages-"):
            amounts[name] = amount(text)
    for name, text in pod_level.get("requests", {}).items():
        if WHOLE_POD.fullmatch(name):
            amounts[name] = amount(text)
    amounts = total([amounts, {name: amount(text) for name, text in spec.get("overhead", {}).items()}])
    return {name: count(name, value) for name, value in amounts.items() if COUNTED.fullmatch(name) and value > 0}


def ports(spec: Json) -> list[tuple[str, str, int]]:
    containers = [*spec["containers"], *filter(is_sidecar, spec.get("initContainers", []))]
    ports = []
    for port in (port for container in containers for port in container.get("ports", [])):
        number = port.get("hostPort", 0) or (port["containerPort"] if spec.get("hostNetwork") else 0)
        if number:
            ports.append((port.get("hostIP") or ALL, port.get("protocol", "TCP"), number))
    return ports


def ports_clash(first: tuple[str, str, int], second: tuple[str, str, int]) -> bool:
    return first[1:] == second[1:] and (first[0] == second[0] or ALL in (first[0], second[0]))


def tolerates(spec: Json, taint: Json) -> bool:
    for toleration in spec.get("tolerations", []):
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        tolerated, actual = toleration.get("value", ""), taint.get("value", "")
        are_integers = all(re.fullmatch(r"0|-?[1-9][0-9]*", text) for text in (tolerated, actual))
        match toleration.get("operator") or "Equal":
            case "Equal" if tolerated == actual:
                return True
            case "Exists":
                return True
            case "Lt" if are_integers and int(actual) < int(tolerated):
                return True
            case "Gt" if are_integers and int(actual) > int(tolerated):
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
            and all(holds(expression, labels) for expression in expressions)
            and all(holds(field, names) for field in fields)
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


def has_capacity(spec: Json, node: Json, others: Iterable[Json]) -> bool:
    """Beside the pods that are there already."""
    others = list(others)
    allocatable = {name: count(name, amount(text)) for name, text in node["status"]["allocatable"].items()}
    if len(others) + 1 > allocatable.get("pods", 0):
        return False
    if any(ports_clash(port, other_port) for port in ports(spec) for other in others for other_port in ports(other)):
        return False
    requested = [pod_requests(other) for other in others]
    return all(
        pod_request <= allocatable.get(name, 0) - sum(requests_of_pod.get(name, 0) for requests_of_pod in requested)
        for name, pod_request in pod_requests(spec).items()
    )


def fits(spec: Json, node: Json, others: Iterable[Json] = ()) -> bool:
    return is_eligible(spec, node) and has_capacity(spec, node, others)


# What the scheduler asks about other pods. Pods have metadata here, and `placed` the name of each one's node.

Placed = Iterable[tuple[str, Json]]
Namespaces = Mapping[str, Mapping[str, str]]


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Nothing, if there is no selector."""
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return equal and all(holds(expression, labels) for expression in selector.get("matchExpressions", []))


def narrowed(rule: Json, labels: Mapping[str, str]) -> Json | None:
    """The selector of a rule with what the pod's own labels add to it."""
    selector = rule.get("labelSelector")
    if selector is None:
        return None
    added: list[Json] = []
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        present = [key for key in rule.get(keys, []) if key in labels]
        added += [{"key": key, "operator": operator, "values": [labels[key]]} for key in present]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *added]}


def term_matches(term: Json, owner: Json, other: Json, namespaces: Namespaces) -> bool:
    namespace = other["metadata"]["namespace"]
    if "namespaces" not in term and "namespaceSelector" not in term:
        inside = namespace == owner["metadata"]["namespace"]
    else:
        chosen = selects(term.get("namespaceSelector"), namespaces.get(namespace, {}))
        inside = namespace in term.get("namespaces", []) or chosen
    return inside and selects(narrowed(term, owner["metadata"]["labels"]), other["metadata"]["labels"])


def terms(pod: Json, kind: str) -> list[Json]:
    affinity = pod["spec"].get("affinity", {}).get(kind, {})
    terms: list[Json] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def shares_domain(first: Json, second: Json, key: str) -> bool:
    first_labels, second_labels = (node["metadata"].get("labels", {}) for node in (first, second))
    return key in first_labels and first_labels[key] == second_labels.get(key)


def is_near(pod: Json, node: Json, nodes: Mapping[str, Json], placed: Placed, namespaces: Namespaces) -> bool:
    affinity_terms = terms(pod, "podAffinity")
    labels = node["metadata"].get("labels", {})
    if not affinity_terms:
        return True
    if any(term["topologyKey"] not in labels for term in affinity_terms):
        return False
    matching_nodes = [
        nodes[name]
        for name, other in placed
        if all(term_matches(term, pod, other, namespaces) for term in affinity_terms)
    ]
    in_domains = [
        matching_node
        for matching_node in matching_nodes
        if any(term["topologyKey"] in matching_node["metadata"].get("labels", {}) for term in affinity_terms)
    ]
    if not in_domains:
        return all(term_matches(term, pod, pod, namespaces) for term in affinity_terms)
    return all(
        any(shares_domain(node, matching_node, term["topologyKey"]) for matching_node in matching_nodes)
        for term in affinity_terms
    )


def is_apart(pod: Json, node: Json, nodes: Mapping[str, Json], placed: Placed, namespaces: Namespaces) -> bool:
    for name, other in placed:
        for owner, subject in ((pod, other), (other, pod)):
            for term in terms(owner, "podAntiAffinity"):
                if term_matches(term, owner, subject, namespaces) and shares_domain(
                    node, nodes[name], term["topologyKey"]
                ):
                    return False
    return True


def is_spread(pod: Json, node: Json, nodes: Mapping[str, Json], placed: Placed) -> bool:
    rules = [
        rule
        for rule in pod["spec"].get("topologySpreadConstraints", [])
        if rule["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    placed = list(placed)
    keys = {rule["topologyKey"] for rule in rules}
    if not keys <= set(node["metadata"].get("labels", {})):
        return False
    for rule in rules:
        counts: dict[str, int] = {}
        for candidate in nodes.values():
            if keys <= set(candidate["metadata"].get("labels", {})) and is_in_a_domain(rule, pod, candidate):
                domain = candidate["metadata"]["labels"][rule["topologyKey"]]
                pods_on_node = [other for name, other in placed if name == candidate["metadata"]["name"]]
                counts[domain] = counts.get(domain, 0) + sum(is_spread_with(rule, pod, other) for other in pods_on_node)
        fewest = min(counts.values()) if len(counts) >= (rule.get("minDomains") or 1) else 0
        pods_in_domain = counts.get(node["metadata"]["labels"][rule["topologyKey"]], 0)
        labels = pod["metadata"]["labels"]
        if pods_in_domain + selects(narrowed(rule, labels), labels) - fewest > rule["maxSkew"]:
            return False
    return True


def is_in_a_domain(rule: Json, pod: Json, node: Json) -> bool:
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not is_selected(pod["spec"], node):
        return False
    hard = [taint for taint in node["spec"].get("taints", []) if taint["effect"] in ("NoSchedule", "NoExecute")]
    return rule.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(tolerates(pod["spec"], taint) for taint in hard)


def is_spread_with(rule: Json, pod: Json, other: Json) -> bool:
    metadata = other["metadata"]
    selector = narrowed(rule, pod["metadata"]["labels"])
    if selector is None or not (selector.get("matchLabels") or selector["matchExpressions"]):
        return False
    if "deletionTimestamp" in metadata or metadata["namespace"] != pod["metadata"]["namespace"]:
        return False
    return selects(selector, metadata["labels"])


def fits_beside(pod: Json, node: Json, nodes: Mapping[str, Json], placed: Placed, namespaces: Namespaces) -> bool:
    """Everything: the rules for one pod and one node, and those about all other pods."""
    placed = list(placed)
    pods_on_node = [other["spec"] for name, other in placed if name == node["metadata"]["name"]]
    return (
        fits(pod["spec"], node, pods_on_node)
        and is_spread(pod, node, nodes, placed)
        and is_near(pod, node, nodes, placed, namespaces)
        and is_apart(pod, node, nodes, placed, namespaces)
    )
