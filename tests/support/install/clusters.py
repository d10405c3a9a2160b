"""A control plane of its own for tests that install: CRDs, ClusterRoles and webhooks are those of a whole cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.install.helm import Helm, Manifest, Run, run
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import FULL, ControlPlane
from testbed.errors import Refused
from testbed.programs.building import ensure_programs
from testbed.programs.versions import KUBECTL, Program
from testbed.scratch import scratch
from testbed.waiting import until


@contextmanager
def empty_cluster() -> Iterator[Cluster]:
    """A control plane with nodes, whose pods kwok plays, and without any definition of ours."""
    with scratch() as directory, ControlPlane(directory, FULL - {"metrics-server"}) as plane:
        yield plane.cluster


class Kubectl:
    """The real kubectl, as the administrator."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self._program = ensure_programs([KUBECTL])[KUBECTL.name]
        self._environment = {"HOME": str(home), "KUBECONFIG": str(cluster.kubeconfig)}

    def run(self, *arguments: str | Path, text: str = "") -> Run:
        """Run a command of kubectl, with a text for its standard input."""
        return run([self._program, *arguments], text, self._environment)


def connect_helm(program: Program, home: Path, cluster: Cluster) -> Helm:
    """A Helm that installs into a cluster."""
    return Helm(ensure_programs([program])[program.name], home, cluster.kubeconfig)


def find(cluster: Cluster, manifest: Manifest) -> Json | None:
    """The object of a manifest in the cluster. A kind that is not served has none."""
    try:
        return cluster.api.find(cluster.api.get_path(manifest))
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return None


def list_missing(cluster: Cluster, manifests: list[Manifest]) -> list[str]:
    """The manifests that are not in the cluster."""
    return [f"{it['kind']} {it['metadata']['name']}" for it in manifests if find(cluster, it) is None]


def wait_for_rights(cluster: Cluster, account: str, namespace: str, manifests: list[Manifest]) -> None:
    """Return when the roles that are bound to an account are in force."""
    bound = {
        it["roleRef"]["name"]
        for it in manifests
        if it["kind"].endswith("Binding") and any(subject["name"] == account for subject in it["subjects"])
    }
    roles = [it for it in manifests if it["kind"] in ("Role", "ClusterRole") and it["metadata"]["name"] in bound]
    wait_until_granted(cluster.api, f"system:serviceaccount:{namespace}:{account}", roles)


def wait_for_deployments(cluster: Cluster, namespace: str, replicas: Mapping[str, int]) -> None:
    """Return when Deployments have as many ready pods."""

    def ready() -> bool:
        items = cluster.api.list_items(f"/apis/apps/v1/namespaces/{namespace}/deployments")
        return {it["metadata"]["name"]: it.get("status", {}).get("readyReplicas", 0) for it in items} == dict(replicas)

    until("the Deployments to be ready", ready)
