"""A Deployment with two pods that a VPA governs, passed to a `WorkloadCache` piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from support.worlds.resizes import NOW, Document, governor, running
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import Deployment, ReplicaSet
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.sizing.governors import Governor

WEB: WorkloadKey = ("shop", "Deployment", "web")
SELECTOR = {"selector": {"matchLabels": {"app": "web"}}}


def in_shop(**spec: Any) -> Governor:
    """What governs there."""
    compiled = governor(**spec)
    target = msgspec.structs.replace(compiled.claim.target, namespace="shop")
    return msgspec.structs.replace(
        compiled, claim=msgspec.structs.replace(compiled.claim, namespace="shop", target=target)
    )


def owned(kind: str, name: str) -> Document:
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}]}


def deployment() -> Deployment:
    return msgspec.convert({"metadata": {"name": "web", "namespace": "shop"}, "spec": SELECTOR}, Deployment)


def replica_set(name: str = "web-1", replicas: int = 2) -> ReplicaSet:
    metadata = {"name": name, "namespace": "shop", **owned("Deployment", "web")}
    return msgspec.convert({"metadata": metadata, "spec": {**SELECTOR, "replicas": replicas}}, ReplicaSet)


def pod(name: str = "web-1-a", **metadata: Any) -> Pod:
    document = running(name)
    document["metadata"] |= {"labels": {"app": "web"}, "resourceVersion": "5", **metadata}
    return msgspec.convert(document, Pod)


class CachedWorkload:
    """A cache of workloads, and those whose changes it reported."""

    def __init__(self) -> None:
        self.cache = WorkloadCache(on_change=self._changed)
        self.concerned: list[WorkloadKey] = []
        self.listeners: list[Callable[[WorkloadKey], None]] = []

    def _changed(self, workload: WorkloadKey) -> None:
        self.concerned.append(workload)
        for listener in self.listeners:
            listener(workload)

    def put_all(self) -> CachedWorkload:
        for put in self.puts():
            put()
        self.concerned.clear()
        return self

    def puts(self) -> list[Callable[[], None]]:
        cache = self.cache
        return [
            lambda: cache.put_governor("VerticalPodAutoscaler", ("shop", "web"), in_shop()),
            lambda: cache.put_workload("Deployment", ("shop", "web"), None, deployment()),
            lambda: cache.put_workload("ReplicaSet", ("shop", "web-1"), None, replica_set()),
            lambda: cache.put_pod(("shop", "web-1-a"), None, pod()),
            lambda: cache.put_pod(("shop", "web-1-b"), None, pod("web-1-b")),
        ]

    def snapshot(self) -> WorkloadSnapshot:
        result = self.cache.build_snapshot(WEB, NOW)
        assert result is not None
        return result
