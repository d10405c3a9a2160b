"""Measures a burst on 500 kwok nodes with a Buffer: when its pods run, and when the Buffer is provisioned again.

On a control plane of its own, with the real scheduler. Each pod takes most of a node, so that a chunk is a node. First
`trellis nodes` has to order all nodes, for pods and for the Buffer; then as many pods come as there are chunks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.measurement import ROOT, CannotMeasure, Row, within
from testbed.control_plane import FULL, ControlPlane
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.scratch import scratch

if TYPE_CHECKING:
    from support.cluster.nodes import NodeGroups


NODES = 500
CHUNKS = 50
BOOT = 10.0
# After the boot time, until a Buffer that was used up says that it is whole again.
SECONDS = 10.0
CPU = "3"

_PATIENCE = 180.0
_EVERY = 0.2
_BUFFER = "spare"


def measure() -> list[Row]:
    # The node groups and the account are those of the tests.
    sys.path.append(str(ROOT / "tests"))
    from support.cluster.nodes import NodeGroups, node_controllers  # noqa: PLC0415

    parts = FULL - {"metrics-server"}
    try:
        with (
            scratch() as directory,
            TemporaryDirectory() as logs,
            ControlPlane(directory, parts, (), list_definitions()) as plane,
            node_controllers(plane.cluster, Path(logs)) as start,
        ):
            node_groups = NodeGroups(plane.cluster, plane.cluster.create_namespace("burst"))
            node_groups.declare(maxSize=2 * NODES, bootTime=f"{BOOT:g}s", resources={"cpu": "4", "memory": "16Gi"})
            start(node_groups.namespace, "--scan-interval=10s")
            return _measured(node_groups)
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error


def _measured(node_groups: NodeGroups) -> list[Row]:
    pods = NODES - CHUNKS
    began = time.monotonic()
    node_groups.deploy("web", pods, cpu=CPU)
    _add_buffer(node_groups)
    _until("all nodes to be there", lambda: node_groups.is_provisioned(_BUFFER) and len(node_groups.running()) == pods)
    filled = time.monotonic() - began
    before = set(node_groups.nodes())

    began = time.monotonic()
    node_groups.scale("web", NODES)
    _until("the burst to run", lambda: len(node_groups.running()) == NODES)
    ran = time.monotonic() - began
    burst = [pod for pod in node_groups.pods() if pod["spec"]["nodeName"] not in before]
    # The condition is of a pass after the last of them came.
    _until("the Buffer to be used up", lambda: len(node_groups.nodes()) == NODES + CHUNKS)
    _until("the Buffer to be whole", lambda: node_groups.is_provisioned(_BUFFER))
    whole = time.monotonic() - began
    refused = _refused(node_groups)
    size = f"{NODES} kwok nodes, a Buffer of {CHUNKS} chunks"
    return [
        Row(f"{size}: from nothing until all pods run and the Buffer is whole (boot {BOOT:g} s)", f"{filled:.1f} s"),
        Row(f"{size}, {CHUNKS} pods come: until they run", f"{ran:.1f} s"),
        Row(f"{size}, {CHUNKS} pods come: on new nodes", f"{len(burst)}", bar="0", met=not burst),
        Row(f"{size}, {CHUNKS} pods come: refused by the scheduler", f"{refused}", bar="0", met=not refused),
        within(f"{size}, used up: until it is whole again (boot {BOOT:g} s)", whole, BOOT + SECONDS),
    ]


def _add_buffer(node_groups: NodeGroups) -> None:
    from support.cluster.buffers import buffer_path  # noqa: PLC0415
    from support.cluster.nodes import translated  # noqa: PLC0415

    document, status = translated(_BUFFER, CHUNKS, node_groups.pod_spec(CPU))
    node_groups.cluster.api.create(document, node_groups.namespace)
    node_groups.cluster.api.patch(buffer_path(node_groups.namespace, _BUFFER) + "/status", {"status": status})


def _refused(node_groups: NodeGroups) -> int:
    """Pods of the burst of which the scheduler ever said that it has no node; those before it waited for theirs."""
    newest = sorted(node_groups.pods(), key=_created)[-CHUNKS:]
    names = {pod["metadata"]["name"] for pod in newest}
    events: list[dict[str, Any]] = node_groups.cluster.api.list_items(
        f"/api/v1/namespaces/{node_groups.namespace}/events"
    )
    return len({event["involvedObject"]["name"] for event in events if event["reason"] == "FailedScheduling"} & names)


def _created(pod: dict[str, Any]) -> str:
    text: str = pod["metadata"]["creationTimestamp"]
    return text


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise CannotMeasure(f"waited {_PATIENCE:g} s for {what}")
        time.sleep(_EVERY)
