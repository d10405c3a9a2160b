"""Runs Cluster API's core manager beside a control plane, whose one Cluster is that control plane or another one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.access.certificates import Authority
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.cluster_api.definitions import CONTROL_PLANE, INFRASTRUCTURE, build_own_definitions, ensure_definitions
from testbed.cluster_api.machines import KwokMachines
from testbed.components import ADDRESS
from testbed.processes import Process, reserve_ports
from testbed.programs.building import ensure_programs
from testbed.programs.versions import CLUSTER_API, KUBERNETES
from testbed.waiting import until

NAME = "bed"
GROUP = "cluster.x-k8s.io"
API_VERSION = f"{GROUP}/v1beta2"
MIN_SIZE, MAX_SIZE = (f"{GROUP}/cluster-api-autoscaler-node-group-{limit}-size" for limit in ("min", "max"))


class ClusterApi:
    """A running Cluster API in `cluster`, whose one Cluster is `bed` in a namespace; the nodes are of `workload`."""

    def __init__(self, cluster: Cluster, namespace: str, log: Path, workload: Cluster | None = None) -> None:
        self.cluster, self.namespace, self.log = cluster, namespace, log
        self.workload = workload or cluster
        # The label of what this manager works on.
        self.mark = {f"{GROUP}/watch-filter": namespace}
        self._process: Process | None = None

    def start(self) -> None:
        """Start the manager, again after `kill`."""
        program = ensure_programs([CLUSTER_API])[CLUSTER_API.name]
        webhooks, health, diagnostics = reserve_ports(3)
        certificates = self.log.parent / "cluster-api"
        certificates.mkdir(exist_ok=True)
        pair = Authority.new("webhooks").issue_server("webhooks", ADDRESS)
        (certificates / "tls.crt").write_bytes(pair.certificate)
        (certificates / "tls.key").write_bytes(pair.key)
        command: list[str | Path] = [
            program,
            f"--kubeconfig={self.cluster.kubeconfig}",
            "--leader-elect=false",
            # Others run beside it, each for its own objects. With --namespace, 1.14.0 cannot read its own caches:
            # "failed to cast MachineSet informer".
            f"--watch-filter={self.namespace}",
            f"--webhook-port={webhooks}",
            f"--webhook-cert-dir={certificates}",
            f"--health-addr={ADDRESS}:{health}",
            f"--diagnostics-address={ADDRESS}:{diagnostics}",
            "--insecure-diagnostics",
            "--feature-gates=MachineTaintPropagation=true",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
            # Drains go by the client of the Cluster: 20 requests in a second would be a minute for some ten Machines.
            "--clustercache-client-qps=300",
            "--clustercache-client-burst=600",
        ]
        self._process = Process(command, self.log)

    def kill(self) -> None:
        """End the manager by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def check(self) -> None:
        """Raise if the manager has ended by itself."""
        if self._process is not None:
            self._process.check()

    def path(self, plural: str, name: str = "", group: str = GROUP, version: str = "v1beta2") -> str:
        """The path of an object, or of all of a kind."""
        return f"/apis/{group}/{version}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def add_template(self, name: str, **spec: Any) -> None:
        """A template of machines: `cpu`, `memory`, `pods`, `zone`, `labels`, `bootSeconds`."""
        self.cluster.api.create(
            {
                "apiVersion": f"{INFRASTRUCTURE}/v1",
                "kind": "KwokMachineTemplate",
                "metadata": {"name": name},
                "spec": {"template": {"spec": spec}},
            },
            self.namespace,
        )

    def add_deployment(
        self,
        name: str,
        replicas: int,
        *,
        template: str,
        annotations: Mapping[str, str] = {},
        labels: Mapping[str, str] = {},
        max_surge: int = 1,
        **machine_spec: Any,
    ) -> None:
        """A MachineDeployment with all that the webhooks would add; `labels` are those of its Machines."""
        selected = {f"{GROUP}/cluster-name": NAME, f"{GROUP}/deployment-name": name}
        made = {**self.mark, **selected, **labels}
        rolling = {"maxSurge": max_surge, "maxUnavailable": 0}
        self.cluster.api.create(
            {
                "apiVersion": API_VERSION,
                "kind": "MachineDeployment",
                "metadata": {
                    "name": name,
                    "labels": {f"{GROUP}/cluster-name": NAME, **self.mark},
                    "annotations": dict(annotations),
                },
                "spec": {
                    "clusterName": NAME,
                    "replicas": replicas,
                    "selector": {"matchLabels": selected},
                    "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
                    "template": {
                        "metadata": {"labels": made},
                        "spec": self.machine_spec(template, **machine_spec),
                    },
                },
            },
            self.namespace,
        )

    def machine_spec(self, template: str, **fields: Any) -> Json:
        """The spec of a Machine of this template."""
        return {
            "clusterName": NAME,
            # Another version than that of the Node would roll out for ever.
            "version": f"v{KUBERNETES}",
            "bootstrap": {"dataSecretName": "no-bootstrap"},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "KwokMachineTemplate", "name": template},
            **fields,
        }

    def machines(self, deployment: str = "") -> dict[str, Json]:
        """The Machines by name; of one MachineDeployment, if it is named."""
        query = {"labelSelector": f"{GROUP}/deployment-name={deployment}"} if deployment else {}
        machines = self.cluster.api.list_items(self.path("machines"), **query)
        return {machine["metadata"]["name"]: machine for machine in machines}


