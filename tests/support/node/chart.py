"""The chart on a real node: its pods run from the image that is built here, and that no registry has."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.cluster.vpas import vpa_path
from support.install.helm import ROOT, Helm
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.node.images import components
from testbed.node.images.archives import BUSYBOX
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis import __version__
from trellis.api.schema.crds import build_crds

NAMESPACE: Final = "trellis-system"
RELEASE: Final = ("trellis", "--namespace", NAMESPACE)
# As the README names it.
REPOSITORY: Final = "registry.example/trellis"
# The image of examples/quickstart.
EXAMPLE_IMAGE: Final = "docker.io/library/busybox:1.36"
QUICKSTART: Final = ROOT / "examples" / "quickstart"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEPLOYMENT: Final = "/apis/apps/v1/namespaces/default/deployments/quickstart"


def provide_images(node: RealNode) -> None:
    """Import the image of Trellis, under the name that the chart gets, and the one of the example."""
    node.import_archive(components.ensure_archive())
    node.tag_image(f"docker.io/library/{components.IMAGE}", f"{REPOSITORY}:{__version__}")
    node.tag_image(BUSYBOX, EXAMPLE_IMAGE)


def uninstall(cluster: Cluster, helm: Helm) -> None:
    """Remove the release with its namespace: the cluster is empty again."""
    helm.run("uninstall", *RELEASE, "--wait", "--timeout", "2m").check()
    cluster.delete_namespace(NAMESPACE)
    remove_definitions(cluster)
    until("the end of the namespace", lambda: not cluster.api.find(f"/api/v1/namespaces/{NAMESPACE}"))


def remove_definitions(cluster: Cluster) -> None:
    """Delete the CRDs, which a release leaves behind."""
    for path in list_definitions(cluster):
        cluster.api.delete(path)
    until("the end of the definitions", lambda: not list_definitions(cluster))


def list_definitions(cluster: Cluster) -> list[str]:
    """The paths of our CRDs that the cluster has."""
    paths = [f"{_DEFINITIONS}/{it['metadata']['name']}" for it in build_crds()]
    return [path for path in paths if cluster.api.find(path)]


def list_replicas(cluster: Cluster) -> Iterator[Json]:
    """The pods of all Deployments of the release."""
    for deployment in cluster.api.list_items(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"):
        yield from cluster.list_pods(NAMESPACE, deployment["metadata"]["name"])


def kill(cluster: Cluster, node: RealNode, pod: Json) -> None:
    """Kill the program of a pod by SIGKILL, and return when the kubelet has started it again and it is ready."""
    [container] = pod["spec"]["containers"]
    [process] = node.get_container_cgroup(pod, container["name"]).list_processes()
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    restarts = pod["status"]["containerStatuses"][0]["restartCount"]
    os.kill(process.pid, signal.SIGKILL)

    def is_back() -> bool:
        now = cluster.api.get(path)
        return now["status"]["containerStatuses"][0]["restartCount"] > restarts and is_ready(now)

    until(f"{pod['metadata']['name']} to be ready again", is_back)


@contextmanager
def quickstart(cluster: Cluster) -> Iterator[Json]:
    """The Deployment of the example, once its VPA has a recommendation."""
    cluster.apply_files(sorted(QUICKSTART.glob("*.yaml")), "default")
    try:
        until("a recommendation", lambda: has_recommendation(cluster))
        yield cluster.api.get(_DEPLOYMENT)
    finally:
        for path in (vpa_path("default", "quickstart"), _DEPLOYMENT):
            cluster.api.delete(path)


def has_recommendation(cluster: Cluster) -> bool:
    """Whether the VPA of the example has one."""
    status = cluster.api.get(vpa_path("default", "quickstart")).get("status", {})
    return bool(status.get("recommendation", {}).get("containerRecommendations"))
