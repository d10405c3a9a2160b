"""Random nodes and pods that often nearly fit each other.

What is drawn is accepted by an API server with its default gates, unless it is asked to be `wild`: then it also has
what only other gates, templates or other writers let pass.
"""

from __future__ import annotations

from random import Random
from typing import Any

from support.oracles.fit import ALL, container_requests

Json = dict[str, Any]

GPU = "example.com/gpu"
PAGES = "hugepages-2Mi"
DISK = "ephemeral-storage"
ZONE = "example.com/zone"
LEVEL = "example.com/level"
CORDON = "node.kubernetes.io/unschedulable"


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - the same world for the same seed is what is wanted


def sometimes(rng: Random, chance: float) -> bool:
    return rng.random() < chance


def a_node(rng: Random, name: str) -> Json:
    labels = {ZONE: rng.choice("abc")}
    if sometimes(rng, 0.6):
        labels[LEVEL] = rng.choice(("1", "2", "10", "high"))
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": sometimes(rng, 0.1), "taints": taints(rng)},
        "status": {"allocatable": allocatable(rng)},
    }


def taints(rng: Random) -> list[Json]:
    choices = [
        {"key": "dedicated", "value": rng.choice("ab"), "effect": "NoSchedule"},
        {"key": "draining", "effect": "NoExecute"},
        {"key": "level", "value": rng.choice(("3", "5", "05", "x")), "effect": "NoSchedule"},
        {"key": "busy", "value": "a", "effect": "PreferNoSchedule"},
    ]
    return [taint for taint in choices if sometimes(rng, 0.15)]


def allocatable(rng: Random) -> dict[str, str]:
    allocatable = {"cpu": rng.choice(("900m", "1500m", "2", "4")), "memory": rng.choice(("512Mi", "1Gi", "4Gi"))}
    allocatable["pods"] = rng.choice(("0", "1", "2", "4", "110", "110"))
    for name, amounts in ((GPU, ("1", "2")), (PAGES, ("4Mi", "8Mi")), (DISK, ("1Gi", "10G"))):
        if sometimes(rng, 0.5):
            allocatable[name] = rng.choice(amounts)
    return allocatable


