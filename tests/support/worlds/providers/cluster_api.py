"""Cluster API in memory: its objects behind a small API server, and its controllers, which run when a test says so.

The controllers keep to what Cluster API 1.14 does: a Machine counts as a replica until it is gone; of too many, those
that are being deleted go first, then those that are named, then those that are no nodes, and then the oldest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from support.api_server.server import ModelServer
from trellis.api.cluster_api.machines import ClusterApiMachine, InfrastructureTemplate, MachineCluster, ScalableMachines
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.base.times import format_micro_time
from trellis.core.nodes.node_groups import GroupState
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.providers.cluster_api.objects import ClusterApiObjects, GroupScope, TemplateKey
from trellis.providers.cluster_api.plugin import TEMPLATE_UNREADABLE
from trellis.providers.cluster_api.provider import ClusterApiProvider
from trellis.providers.protocol import Steps

GROUP = "cluster.x-k8s.io"
ROOT = f"/apis/{GROUP}/v1beta2/namespaces/fleet"
NODES = "/api/v1/nodes"
MIN_SIZE, MAX_SIZE = (f"{GROUP}/cluster-api-autoscaler-node-group-{limit}-size" for limit in ("min", "max"))
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
DELETE = f"{GROUP}/delete-machine"
REVISION = "machinedeployment.clusters.x-k8s.io/revision"
NOW = 1_790_000_000.0
BOOT = 180.0
LIMITS = {MIN_SIZE: "0", MAX_SIZE: "10"}
SIZE = {f"{CAPACITY}cpu": "4", f"{CAPACITY}memory": "16Gi"}
DEPLOYMENT = "MachineDeployment/fleet/pool"
VERSION = "v1.36.3"

Document = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class ClusterApiWorld:
    """A `ProviderEnvironment` for the provider clusterapi, with one MachineDeployment `pool` unless `empty`.

    What a writer did is in `outcomes`. `held` are Machines whose drain is blocked. `wrong` are Machines that were
    deleted although they were not released, `served` those that were ever deleted.
    """

    hanging_group = ""
    broken_group = ""

    def __init__(self, *, empty: bool = False, scope: GroupScope = GroupScope(), **deployment: Any) -> None:  # noqa: B008 - frozen
        self.server = ModelServer()
        self.now = NOW
        self.scope = scope
        self.outcomes: list[WriteOutcome] = []
        self.held: set[str] = set()
        self.wrong: list[str] = []
        self.templates: dict[TemplateKey, InfrastructureTemplate] = {}
        self.template_reads: list[TemplateKey] = []
        self._made = 0
        # What a provider reads instead of the present state.
        self.snapshot: ClusterApiObjects | None = None
        self.put("clusters", "bed")
        if not empty:
            self.add_deployment(**deployment)
        self.provider: ClusterApiProvider = self.restarted_provider()

    def restarted_provider(self) -> ClusterApiProvider:
        return ClusterApiProvider(self._read, self._read_template, self.scope)

    async def _read(self) -> ClusterApiObjects:
        return self.snapshot if self.snapshot is not None else self.objects()

    async def _read_template(self, key: TemplateKey, _now: float) -> InfrastructureTemplate | DetailedReason:
        self.template_reads.append(key)
        return self.templates.get(key) or DetailedReason(TEMPLATE_UNREADABLE, "not found")

    # Objects

    def put(self, plural: str, name: str, spec: Document | None = None, **metadata: Any) -> Document:
        return self.server.put(
            f"{ROOT}/{plural}/{name}", {"metadata": {"generation": 1, **metadata}, "spec": spec or {}, "status": {}}
        )

    def add_deployment(
        self,
        name: str = "pool",
        *,
        replicas: int | None = 0,
        own: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        machine: Mapping[str, Any] | None = None,
        machine_labels: Mapping[str, str] | None = None,
        cluster: str = "bed",
        strategy: str = "RollingUpdate",
    ) -> None:
        spec: Document = {
            "clusterName": cluster,
            "strategy": strategy,
            "template": {
                "metadata": {"labels": dict(machine_labels or {})},
                "spec": {"version": VERSION, **(machine or {})},
            },
        }
        if replicas is not None:
            spec["replicas"] = replicas
        self.put(
            "machinedeployments",
            name,
            spec,
            annotations={**LIMITS, **SIZE} if own is None else dict(own),
            labels=dict(labels or {}),
        )
        self.reconcile()

    def add_set(self, name: str = "loose", replicas: int = 0) -> None:
        spec = {"replicas": replicas, "clusterName": "bed", "template": {"spec": {"version": VERSION}}}
        self.put("machinesets", name, spec, annotations={**LIMITS, **SIZE})
        self.reconcile()

    def documents(self, plural: str) -> dict[str, Document]:
        base = NODES if plural == "nodes" else f"{ROOT}/{plural}"
        found = self.server.objects.items()
        return {path.removeprefix(f"{base}/"): document for path, document in found if path.startswith(f"{base}/")}

    def change(self, plural: str, name: str, **fields: Any) -> None:
        """Merge into parts of an object, as another client does: `metadata`, `spec`, `status`."""
        path = f"{NODES}/{name}" if plural == "nodes" else f"{ROOT}/{plural}/{name}"
        old = self.server.objects[path]
        new = {**old, **{part: _merge(old.get(part, {}), values) for part, values in fields.items()}}
        if "spec" in fields and new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if new != old:
            self.server.put(path, new)

    def annotate(self, plural: str, name: str, **values: str | None) -> None:
        self.change(plural, name, metadata={"annotations": values})

    def objects(self) -> ClusterApiObjects:
        return ClusterApiObjects(
            self._read_all("clusters", MachineCluster),
            self._read_all("machinedeployments", ScalableMachines),
            self._read_all("machinesets", ScalableMachines),
            self._read_all("machinepools", ScalableMachines),
            self._read_all("machines", ClusterApiMachine),
            self._read_all("nodes", Node),
        )

    def _read_all(self, plural: str, kind: type[T]) -> tuple[T, ...]:
        return tuple(convert_object(document, kind) for document in self.documents(plural).values())

    def machines(self, *, live: bool = False) -> list[str]:
        found = self.documents("machines").items()
        return sorted(name for name, machine in found if not live or "deletionTimestamp" not in machine["metadata"])

    def replicas(self, name: str = "pool", plural: str = "machinedeployments") -> int:
        replicas: int = self.documents(plural)[name]["spec"]["replicas"]
        return replicas

    # The controllers of Cluster API

    def reconcile(self) -> None:
        """Run all controllers once."""
        for name, deployment in self.documents("machinedeployments").items():
            if not self._is_paused(deployment):
                self._reconcile_deployment(name, deployment)
        for name, machine_set in self.documents("machinesets").items():
            if not self._is_paused(machine_set):
                self._reconcile_set(name, machine_set)

    def _is_paused(self, document: Document) -> bool:
        cluster = self.documents("clusters")["bed"]
        return cluster["spec"].get("paused") or any(
            f"{GROUP}/paused" in written["metadata"].get("annotations", {}) for written in (cluster, document)
        )

    def _reconcile_deployment(self, name: str, deployment: Document) -> None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        if spec.get("replicas") is None:
            return
        template = spec["template"]
        owned = {
            own: document
            for own, document in self.documents("machinesets").items()
            if any(owner["uid"] == metadata["uid"] for owner in document["metadata"].get("ownerReferences", ()))
        }
        newest = next((own for own, document in owned.items() if document["spec"]["template"] == template), None)
        if newest is None:
            newest, revision = f"{name}-{len(owned) + 1}", str(len(owned) + 1)
            made = {"replicas": 0 if owned else spec["replicas"], "clusterName": "bed", "template": template}
            self.put(
                "machinesets",
                newest,
                made,
                annotations={**metadata.get("annotations", {}), REVISION: revision},
                ownerReferences=[_controller("MachineDeployment", metadata)],
            )
            self.annotate("machinedeployments", name, **{REVISION: revision})
        others = [own for own in owned if own != newest]
        old = [machine for own in others for machine in self._machines_of(own)]
        if old and spec.get("strategy") == "RollingUpdate":
            self._roll(newest, others, spec["replicas"])
        elif not old:
            self.change("machinesets", newest, spec={"replicas": spec["replicas"]})
        generation = self.documents("machinedeployments")[name]["metadata"]["generation"]
        rolling = [{"type": "RollingOut", "status": "True" if old else "False"}]
        self.change("machinedeployments", name, status={"observedGeneration": generation, "conditions": rolling})

    def _roll(self, newest: str, others: Sequence[str], replicas: int) -> None:
        """One Machine more than wanted, and one old one less for each new one that is a node."""
        total = sum(self.replicas(own, "machinesets") for own in (newest, *others))
        if total <= replicas:
            self.change("machinesets", newest, spec={"replicas": self.replicas(newest, "machinesets") + 1})
        new_nodes = sum("nodeRef" in machine["status"] for machine in self._machines_of(newest).values())
        for own in others:
            allowed = max(0, replicas - new_nodes)
            self.change("machinesets", own, spec={"replicas": min(self.replicas(own, "machinesets"), allowed)})

    def _reconcile_set(self, name: str, machine_set: Document) -> None:
        machines = self._machines_of(name)
        excess = len(machines) - machine_set["spec"]["replicas"]
        for _ in range(-excess):
            self._make_machine(name, machine_set)
        for victim in sorted(machines, key=lambda own: _victim_order(machines[own]))[: max(0, excess)]:
            self.delete_machine(victim, by_controller=True)
        generation = self.documents("machinesets")[name]["metadata"]["generation"]
        self.change("machinesets", name, status={"observedGeneration": generation})

    def _machines_of(self, name: str) -> dict[str, Document]:
        uid = self.documents("machinesets")[name]["metadata"]["uid"]
        found = self.documents("machines").items()
        return {own: machine for own, machine in found if machine["metadata"]["ownerReferences"][0]["uid"] == uid}

    def _make_machine(self, owner: str, machine_set: Document) -> None:
        self._made += 1
        self.put(
            "machines",
            f"{owner}-m{self._made:03}",
            dict(machine_set["spec"]["template"]["spec"]),
            creationTimestamp=_time(self.now),
            ownerReferences=[_controller("MachineSet", machine_set["metadata"])],
        )

    def delete_machine(self, name: str, *, by_controller: bool = False) -> None:
        """Begin to delete a Machine, as a user or as its MachineSet."""
        metadata = self.documents("machines")[name]["metadata"]
        if "deletionTimestamp" in metadata:
            return
        if by_controller and "nodes.trellis.x-k8s.io/released" not in metadata.get("annotations", {}):
            self.wrong.append(name)
        self.change("machines", name, metadata={"deletionTimestamp": _time(self.now)})

    def end_deletions(self) -> None:
        """Machines whose drain is not blocked go, with their Nodes."""
        for name, machine in self.documents("machines").items():
            if "deletionTimestamp" in machine["metadata"] and name not in self.held:
                self.server.delete(f"{ROOT}/machines/{name}")
                if f"{NODES}/{name}" in self.server.objects:
                    self.server.delete(f"{NODES}/{name}")

    def boot(self) -> None:
        """Machines that are old enough become nodes."""
        for name, machine in self.documents("machines").items():
            metadata, status = machine["metadata"], machine["status"]
            created = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
            if "deletionTimestamp" in metadata or "nodeRef" in status or "phase" in status or self.now < created + BOOT:
                continue
            owner = next(
                own
                for own in self.documents("machinesets").values()
                if own["metadata"]["uid"] == metadata["ownerReferences"][0]["uid"]
            )
            self.add_node(name, owner["spec"]["template"])
            self.change("machines", name, spec={"providerID": f"testbed://{name}"}, status={"nodeRef": {"name": name}})

    def add_node(self, name: str, template: Document | None = None) -> None:
        amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        found = template or {}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
        document = {
            "metadata": {
                "creationTimestamp": _time(self.now),
                "labels": {**labels, **found.get("metadata", {}).get("labels", {})},
            },
            "spec": {"providerID": f"testbed://{name}", "taints": found.get("spec", {}).get("taints", [])},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": VERSION},
            },
        }
        self.server.put(f"{NODES}/{name}", document)

    # The environment of a provider

    async def execute(self, steps: Steps) -> None:
        """Write, and let Cluster API take it over."""
        await self.write(steps)
        self.settle()

    async def write(self, steps: Steps) -> bool:
        """Write as the autoscaler does; whether all was applied."""
        writer = Writer(self.server.client, record=self.outcomes.append)
        for step in steps:
            written = await writer.write_all(step)
            self._count_generations()
            if not all(outcome.applied for outcome in written):
                return False
        return True

    def _count_generations(self) -> None:
        """The API server counts changes of a spec; the model of one does not."""
        for plural in ("machinedeployments", "machinesets"):
            for document in self.documents(plural).values():
                seen = document["metadata"].setdefault("seen", None)
                spec = msgspec.json.encode(document["spec"]).decode()
                if seen is not None and seen != spec:
                    document["metadata"]["generation"] += 1
                document["metadata"]["seen"] = spec

    def settle(self) -> None:
        """Run the controllers until nothing changes, but for what takes time."""
        for _ in range(100):
            before = self.server.version
            self.reconcile()
            if self.server.version == before:
                return
        raise AssertionError("the controllers do not come to rest")

    async def wait(self, seconds: float) -> None:
        """Time passes: nodes join and leave, and the autoscaler makes its passes."""
        self.now += seconds
        for _ in range(6):
            self.boot()
            self.end_deletions()
            self.settle()
            await self.tend()

    async def list_nodes(self) -> Sequence[Node]:
        return self._read_all("nodes", Node)

    async def state(self, name: str = DEPLOYMENT) -> GroupState:
        return next(state for state in (await self.provider.groups(self.now)).states if state.group.name == name)

    async def instances(self, name: str = DEPLOYMENT) -> dict[str, str]:
        """The state of each instance by the name of its Machine."""
        found = (await self.state(name)).instances
        return {instance.id.removeprefix("fleet/"): str(instance.state) for instance in found}

    async def order(self, target: int, name: str = DEPLOYMENT) -> None:
        """Order and carry out. What is refused fails the test."""
        ordered = await self.provider.order(name, target, self.now)
        assert ordered.error is None, ordered.error
        await self.execute(ordered.steps)

    async def release(self, *machines: str, name: str = DEPLOYMENT) -> Mapping[str, DetailedReason]:
        """Release Machines by name; what was refused."""
        released = await self.provider.release(name, [f"fleet/{machine}" for machine in machines], self.now)
        await self.execute(released.steps)
        return released.refused

    async def tend(self) -> bool:
        """One turn of tending; whether there was anything to do."""
        tended = await self.provider.tend(self.now)
        await self.execute(tended.steps)
        return bool(tended.steps)

    async def bring_up(self, target: int, name: str = DEPLOYMENT) -> list[str]:
        """Order Machines and let them become nodes; all Machines."""
        await self.order(target, name)
        await self.wait(BOOT)
        return self.machines()


def _controller(kind: str, metadata: Document) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _victim_order(machine: Document) -> tuple[int, str]:
    metadata = machine["metadata"]
    if "deletionTimestamp" in metadata:
        return 0, metadata["name"]
    if DELETE in metadata.get("annotations", {}):
        return 1, metadata["name"]
    return (2 if "nodeRef" not in machine["status"] else 3), metadata["name"]


def _merge(old: Any, values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    new = {**(old if isinstance(old, dict) else {})}
    for key, value in values.items():
        merged = _merge(new.get(key), value)
        new.pop(key, None) if merged is None else new.__setitem__(key, merged)
    return new


def _time(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))
