"""Kinds of a test's own, of which one has a scale: targets that no component knows beforehand."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until


@contextmanager
def garden(cluster: Cluster) -> Iterator[str]:
    """A group with two kinds that no other test has: a Flower has a scale, a Stone has none."""
    group = f"garden-{secrets.token_hex(4)}.example.com"
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    definitions = [_definition(group, "Flower", {"scale": scale}), _definition(group, "Stone", {})]
    for definition in definitions:
        cluster.api.create(definition)
    until("the kinds to be served", lambda: _kinds(cluster, group) == {"Flower", "Stone"})
    yield group
    for definition in definitions:
        cluster.api.delete(cluster.api.get_path(definition))


def _definition(group: str, kind: str, subresources: Json) -> Json:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def _kinds(cluster: Cluster, group: str) -> set[str]:
    result = cluster.api.find(f"/apis/{group}/v1") or {"resources": []}
    return {resource["kind"] for resource in result["resources"] if "/" not in resource["name"]}


def flower(group: str, name: str, selector: str = "") -> Json:
    """A custom resource that selects the pods app=<name>, or what it is told."""
    status = {"replicas": 1, "selector": selector or f"app={name}"}
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Flower",
        "metadata": {"name": name},
        "spec": {"replicas": 1},
        "status": status,
    }
