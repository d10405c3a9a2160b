"""The updater on a real control plane: tests start it, advise, and read pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cluster.admission import cpu
from support.cluster.controllers import shipped_controllers
from support.cluster.vpas import count_passes, vpa, vpa_path, wait_for_further_passes
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.workloads import container, deployment

Start = Callable[..., Controller]

NO_LEASE = "--use-admission-controller-status=false"
MEMORY = "128Mi"


@contextmanager
def updaters(cluster: Cluster, directory: Path, *, restarts: bool = False) -> Iterator[Start]:
    """Start `trellis updater` under the account that Trellis ships. A right that is missing, or a bug, is an error.

    `restarts` is for an API server that starts anew: that forbids everything until it has read its roles.
    """
    with shipped_controllers(
        cluster, directory, "updater", lambda _: ["--updater-interval=1s"], restarts=restarts
    ) as start:
        yield start


def advise(cluster: Cluster, namespace: str, name: str, amount: str = "250m", memory: str = MEMORY) -> None:
    """What a recommender would write, with bounds that leave no room."""
    advise_containers(cluster, namespace, name, {"app": {"cpu": amount, "memory": memory}})


def advise_containers(cluster: Cluster, namespace: str, name: str, targets: Mapping[str, Mapping[str, str]]) -> None:
    """The same by container."""
    advice = [
        {"containerName": container, "target": target, "lowerBound": target, "upperBound": target}
        for container, target in targets.items()
    ]
    status = {"recommendation": {"containerRecommendations": advice}}
    cluster.api.patch(f"{vpa_path(namespace, name)}/status", {"status": status})


def create_vpa_with_advice(cluster: Cluster, namespace: str, name: str, mode: str, **spec: Any) -> None:
    """A VPA for the Deployment of that name, which recommends 250m where 100m are requested."""
    policy = {"updateMode": mode, **spec.pop("updatePolicy", {})}
    cluster.api.create(vpa(name, updatePolicy=policy, **spec), namespace)
    advise(cluster, namespace, name)


def running_pods(
    cluster: Cluster, namespace: str, name: str, replicas: int = 2, notes: Mapping[str, str] | None = None
) -> dict[str, Json]:
    """A Deployment's pods by uid, once all are Ready."""
    cluster.api.create(deployment(name, container(), replicas=replicas, annotations=notes), namespace)
    return by_uid(cluster.wait_for_ready_pods(namespace, name, replicas))


def by_uid(pods: list[Json]) -> dict[str, Json]:
    return {pod["metadata"]["uid"]: pod for pod in pods}


def requests(cluster: Cluster, namespace: str, name: str) -> list[str | None]:
    return [cpu(pod) for pod in cluster.list_pods(namespace, name)]


def events(cluster: Cluster, namespace: str, reason: str) -> list[Json]:
    events: list[Json] = cluster.api.list_items(
        f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"reason={reason}"
    )
    return events


def count_updater_passes(controller: Controller) -> float:
    return count_passes(controller, "vpa_updater")


def wait_for_two_passes(controller: Controller) -> None:
    wait_for_further_passes(controller, "vpa_updater")
