"""The infrastructure provider of the testbed: makes a Node that kwok plays of each KwokMachine.

A machine has booted `bootSeconds` after it was created. Then its Node is created, and Cluster API finds it by its
providerID. When a machine goes, Cluster API drains and deletes the Node.
"""

from __future__ import annotations

import http.client
import threading
import time
from datetime import datetime
from typing import Any, Self

from testbed.client import Api, Json
from testbed.cluster_api.definitions import INFRASTRUCTURE
from testbed.errors import Refused
from testbed.kwok.nodes import Node, Taint

FINALIZER = "machines.testbed.trellis/node"
PAUSE_SECONDS = 0.2
# Set by who creates a Node, and taken off by Cluster API once its labels and taints are on it.
UNINITIALIZED = Taint("node.cluster.x-k8s.io/uninitialized", effect="NoSchedule")


class KwokMachines:
    """A thread that takes every machine one step further, again and again. Use it as a context manager.

    Machines are objects of one API server, and their Nodes join another, unless it is the same.
    """

    def __init__(self, api: Api, namespace: str, workload: Api | None = None) -> None:
        self._api = api
        self._workload = workload or api
        self._machines = f"/apis/{INFRASTRUCTURE}/v1/namespaces/{namespace}/kwokmachines"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kwok-machines", daemon=True)
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            try:
                for machine in self._api.list_items(self._machines):
                    self._advance(machine)
            except (Refused, OSError, http.client.HTTPException) as error:
                # Another writer was faster, or the API server is away: the next turn begins anew.
                self.problems.append(repr(error))

    def _advance(self, machine: Json) -> None:
        metadata, spec = machine["metadata"], machine.get("spec", {})
        path = f"{self._machines}/{metadata['name']}"
        finalizers = metadata.get("finalizers", [])
        if "deletionTimestamp" in metadata:
            if FINALIZER in finalizers:
                self._api.patch(path, {"metadata": {"finalizers": [own for own in finalizers if own != FINALIZER]}})
        elif not any(owner["kind"] == "Machine" for owner in metadata.get("ownerReferences", ())):
            return
        elif FINALIZER not in finalizers:
            self._api.patch(path, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        elif "providerID" not in spec and _age(metadata) >= spec.get("bootSeconds", 0):
            self._boot(metadata["name"], spec)
            self._api.patch(path, {"spec": {"providerID": _provider_id(metadata["name"])}})
        elif "providerID" in spec and "initialization" not in machine.get("status", {}):
            self._api.patch(f"{path}/status", {"status": {"initialization": {"provisioned": True}}})

    def _boot(self, name: str, spec: Json) -> None:
        """Create the Node of a machine, unless it was created before."""
        size: dict[str, Any] = {key: spec[key] for key in ("cpu", "memory", "pods", "zone") if key in spec}
        document = Node(name=name, labels=spec.get("labels", {}), taints=(UNINITIALIZED,), **size).build_manifest()
        document["spec"]["providerID"] = _provider_id(name)
        if self._workload.find(f"/api/v1/nodes/{name}") is None:
            self._workload.create(document)


def _provider_id(name: str) -> str:
    # Not kwok://, which other providers take for theirs.
    return f"testbed://{name}"


def _age(metadata: Json) -> float:
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return time.time() - created.timestamp()
