"""Random pods with rules about each other, and nodes in domains.

Domains are named by labels of one prefix, so that clusters with other prefixes can share a control plane: a node is in
no domain of another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from support.builders.nodes_and_pods import sometimes

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES: dict[str, dict[str, str]] = {"red": {"team": "a"}, "blue": {"team": "b"}, "grey": {}}


def keys(prefix: str) -> dict[str, str]:
    return {name: f"{prefix}.example.com/{name}" for name in ("zone", "rack", "host", "disk")}


def a_node_in_domains(rng: Random, name: str, prefix: str) -> Json:
    label = keys(prefix)
    labels = {label["host"]: name, label["disk"]: rng.choice(("fast", "slow"))}
    if sometimes(rng, 0.9):
        labels[label["zone"]] = rng.choice("abc")
    if sometimes(rng, 0.7):
        labels[label["rack"]] = rng.choice("xyz")
    taints = [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}] if sometimes(rng, 0.15) else []
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": rng.choice(("2", "4", "110"))}},
    }


def a_pod_with_rules(rng: Random, name: str, prefix: str, nodes: Sequence[str] = ()) -> Json:
    """One of a few kinds of labels; its rules are about them. It may be about one of the `nodes` alone."""
    labels = {"app": rng.choice("pqr")}
    if sometimes(rng, 0.5):
        labels["version"] = rng.choice("12")
    spec: Json = {
        "containers": [{"name": "c", "image": "example/app:1.0", "resources": {"requests": {"cpu": "100m"}}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}] if sometimes(rng, 0.3) else [],
    }
    if sometimes(rng, 0.2):
        spec["nodeSelector"] = {keys(prefix)["disk"]: "fast"}
    affinity: Json = {}
    if nodes and sometimes(rng, 0.3):
        fields = [{"key": "metadata.name", "operator": "In", "values": [rng.choice(nodes)]}]
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}
    if sometimes(rng, 0.35):
        affinity["podAffinity"] = {REQUIRED: one_or_two(rng, lambda: a_term(rng, labels, prefix))}
    if sometimes(rng, 0.35):
        affinity["podAntiAffinity"] = {REQUIRED: one_or_two(rng, lambda: a_term(rng, labels, prefix))}
    if affinity:
        spec["affinity"] = affinity
    if sometimes(rng, 0.45):
        spec["topologySpreadConstraints"] = distinct(one_or_two(rng, lambda: a_constraint(rng, labels, prefix)))
    namespace = rng.choice(("red", "red", "blue", "grey"))
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def one_or_two(rng: Random, make: Any) -> list[Json]:
    return [make() for _ in range(rng.choice((1, 1, 2)))]


def distinct(constraints: list[Json]) -> list[Json]:
    """The API server takes each key once."""
    return list({constraint["topologyKey"]: constraint for constraint in constraints}.values())


def a_selector(rng: Random, labels: dict[str, str]) -> Json:
    """More often than not it selects the pod itself."""
    app = labels["app"] if sometimes(rng, 0.6) else rng.choice("pqr")
    choices: list[Json] = [
        {"matchLabels": {"app": app}},
        {"matchLabels": {"app": app}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted({app, "p"})}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
        {"matchLabels": {"app": app}, "matchExpressions": [{"key": "version", "operator": "Exists"}]},
        {},
    ]
    return rng.choice(choices)


def may_have_keys(rule: Json) -> bool:
    """The API server takes keys beside a selector only, and none that is in the selector as well."""
    return "labelSelector" in rule and "version" not in str(rule["labelSelector"])


def a_term(rng: Random, labels: dict[str, str], prefix: str) -> Json:
    label = keys(prefix)
    term: Json = {"topologyKey": label[rng.choice(("zone", "zone", "rack", "host"))]}
    if sometimes(rng, 0.95):
        term["labelSelector"] = a_selector(rng, labels)
    if sometimes(rng, 0.15) and may_have_keys(term):
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    if sometimes(rng, 0.2):
        term["namespaces"] = [rng.choice(sorted(NAMESPACES))]
    if sometimes(rng, 0.2):
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "b"}}))
    return term


def a_constraint(rng: Random, labels: dict[str, str], prefix: str) -> Json:
    label = keys(prefix)
    constraint: Json = {
        "topologyKey": label[rng.choice(("zone", "zone", "rack", "host"))],
        "maxSkew": rng.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule" if sometimes(rng, 0.9) else "ScheduleAnyway",
        "labelSelector": a_selector(rng, labels),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and sometimes(rng, 0.25):
        constraint["minDomains"] = rng.choice((1, 2, 3, 4))
    if sometimes(rng, 0.15) and may_have_keys(constraint):
        constraint["matchLabelKeys"] = ["version"]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if sometimes(rng, 0.3):
            constraint[policy] = rng.choice(("Honor", "Ignore"))
    return constraint
