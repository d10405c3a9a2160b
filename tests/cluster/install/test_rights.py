"""Each container of an installation runs with its own command, under its own account, with the rights of the chart."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import msgspec
import pytest

from support.cluster.admission import CONFIGURATION
from support.install.clusters import empty_cluster, wait_for_rights
from support.install.helm import Manifest
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.waiting import until
from trellis.install.installation import build_manifests, build_namespace
from trellis.install.tree.evaluation import Context
from trellis.install.values.loading import load_values

_OF_UPSTREAM = ("vpa-recommender-lease", "vpa-updater", "vpa-admission-controller")
_OURS = ("trellis-hvpa", "trellis-buffers", "trellis-nodes")
# Those that write nothing take no Lease.
LEASES = {
    "full": (*_OF_UPSTREAM, *_OURS),
    "read-only": ("vpa-recommender-lease",),
    "drop-in": _OF_UPSTREAM,
    "single": (*_OF_UPSTREAM, *_OURS),
    "separate": ("vpa-recommender-lease", "vpa-updater", *_OURS),
    "some": ("vpa-recommender-lease", "vpa-updater"),
}
# A process of several components spreads its leaders, and has a Lease of its own for that.
MEMBERS = {"full": 1, "read-only": 1, "single": 1}
KWOK = "nodes.cloudProviders=[kwok]"
DENIED = ("forbidden", "RBAC does not allow", "Traceback")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A control plane for the tests of this module; each installs into a namespace of its own."""
    with empty_cluster() as cluster:
        yield cluster


def apply(cluster: Cluster, namespace: str, assignments: list[str]) -> list[Manifest]:
    """Create everything but the Deployments, whose programs run beside the cluster here."""
    values = load_values([], assignments)
    manifests = build_manifests(Context(values, name="trellis", namespace=namespace, service="test"))
    for manifest in (*build_namespace(namespace), *manifests):
        if manifest["kind"] != "Deployment":
            cluster.api.apply(manifest)
    return manifests


class Site(msgspec.Struct, frozen=True):
    """An installation whose programs run beside the cluster."""

    cluster: Cluster
    namespace: str
    manifests: list[Manifest]
    directory: Path

    def run(self, deployment: Manifest) -> AbstractContextManager[Controller]:
        """The program of a Deployment, under its account."""
        spec = deployment["spec"]["template"]["spec"]
        [container] = spec["containers"]
        account = spec["serviceAccountName"]
        wait_for_rights(self.cluster, account, self.namespace, self.manifests)
        program, name = container["command"]
        flags = list(container["args"])
        if "webhook" in {port["name"] for port in container["ports"]}:
            [port] = reserve_ports(1)
            prefix = "--admission." if name == "run" else "--"
            where = [f"webhook-address=https://{ADDRESS}", f"webhook-port={port}", f"port={port}"]
            flags += [prefix + flag for flag in ("register-by-url=true", *where)]
        command = [str(Path(sys.executable).with_name(program)), name]
        log = self.directory / f"{deployment['metadata']['name']}.log"
        return run_controller(command, self.cluster.kubeconfig_for(account, self.namespace), log, flags)


@pytest.mark.parametrize(
    ("namespace", "assignments"),
    [
        ("full", ["preset=full", KWOK]),
        ("read-only", ["preset=read-only", KWOK]),
        ("drop-in", ["preset=drop-in"]),
        ("single", ["processes=single", KWOK]),
        ("separate", ["processes=separate", "components=[recommender, updater, hvpa, buffers, nodes]", KWOK]),
        ("some", ["preset=drop-in", "watchedNamespaces=[default]", "components=[recommender, updater]"]),
    ],
)
def test_every_component_is_ready_and_lacks_no_right(
    cluster: Cluster, namespace: str, assignments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE", namespace)
    manifests = apply(cluster, namespace, assignments)
    with ExitStack() as stack:
        site = Site(cluster, namespace, manifests, tmp_path)
        started = [stack.enter_context(site.run(it)) for it in manifests if it["kind"] == "Deployment"]
        for controller in started:
            until("it to be ready", lambda controller=controller: controller.get("/readyz")[0] == 200)  # type: ignore[misc]
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

        def has_leases() -> bool:
            names = [it["metadata"]["name"] for it in cluster.api.list_items(leases)]
            members = [name for name in names if name.startswith("trellis-member-")]
            return set(names) - set(members) == set(LEASES[namespace]) and len(members) == MEMBERS.get(namespace, 0)

        until("the Leases", has_leases)
    for controller in started:
        sys.stdout.write(f"{controller.process.log.name}:\n{controller.read_logs()}\n")
        refused = [line for line in controller.read_logs().splitlines() if any(word in line for word in DENIED)]
        # Whatever cannot be read in one namespace alone has a stated consequence.
        expected = ("nodes", "namespaces") if namespace == "some" else ()
        assert [line for line in refused if not any(kind in line for kind in expected)] == []
    if cluster.api.find(CONFIGURATION):
        cluster.api.delete(CONFIGURATION)
