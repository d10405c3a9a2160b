"""Converts past usage from Prometheus into history of current VPAs.

A usage model needs samples in the order of time. Past usage is therefore added to a separate model while passes go on,
and is saved as rows like those of checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.past_pods import PastPods, PodLabels
from trellis.core.cluster.store import ObjectKey
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.settings import Tuning, UsageSettings
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod


class NamespaceBackfill(msgspec.Struct, frozen=True):
    """One namespace: its claims, the governing VPA of each existing pod, and the containers of pods by VPA.

    Containers that no pod has now are left out of the past, init containers among them; without pods, all count.
    """

    claims: tuple[TargetClaim, ...]
    governors: Mapping[str, str]
    containers: Mapping[str, frozenset[str]]


class BackfillRequest(msgspec.Struct, frozen=True):
    """The VPAs that need history, and what is needed to assign samples to them."""

    vpas: frozenset[ObjectKey]
    namespaces: Mapping[str, NamespaceBackfill]
    usage: UsageSettings
    tunings: Mapping[RowKey, Tuning]
    with_history: frozenset[ObjectKey]


class UsageBackfill:
    """A usage model of past samples, which come oldest first."""

    def __init__(self, request: BackfillRequest, labels: PodLabels) -> None:
        self._request = request
        self._model = UsageModel(request.usage)
        self._model.keep_history(request.with_history)
        for key, tuning in request.tunings.items():
            self._model.tune(*key, tuning)
        by_namespace: dict[str, dict[str, Mapping[str, str]]] = {name: {} for name in request.namespaces}
        for (namespace, pod), pod_labels in labels.items():
            if namespace in by_namespace:
                by_namespace[namespace][pod] = pod_labels
        self._pods = {
            name: PastPods(namespace_request.claims, namespace_request.governors, by_namespace[name])
            for name, namespace_request in request.namespaces.items()
        }
        self._tracked_pods: dict[str, dict[str, TrackedPod]] = {}
        self._names: dict[tuple[str, str, str], str] = {}

    def ingest(self, samples: Samples, now: float) -> int:
        """Add a batch; returns how many samples were accepted.

        Each new container is tracked as a pod of its own, because the containers of a past pod are only known after its
        last sample.
        """
        keys = list(zip(samples.namespaces, samples.pods, samples.containers, strict=True))
        changed: set[str] = set()
        for key in keys:
            if key not in self._names:
                self._names[key] = self._track_container(*key)
                changed.add(key[0])
        for namespace in changed:
            self._model.track_pods(namespace, list(self._tracked_pods.get(namespace, {}).values()), now)
        renamed = msgspec.structs.replace(samples, pods=[self._names[key] for key in keys])
        return self._model.ingest(renamed, now).accepted

    def save_rows(self, now: float) -> list[SavedRow]:
        """The rows with usage, as checkpoints have them."""
        view = self._model.view()
        rows = view.rows[(view.count > 0) | ~view.memory.is_empty(view.rows)]
        # Past usage has no OOM kills: those that containers still show must count, whenever they were.
        return [msgspec.structs.replace(row, updated=np.nan) for row in self._model.save_rows(np.asarray(rows), now)]

    def _track_container(self, namespace: str, pod: str, container: str) -> str:
        pods = self._pods.get(namespace)
        vpa = pods.find_governor(pod) if pods else None
        if vpa is None or (namespace, vpa) not in self._request.vpas:
            return ""
        containers = self._request.namespaces[namespace].containers.get(vpa)
        if containers and container not in containers:
            return ""
        name = f"{pod}/{container}"
        tracked = TrackedPod(namespace, name, name, vpa, False, (TrackedContainer(container),))
        self._tracked_pods.setdefault(namespace, {})[name] = tracked
        return name
