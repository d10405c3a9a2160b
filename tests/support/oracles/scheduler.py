"""Many random clusters on one control plane, and what its scheduler and we say about the same pods.

A cluster is a set of nodes with a label and a taint of its own, and pods that can only be placed there. Its domains
have labels of its own as well, so that rules about other pods end at its border, whatever namespaces they look into.
All clusters get a pod at a time, and wait for the scheduler together.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NamedTuple

import msgspec

from support.builders.nodes_and_pods import seeded
from support.builders.pod_affinities import NAMESPACES, a_node_in_domains, a_pod_with_rules
from testbed.cluster import Cluster
from testbed.errors import Refused, TimedOut
from testbed.kwok.nodes import Node as NewNode
from testbed.kwok.nodes import Taint
from testbed.waiting import until
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.fit import (
    Demand,
    ExistingPods,
    NodeTable,
    Occupancy,
    PodProfile,
    explain_unfit_nodes,
    find_fitting_nodes,
    read_running_demand,
)

Json = dict[str, Any]

SET = "example.com/set"
AT_ONCE = 4


class Agreement(NamedTuple):
    """What came out: pods judged, how many of them were placed, and on which we differ."""

    decided: int
    placed: int
    differences: list[str]


class SmallCluster:
    """One of the clusters, and what we know of it."""

    def __init__(self, seed: int, namespaces: Mapping[str, str]) -> None:
        self.seed = seed
        self.rng: Random = seeded(seed)
        self.name = f"s{seed}-{secrets.token_hex(3)}"
        self.names = [f"{self.name}-{at}" for at in range(self.rng.choice((3, 5, 7)))]
        self._namespaces = namespaces
        self.table = NodeTable()
        self.used = Occupancy(self.table)
        self.near = ExistingPods(self.table, namespaces={namespaces[name]: NAMESPACES[name] for name in namespaces})

    def new_nodes(self) -> list[NewNode]:
        return [self._new_node(a_node_in_domains(self.rng, name, self.name)) for name in self.names]

    def _new_node(self, drawn: Json) -> NewNode:
        amounts = drawn["status"]["allocatable"]
        return NewNode(
            name=drawn["metadata"]["name"],
            pods=int(amounts["pods"]),
            labels={**drawn["metadata"]["labels"], SET: self.name},
            taints=(Taint(SET, self.name), *(Taint(taint["key"], taint["value"]) for taint in drawn["spec"]["taints"])),
            allocatable=amounts,
        )

    def draw(self, at: int) -> Json:
        pod = a_pod_with_rules(self.rng, f"{self.name}-p{at}", self.name, self.names)
        pod["metadata"]["namespace"] = self._namespaces[pod["metadata"]["namespace"]]
        spec = pod["spec"]
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), SET: self.name}
        spec["tolerations"].append({"key": SET, "operator": "Exists"})
        for kind in ("podAffinity", "podAntiAffinity"):
            for term in next(iter(spec.get("affinity", {}).get(kind, {}).values()), []):
                if "namespaces" in term:
                    term["namespaces"] = [self._namespaces[name] for name in term["namespaces"]]
        return {"apiVersion": "v1", "kind": "Pod", **pod}


def agreement(cluster: Cluster, seeds: Sequence[int], pods: int) -> Agreement:
    """Draw a cluster for each seed, and so many pods for each of them."""
    namespaces = {name: _namespace(cluster, name) for name in NAMESPACES}
    clusters = [SmallCluster(seed, namespaces) for seed in seeds]
    try:
        cluster.add_nodes(*(node for cluster in clusters for node in cluster.new_nodes()))
        result = {node["metadata"]["name"]: node for node in cluster.api.list_items("/api/v1/nodes")}
        for small in clusters:
            for name in small.names:
                small.table.update(convert_object(result[name], Node))
        rounds = [_schedule_round(cluster, clusters, at, namespaces) for at in range(pods)]
    finally:
        cluster.remove_nodes(*(name for cluster in clusters for name in cluster.names))
        for name in namespaces.values():
            cluster.delete_namespace(name)
    return Agreement(
        decided=sum(measurement.decided for measurement in rounds),
        placed=sum(measurement.placed for measurement in rounds),
        differences=[difference for measurement in rounds for difference in measurement.differences],
    )


def _namespace(cluster: Cluster, prefix: str) -> str:
    name = f"{prefix}-{secrets.token_hex(4)}"
    metadata = {"name": name, "labels": NAMESPACES[prefix]}
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    until(f"ServiceAccount default of {name}", lambda: cluster.api.find(account))
    return name


def _schedule_round(
    cluster: Cluster, clusters: Iterable[SmallCluster], at: int, namespaces: Mapping[str, str]
) -> Agreement:
    drawn = [(cluster, cluster.draw(at)) for cluster in clusters]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        created = list(threads.map(lambda pair: cluster.api.create(pair[1]), drawn))
    expected: dict[str, list[str]] = {}
    differences: list[str] = []
    for (small, manifest), pod in zip(drawn, created, strict=True):
        template, read = (convert_object(document, Pod) for document in (manifest, pod))
        demand = Demand.of(read.spec, metadata=read.metadata)
        template_demand = Demand.of(template.spec, metadata=template.metadata)
        # What the API server fills in for a pod we fill in for a template.
        if (template_demand.pod_affinity, template_demand.spread, template_demand.profile) != (
            demand.pod_affinity,
            demand.spread,
            demand.profile,
        ):
            differences.append(f"seed {small.seed}: {manifest} was filled in as {pod}")
        expected[pod["metadata"]["name"]] = small.table.names(
            find_fitting_nodes(small.table, demand, small.used, small.near)
        )
    expected_to_fit = {name for name, nodes in expected.items() if nodes}
    decided = _wait_for_decisions(cluster, set(expected), expected_to_fit, namespaces.values())
    placed = 0
    for small, manifest in drawn:
        pod = decided[manifest["metadata"]["name"]]
        chosen, fitting = pod["spec"].get("nodeName", ""), expected[manifest["metadata"]["name"]]
        if (chosen not in fitting) if chosen else bool(fitting):
            differences.append(_describe_difference(small, pod, fitting))
        if chosen:
            placed += 1
            read = convert_object(pod, Pod)
            small.used.add(small.table.find(chosen), read_running_demand(read))
            small.near.add(small.table.find(chosen), PodProfile.of(read))
    _remove(cluster, [pod for pod in decided.values() if not pod["spec"].get("nodeName")])
    return Agreement(len(drawn), placed, differences)


def _wait_for_decisions(
    cluster: Cluster, names: set[str], expected_to_fit: set[str], namespaces: Iterable[str]
) -> dict[str, Json]:
    """The pods, once the scheduler has placed them or said that it cannot.

    It hears of nodes and pods apart, and looks again if a pod came first: those that should fit are given the time.
    """

    def pods() -> dict[str, Json]:
        listed = (pod for name in namespaces for pod in cluster.api.list_items(f"/api/v1/namespaces/{name}/pods"))
        return {pod["metadata"]["name"]: pod for pod in listed if pod["metadata"]["name"] in names}

    def find_decided() -> dict[str, Json] | None:
        listed_pods = pods()
        return listed_pods if len(listed_pods) == len(names) and all(map(_has_decision, listed_pods.values())) else None

    result = until("the scheduler's verdicts", find_decided)
    if all(result[name]["spec"].get("nodeName") for name in expected_to_fit):
        return result
    try:
        until(
            "second looks", lambda: all(pods()[name]["spec"].get("nodeName") for name in expected_to_fit), seconds=60.0
        )
    except TimedOut:
        return pods()
    return pods()


def find_decided_pod(pod: Json, *, expected_to_fit: bool) -> Json | None:
    """The pod once the scheduler has placed it or said that it cannot; if we hope, only the former counts.

    It hears of nodes, volumes and pods apart, and a pod that came first is looked at again.
    """
    return pod if pod["spec"].get("nodeName") or (_has_decision(pod) and not expected_to_fit) else None


def _has_decision(pod: Json) -> bool:
    return any(condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions", []))


def _remove(cluster: Cluster, pods: Iterable[Json]) -> None:
    paths = [f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}" for pod in pods]

    def remove(path: str) -> None:
        try:
            cluster.api.send("DELETE", f"{path}?gracePeriodSeconds=0")
        except Refused as refusal:
            if refusal.status != 404:
                raise

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(remove, paths))


def _describe_difference(small: SmallCluster, pod: Json, fitting: Sequence[str]) -> str:
    read = convert_object(pod, Pod)
    demand = msgspec.structs.replace(Demand.of(read.spec, metadata=read.metadata), node_name="")
    our_reasons = ", ".join(str(reason) for reason in explain_unfit_nodes(small.table, demand, small.used, small.near))
    scheduler_message = next(
        (
            condition.get("message", "")
            for condition in pod["status"]["conditions"]
            if condition["type"] == "PodScheduled"
        ),
        "",
    )
    chosen = pod["spec"].get("nodeName", "no node")
    ours = f"we say {list(fitting)} ({our_reasons})"
    return f"seed {small.seed}: placed on {chosen} ({scheduler_message}), {ours}: {pod['spec']}"
