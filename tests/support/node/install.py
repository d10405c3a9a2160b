"""Trellis as its users install it: pods of the image, started from the manifests in `deploy/`.

Changed are what the guides tell users to change: image, replicas, and flags as `args` below the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from support.cluster.admission import forget
from testbed.access import shipped_accounts
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.images import components
from testbed.node.real_node import RealNode
from testbed.programs.cache import hold_lock
from testbed.waiting import until

NAMESPACE: Final = shipped_accounts.NAMESPACE

# The file of each component, and its Deployment and label `app`.
DEPLOYMENTS: Final = {
    "recommender": "vpa-recommender",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
    "hvpa": "trellis-hvpa",
    "buffers": "trellis-buffers",
    "nodes": "trellis-nodes",
}

_DEPLOY: Final = shipped_accounts.ROOT / "deploy"


@contextmanager
def prevent_installation(cluster: Cluster) -> Iterator[None]:
    """Keep tests that run beside this one from installing the components, once they have none installed."""
    with hold_lock(cluster.directory / "admission.lock"):
        yield


@contextmanager
def installed(
    cluster: Cluster, node: RealNode, namespace: str, flags: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Json]]:
    """The pod of each component, once all are Ready. They work for one namespace: other tests have the others.

    A cluster has one webhook configuration; tests side by side take turns.
    """
    with prevent_installation(cluster):
        node.import_archive(components.ensure_archive())
        try:
            for component in DEPLOYMENTS:
                for document in _read_manifest(_DEPLOY / f"{component}.yaml"):
                    if document["kind"] == "Deployment":
                        _adapt(document, (f"--vpa-object-namespace={namespace}", *flags.get(component, ())))
                    cluster.api.apply(document)
            yield {
                component: cluster.wait_for_ready_pods(NAMESPACE, name)[0] for component, name in DEPLOYMENTS.items()
            }
        finally:
            _uninstall(cluster)


def read_log(cluster: Cluster, pod: Json) -> str:
    """What `kubectl logs` shows of a pod with one container."""
    name = pod["metadata"]["name"]
    text: str = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log")["message"]
    return text


def _read_manifest(file: Path) -> list[Json]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def _adapt(deployment: Json, arguments: Sequence[str]) -> None:
    deployment["spec"]["replicas"] = 1
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container["image"] = components.IMAGE
    container["args"] = list(arguments)


def _uninstall(cluster: Cluster) -> None:
    """Accounts and roles stay, which tests side by side use. A webhook that still runs would register itself again."""
    for name in DEPLOYMENTS.values():
        deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        if cluster.api.find(deployment):
            cluster.api.delete(f"{deployment}?propagationPolicy=Foreground")
    for name in DEPLOYMENTS.values():
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{name}"
        cluster.api.delete(f"{pods}&gracePeriodSeconds=1")
    names = ",".join(DEPLOYMENTS.values())
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    until("the end of the components", lambda: not cluster.api.list_items(pods, labelSelector=f"app in ({names})"))
    forget(cluster)
