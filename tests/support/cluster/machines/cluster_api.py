"""Cluster API on a real control plane, as an environment for stories about node groups.

    with cluster_api_groups(cluster, namespace, tmp_path) as groups:      # Cluster API runs
        groups.declare()                                                  # a MachineDeployment of up to 5 machines
        start(namespace, *groups.flags)                                   # `trellis nodes`
        groups.deploy("web", 2)                                           # pods for these nodes alone

`grant` lets the account of `trellis nodes` do what the provider does. `declare` takes what a KwokNodeGroup has
(`minSize`, `maxSize`, `bootTime`, `resources`, `taints`, `labels`, `price`, `priority`); a group that exists gets the
sizes, the price, the priority and the boot time. `machines` lists Machines by name, `fail` makes new machines never
boot, `hold` blocks the drain of a Machine and `let_go` ends that, `kill` ends Cluster API's manager by kill -9, and
`restart` starts it again. All else is that of `NodeGroups`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cluster.nodes import ACCOUNT, NodeGroups
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.cluster_api.manager import GROUP, MAX_SIZE, MIN_SIZE, ClusterApi, running
from trellis.base.durations import parse_span

HOLD = f"pre-drain.delete.hook.machine.{GROUP}/hold"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
NEVER_SECONDS = 1_000_000

# What the provider needs in the management cluster, apart from `get` of infrastructure templates.
RIGHTS: list[Json] = [
    {
        "apiGroups": [GROUP],
        "resources": ["clusters", "machinedeployments", "machinesets", "machinepools", "machines"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": [GROUP],
        "resources": ["machinedeployments", "machinesets", "machinepools", "machines"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": [GROUP],
        "resources": ["machinedeployments/scale", "machinesets/scale", "machinepools/scale"],
        "verbs": ["patch"],
    },
    {"apiGroups": [f"infrastructure.{GROUP}"], "resources": ["*"], "verbs": ["get"]},
]


class ClusterApiGroups(NodeGroups):
    """Groups of Machines for the pods of one namespace. Of several, `group` is the first."""

    def __init__(self, cluster_api: ClusterApi, namespace: str) -> None:
        super().__init__(cluster_api.workload, namespace)
        self.cluster_api = cluster_api
        self._management = cluster_api.cluster
        self._declared: list[str] = []

    def declare(self, *names: str, **spec: Any) -> None:
        """MachineDeployments without Machines, of machines with 2 CPU that boot in a second; or new limits of them."""
        resources = {"cpu": "2", "memory": "4Gi", **spec.get("resources", {})}
        taints = spec.get("taints", [{"key": self.namespace, "effect": "NoSchedule"}])
        labels = spec.get("labels", {"node_groups": self.group})
        sizes = {MIN_SIZE: str(spec.get("minSize", 0)), MAX_SIZE: str(spec.get("maxSize", 5))}
        capacity = {f"{CAPACITY}/{name}": amount for name, amount in resources.items()}
        written = {f"{CAPACITY}/labels": ",".join(f"{key}={value}" for key, value in labels.items())}
        written |= {f"nodes.trellis.x-k8s.io/{key}": str(spec[key]) for key in ("price", "priority") if key in spec}
        for name in names or (self.group,):
            seconds = parse_span(spec.get("bootTime", "1s"))
            if name in self._declared:
                self._management.api.annotate(self.cluster_api.path("machinedeployments", name), {**sizes, **written})
                self._boot_in(name, seconds)
                continue
            self.cluster_api.add_template(name, labels=labels, bootSeconds=seconds, **resources)
            propagated = [{**taint, "propagation": "Always"} for taint in taints]
            self.cluster_api.add_deployment(
                name,
                spec.get("replicas", 0),
                template=name,
                annotations={**sizes, **capacity, **written},
                taints=propagated,
            )
            self._declared.append(name)

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds these groups."""
        return "--cloud-provider=clusterapi", f"--cluster-api-namespaces={self.cluster_api.namespace}"

    def declare_with_failing(self, how: str) -> None:  # noqa: ARG002 -- Cluster API refuses no order
        """Two groups, of which machines of the one that is preferred never boot."""
        self.declare(self.group, price=1.0)
        self.declare(self.failing_group, price=0.1)
        self.fail(self.failing_group)

    def get_group(self, node: Json) -> str:
        """The MachineDeployment of a node."""
        machine = node["metadata"]["annotations"][f"{GROUP}/machine"]
        labels = self._management.api.get(self.cluster_api.path("machines", machine))["metadata"]["labels"]
        return str(labels[f"{GROUP}/deployment-name"])

    def grant(self) -> None:
        """Let the account of `trellis nodes` do what the provider does in the cluster of Cluster API."""
        self._grant(ACCOUNT, {"kind": "ServiceAccount", "name": "trellis-nodes", "namespace": "kube-system"})

    def create_management_kubeconfig(self) -> Path:
        """A kubeconfig of the management cluster, for a user who may do there what the provider does."""
        user = "trellis-nodes-of-workload"
        self._grant(user, {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user})
        return self._management.kubeconfig_for_user(user)

    def _grant(self, user: str, subject: Json) -> None:
        api, kind = self._management.api, "rbac.authorization.k8s.io"
        meta = {"name": "trellis-nodes-cluster-api"}
        role = {"apiVersion": f"{kind}/v1", "kind": "ClusterRole", "metadata": meta, "rules": RIGHTS}
        api.apply(role)
        api.apply(
            {
                "apiVersion": f"{kind}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": meta["name"]},
                "subjects": [subject],
            }
        )
        wait_until_granted(api, user, [role])

    def machines(self, name: str = "") -> dict[str, Json]:
        """The Machines of a group by name."""
        return self.cluster_api.machines(name or self.group)

    def deployment(self, name: str = "") -> Json:
        """The MachineDeployment of a group."""
        return self._management.api.get(self.cluster_api.path("machinedeployments", name or self.group))

    def fail(self, name: str = "") -> None:
        """Machines that are made from now on never boot."""
        self._boot_in(name or self.group, NEVER_SECONDS)

    def _boot_in(self, name: str, seconds: float) -> None:
        path = self.cluster_api.path("kwokmachinetemplates", name, f"infrastructure.{GROUP}", "v1")
        self._management.api.patch(path, {"spec": {"template": {"spec": {"bootSeconds": seconds}}}})

    def hold(self, machine: str) -> None:
        """Block the drain of a Machine."""
        self._management.api.annotate(self.cluster_api.path("machines", machine), {HOLD: "test"})

    def let_go(self, machine: str) -> None:
        """End what blocks the drain of a Machine."""
        self._management.api.annotate(self.cluster_api.path("machines", machine), {HOLD: None})

    def kill(self) -> None:
        """End Cluster API's manager by kill -9."""
        self.cluster_api.kill()

    def restart(self) -> None:
        """Start Cluster API's manager again."""
        self.cluster_api.start()

    def close(self) -> None:
        """Remove the Nodes; their Machines end with the namespace."""
        self.cluster_api.kill()
        super().close()


@contextmanager
def cluster_api_groups(
    cluster: Cluster, namespace: str, directory: Path, management: Cluster | None = None
) -> Iterator[ClusterApiGroups]:
    """Run Cluster API for the groups of a namespace; in another cluster, if there is a management cluster."""
    with running(management or cluster, directory / "cluster-api.log", cluster) as cluster_api:
        groups = ClusterApiGroups(cluster_api, namespace)
        try:
            yield groups
        finally:
            groups.close()
