"""A cluster in memory whose nodes are machines of Cluster API and of Karpenter, for those that read node groups.

It has a MachineDeployment `MachineDeployment/fleet/pool` of up to ten nodes with 4 CPU, a group `big` of NodeClaims
with 16 CPU, a node of each with a pod that a Deployment controls, pods that wait for 14 CPU and for 32, and
a Buffer.
"""

from __future__ import annotations

from support.api_server.server import Document, ModelServer
from support.builders.collected_node_groups import READY, Pools
from support.worlds.providers.cluster_api import GROUP, LIMITS, SIZE
from support.worlds.providers.kwok_nodes import config_map
from support.worlds.providers.node_claims import CLAIMS, claim_group
from trellis.kube.resources import NODE_CLAIMS
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

POOL = "MachineDeployment/fleet/pool"
MACHINES = f"/apis/{GROUP}/v1beta2/namespaces/fleet"
CLAIM_GROUPS = "/api/v1/namespaces/kube-system/configmaps/trellis-karpenter-node-groups"
BOTH = "--cloud-provider=clusterapi,karpenter"
_KINDS = {
    "clusters": "Cluster",
    "machinedeployments": "MachineDeployment",
    "machinesets": "MachineSet",
    "machinepools": "MachinePool",
    "machines": "Machine",
}


class ServedMachines:
    """The cluster behind `server`. Paths that begin with one of `forbidden` may not be read."""

    def __init__(self) -> None:
        self.server = _serve(_build_cluster())
        self.server.before = self._answer
        self.forbidden: tuple[str, ...] = ()
        self.serves_cluster_api = True
        self._add_machines()
        self._add_claims()

    @property
    def written(self) -> list[Request]:
        """Requests that are not reads."""
        return [request for request in self.server.requests if request.method != "GET"]

    def deploy(self, *flags: str) -> None:
        """A Deployment of the node autoscaler with these flags."""
        command = ["trellis", "nodes", *flags]
        template = {"spec": {"containers": [{"name": "nodes", "command": command}]}}
        self.server.put(
            "/apis/apps/v1/namespaces/kube-system/deployments/trellis-nodes", {"spec": {"template": template}}
        )

    def _add_machines(self) -> None:
        meta: Document = {"generation": 1}
        owned = {"apiVersion": f"{GROUP}/v1beta2", "controller": True}
        spec = {"clusterName": "bed", "replicas": 1, "template": {"spec": {"version": "v1.36.3"}}}
        self.server.put(f"{MACHINES}/clusters/bed", {"metadata": meta, "spec": {}})
        pool = self.server.put(
            f"{MACHINES}/machinedeployments/pool",
            {
                "metadata": {**meta, "annotations": {**LIMITS, **SIZE}},
                "spec": spec,
                "status": {"observedGeneration": 1},
            },
        )
        owner = {**owned, "kind": "MachineDeployment", "name": "pool", "uid": pool["metadata"]["uid"]}
        own = self.server.put(
            f"{MACHINES}/machinesets/pool-1",
            {"metadata": {**meta, "ownerReferences": [owner]}, "spec": spec, "status": {"observedGeneration": 1}},
        )
        owner = {**owned, "kind": "MachineSet", "name": "pool-1", "uid": own["metadata"]["uid"]}
        created = {"creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]}
        self.server.put(
            f"{MACHINES}/machines/pool-1-a",
            {
                "metadata": {**meta, **created},
                "spec": {"clusterName": "bed", "providerID": "cloud:///vm-1"},
                "status": {"nodeRef": {"name": "vm-1"}, "phase": "Running"},
            },
        )

    def _add_claims(self) -> None:
        big = claim_group("big", resources={"cpu": "16", "memory": "64Gi"}, maxSize=2, price=0.8)
        self.server.put(CLAIM_GROUPS, {"data": dict(config_map(big).data)})
        conditions = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized")]
        status = {"providerID": "cloud:///big-1", "conditions": conditions}
        # Its status does not name the node yet: the node is known by its machine.
        labels = {"trellis.x-k8s.io/node-group": "big"}
        self.server.put(f"{CLAIMS}/big-1", {"metadata": {"labels": labels}, "spec": {}, "status": status})

    def _answer(self, request: Request) -> ScriptedResponse | None:
        served = {NODE_CLAIMS.api_version: {NODE_CLAIMS.plural: (NODE_CLAIMS.kind, False)}}
        if self.serves_cluster_api:
            served[f"{GROUP}/v1beta2"] = {plural: (kind, True) for plural, kind in _KINDS.items()}
        if request.path == "/apis":
            versions = [{"groupVersion": name, "version": name.partition("/")[2]} for name in served]
            return json_response(
                {"groups": [{"versions": [version], "preferredVersion": version} for version in versions]}
            )
        kinds = served.get(request.path.removeprefix("/apis/"))
        if kinds is not None:
            resources = [
                {"name": plural, "kind": kind, "namespaced": namespaced} for plural, (kind, namespaced) in kinds.items()
            ]
            return json_response({"resources": resources})
        return error_response(403, "Forbidden", "RBAC says no") if request.path.startswith(self.forbidden) else None


def _build_cluster() -> Pools:
    cluster = Pools()
    cluster.add_workload("web", 1)
    for name, cpu, memory in (("vm-1", "4", "16Gi"), ("node-of-big", "16", "64Gi")):
        machine = "cloud:///vm-1" if name == "vm-1" else "cloud:///big-1"
        status = {"conditions": READY, "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}}
        metadata = {"labels": {"kubernetes.io/hostname": name}, "creationTimestamp": "2026-01-01T00:01:00Z"}
        cluster.put("Node", name, {"metadata": metadata, "spec": {"providerID": machine}, "status": status}, "")
    cluster.run("web-1-1", "vm-1", "3")
    cluster.run("web-1-2", "node-of-big", "15")
    cluster.keep("builds", 1, "12")
    cluster.want("import-1", "14")
    cluster.want("import-2", "32")
    return cluster


def _serve(cluster: Pools) -> ModelServer:
    server = ModelServer()
    server.objects["/version"] = {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
    server.objects |= {"/api": {"versions": ["v1"]}, "/api/v1": {"resources": []}}
    for (kind, (namespace, name)), document in cluster.objects.items():
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        server.put(f"{root}{where}/{kind.lower()}s/{name}", document)
    server.put("/api/v1/namespaces/kube-system", {})
    return server