@contextmanager
def running(cluster: Cluster, log: Path, workload: Cluster | None = None) -> Iterator[ClusterApi]:
    """Run Cluster API for one namespace, with its infrastructure provider, until the end of the block.

    The Machines become nodes of `workload`, or of the same cluster.
    """
    cluster.install_definitions(ensure_definitions())
    for definition in build_own_definitions():
        cluster.api.apply(definition)
    until("the testbed's kinds to be served", lambda: _are_own_kinds_served(cluster))
    cluster_api = ClusterApi(cluster, cluster.create_namespace("machines"), log, workload)
    _add_cluster(cluster_api)
    # A definition that is new is served a moment before its objects can be watched.
    cluster_api.machines()
    cluster_api.start()
    try:
        with KwokMachines(cluster.api, cluster_api.namespace, cluster_api.workload.api):
            yield cluster_api
    finally:
        cluster_api.kill()


def _add_cluster(cluster_api: ClusterApi) -> None:
    """The Cluster, a control plane that another system manages, and a kubeconfig of its API server."""
    api, namespace = cluster_api.cluster.api, cluster_api.namespace
    control_plane = {"apiVersion": f"{CONTROL_PLANE}/v1", "kind": "ExternalControlPlane", "metadata": {"name": NAME}}
    api.create({**control_plane, "spec": {}}, namespace)
    # Without it Machines would go and their Nodes stay.
    status = {"externalManagedControlPlane": True, "initialization": {"controlPlaneInitialized": True}}
    path = cluster_api.path("externalcontrolplanes", NAME, CONTROL_PLANE, "v1")
    api.patch(f"{path}/status", {"status": status})
    kubeconfig = b64encode(cluster_api.workload.kubeconfig.read_bytes()).decode()
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": f"{NAME}-kubeconfig", "labels": {f"{GROUP}/cluster-name": NAME}},
            "data": {"value": kubeconfig},
        },
        namespace,
    )
    reference = {"apiGroup": CONTROL_PLANE, "kind": "ExternalControlPlane", "name": NAME}
    endpoint = {"host": ADDRESS, "port": 6443}
    spec = {"controlPlaneEndpoint": endpoint, "controlPlaneRef": reference}
    metadata = {"name": NAME, "labels": cluster_api.mark}
    api.create({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": metadata, "spec": spec}, namespace)


def _are_own_kinds_served(cluster: Cluster) -> bool:
    for group, count in ((INFRASTRUCTURE, 2), (CONTROL_PLANE, 1)):
        served = cluster.api.find(f"/apis/{group}/v1") or {"resources": []}
        if sum("/" not in resource["name"] for resource in served["resources"]) < count:
            return False
    return True