def a_pod_spec(rng: Random, nodes: list[str], *, wild: bool = False) -> Json:
    spec: Json = {"containers": [a_container(rng, f"c{at}", wild=wild) for at in range(rng.choice((1, 1, 2, 3)))]}
    if sometimes(rng, 0.3):
        spec["initContainers"] = [an_init_container(rng, f"i{at}", wild=wild) for at in range(rng.choice((1, 2, 3)))]
    if not wild:
        _share_no_ports(spec)
    if sometimes(rng, 0.2):
        spec["nodeSelector"] = {ZONE: rng.choice("abc")}
    if sometimes(rng, 0.3):
        terms = [a_term(rng, nodes, wild=wild) for _ in range(rng.choice((1, 1, 2)))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    spec["tolerations"] = tolerations(rng, wild=wild)
    if sometimes(rng, 0.2):
        spec["resources"] = pod_level(rng, spec, wild=wild)
    if wild and sometimes(rng, 0.2):
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
    if wild and sometimes(rng, 0.05):
        spec["nodeName"] = rng.choice([*nodes, "elsewhere"])
    if wild and sometimes(rng, 0.1):
        spec["hostNetwork"] = True
    return spec


def a_container(rng: Random, name: str, *, wild: bool) -> Json:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for resource, amounts in (
        ("cpu", ("100m", "300m", "750m", "1", "2")),
        ("memory", ("100M", "200Mi", "400Mi", "1Gi")),
        (DISK, ("500Mi", "1Gi")),
    ):
        if sometimes(rng, 0.2 if resource == DISK else 0.7):
            where = limits if sometimes(rng, 0.2) else requests
            where[resource] = rng.choice((*amounts, "0", "0.5") if wild else amounts)
    if sometimes(rng, 0.15):
        requests[GPU] = limits[GPU] = rng.choice(("1", "2"))
    if sometimes(rng, 0.1) and "cpu" in requests:
        requests[PAGES] = limits[PAGES] = rng.choice(("2Mi", "4Mi"))
    if wild and sometimes(rng, 0.1):
        requests["storage"] = "1"
    container: Json = {"name": name, "image": "example/app:1.0", "resources": {"requests": requests, "limits": limits}}
    if sometimes(rng, 0.15):
        container["ports"] = [a_port(rng)]
    return container


def a_port(rng: Random) -> Json:
    port: Json = {"containerPort": rng.choice((8080, 9090)), "protocol": rng.choice(("TCP", "TCP", "UDP"))}
    if sometimes(rng, 0.9):
        port["hostPort"] = port["containerPort"]
    if sometimes(rng, 0.5):
        port["hostIP"] = rng.choice(("127.0.0.1", "127.0.0.2", ALL))
    return port


def _share_no_ports(spec: Json) -> None:
    """The API server refuses a pod with the same host port twice."""
    used_ports: set[int] = set()
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        container["ports"] = [port for port in container.get("ports", []) if port["containerPort"] not in used_ports]
        used_ports |= {port["containerPort"] for port in container["ports"]}


def an_init_container(rng: Random, name: str, *, wild: bool) -> Json:
    container = a_container(rng, name, wild=wild)
    return container | {"restartPolicy": "Always"} if sometimes(rng, 0.5) else container


def pod_level(rng: Random, spec: Json, *, wild: bool) -> Json:
    """As much as the containers ask for, or somewhat more, of what some of them ask for."""
    requested = container_requests(spec)
    pod_level: Json = {"requests": {}, "limits": {}}
    for name, unit in (("cpu", "m"), ("memory", "")):
        if sometimes(rng, 0.7):
            amount = int(requested.get(name, 0) * (1000 if unit else 1)) + rng.choice((1, 500))
            where = "limits" if wild and sometimes(rng, 0.3) else "requests"
            pod_level[where][name] = f"{amount}{unit}"
    if wild and sometimes(rng, 0.1):
        pod_level["limits"][PAGES] = "4Mi"
    return pod_level


def a_term(rng: Random, nodes: list[str], *, wild: bool) -> Json:
    choices: list[Json] = [
        {"key": ZONE, "operator": "In", "values": rng.sample("abcd", 2)},
        {"key": ZONE, "operator": "NotIn", "values": [rng.choice("abc")]},
        {"key": LEVEL, "operator": "NotIn", "values": ["1"]},
        {"key": LEVEL, "operator": "Exists"},
        {"key": LEVEL, "operator": "DoesNotExist"},
        {"key": LEVEL, "operator": rng.choice(("Gt", "Lt")), "values": [rng.choice(("1", "2", "5"))]},
    ]
    term: Json = {"matchExpressions": rng.sample(choices, rng.choice((1, 1, 2)))}
    if sometimes(rng, 0.2):
        operator = rng.choice(("In", "NotIn", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [rng.choice(nodes)]}]
    return {} if wild and sometimes(rng, 0.1) else term


def tolerations(rng: Random, *, wild: bool) -> list[Json]:
    choices: list[Json] = [
        {"key": "dedicated", "operator": "Equal", "value": rng.choice("ab"), "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "draining", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600},
        {"key": "draining", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "level", "value": rng.choice(("3", "5"))},
        {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"},
    ]
    if wild:
        choices += [
            {"key": "level", "operator": rng.choice(("Lt", "Gt")), "value": rng.choice(("4", "05", "x", "-1"))},
            {"operator": "Exists", "effect": rng.choice(("", "NoSchedule"))},
            {"key": "level", "operator": "Near", "value": "5"},
        ]
    return [toleration for toleration in choices if sometimes(rng, 0.2)]
