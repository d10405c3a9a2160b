"""Containers that use memory or crash, and what the API server and the kernel say of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from support.cluster.vpas import vpa
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.kernel import PodCgroup
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis.base.quantities import Quantity

MIB: Final = 2**20

# Memory alone is recommended, and never more than so much.
MAX_ALLOWED: Final = "1Gi"
# By default nothing below 250Mi is recommended.
LOW_MINIMUM: Final = "--pod-recommendation-min-memory-mb=10"

# dd reads so much into its buffer, which makes it resident, and then waits for ever to write it into a full pipe.
_HOLD: Final = "dd if=/dev/zero bs={mib}M count=1 >&3"
_PIPE: Final = "mkfifo /tmp/pipe; exec 3<>/tmp/pipe"
_IDLE: Final = "while :; do sleep 0.1; done"

# A volume that outlives restarts of the container, in which it counts its starts.
STATE: Final[Json] = {"name": "state", "emptyDir": {}}
STATE_MOUNT: Final[Json] = {"name": "state", "mountPath": "/state"}
_COUNT_STARTS: Final = "echo >>/state/starts; starts=$(wc -l </state/starts)"


def hold(mib: int) -> tuple[str, ...]:
    """A command that uses so much memory at once."""
    return "sh", "-c", f"{_PIPE}; exec {_HOLD.format(mib=mib)}"


def hold_later(mib: int, starts: int, seconds: int) -> tuple[str, ...]:
    """The same, but so many seconds later after the first starts, for a container with `STATE_MOUNT`."""
    slow = f"[ $starts -le {starts} ] || sleep {seconds}"
    return "sh", "-c", f"{_PIPE}; {_COUNT_STARTS}; {slow}; exec {_HOLD.format(mib=mib)}"


def hold_when_asked(mib: int) -> tuple[str, ...]:
    """A command that uses so much memory from when a test asks for it.

    A child holds the memory. If the kernel kills it, the command ends a second later: so long the kernel's counter of
    the container can be read.
    """
    held = f"{_HOLD.format(mib=mib)} & wait $!; sleep 1; exit 137"
    return "sh", "-c", f"{_PIPE}; trap '{held}' USR1; {_IDLE}"


def leak(mib_per_second: int) -> tuple[str, ...]:
    """A command that uses so much more memory in each second."""
    step = mib_per_second * MIB // 10
    program = f'BEGIN {{ for (;;) {{ leaked[n++] = sprintf("%{step}s", "x"); system("sleep 0.1") }} }}'
    return "awk", program


def crash_first(starts: int) -> tuple[str, ...]:
    """A command that fails at once for so many starts, and then runs, for a container with `STATE_MOUNT`."""
    return "sh", "-c", f"{_COUNT_STARTS}; [ $starts -gt {starts} ] || exit 1; {_IDLE}"


def memory_vpa(name: str, mode: str, max_allowed: str = MAX_ALLOWED, **spec: Any) -> Json:
    """A VPA that recommends memory alone, for a Deployment that may be of one replica."""
    policy = {"containerName": "app", "controlledResources": ["memory"], "maxAllowed": {"memory": max_allowed}}
    update = {"updateMode": mode, "minReplicas": 1}
    return vpa(name, updatePolicy=update, resourcePolicy={"containerPolicies": [policy]}, **spec)


def ask_for_memory(container: PodCgroup) -> None:
    """Have the container of `hold_when_asked` use its memory."""
    first, *_ = container.list_processes()
    until("the command to await a signal", lambda: _catches(first.pid, signal.SIGUSR1))
    os.kill(first.pid, signal.SIGUSR1)


def _catches(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [caught] = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & 1 << (number - 1))


def read_status(pod: Json) -> Json:
    """The status of the only container; empty before there is one."""
    status: Json = next(iter(pod["status"].get("containerStatuses", ())), {})
    return status


def read_state(pod: Json) -> str:
    """`waiting`, `running` or `terminated`; empty before there is a status."""
    return next(iter(read_status(pod).get("state", {})), "")


def count_restarts(pod: Json) -> int:
    return int(read_status(pod).get("restartCount", 0))


def is_running(pod: Json, restarts: int = 0) -> bool:
    """Whether its container runs, after so many restarts at least."""
    return read_state(pod) == "running" and count_restarts(pod) >= restarts


def is_down(pod: Json, restarts: int = 0) -> bool:
    """Whether its container has ended, after so many restarts at least."""
    return read_state(pod) in {"terminated", "waiting"} and count_restarts(pod) >= restarts


def read_memory_limit(pod: Json) -> int:
    """The memory limit in the spec of the only container, in bytes."""
    [container] = pod["spec"]["containers"]
    return Quantity.parse(container["resources"]["limits"]["memory"]).units


def has_limit(kernel: PodCgroup, limit: int) -> bool:
    """Whether the kernel has this memory limit, which it keeps in whole pages."""
    page = os.sysconf("SC_PAGE_SIZE")
    return kernel.read_resources().memory_limit == limit // page * page


def list_ends(versions: Iterable[Json]) -> list[tuple[str, str, str]]:
    """The runs of the container that have ended, over all versions of a pod: start, end and reason."""
    ends = set()
    for version in versions:
        status = read_status(version)
        for state in (status.get("state", {}), status.get("lastState", {})):
            if end := state.get("terminated"):
                ends.add((end["startedAt"], end["finishedAt"], end["reason"]))
    return sorted(ends)


def list_resizes(versions: Iterable[Json]) -> Iterator[Json]:
    """The versions of pods that a resize wrote: its limit is another than before, the status is still the old one."""
    limits: dict[str, int] = {}
    for version in versions:
        uid, limit = version["metadata"]["uid"], read_memory_limit(version)
        if limits.setdefault(uid, limit) != limit:
            limits[uid] = limit
            yield version


def wait_for_only_pod(cluster: Cluster, namespace: str, app: str) -> Json:
    """The pod of a Deployment of one replica, once its container has been started."""

    def find() -> Json | None:
        pods = cluster.list_pods(namespace, app)
        return pods[0] if len(pods) == 1 and "containerID" in read_status(pods[0]) else None

    return until(f"the pod of {app}", find)


def holds_memory(node: RealNode, pod: Json, mib: int) -> bool:
    """Whether the container runs and uses so much memory, by the kernel."""
    try:
        return node.get_container_cgroup(pod, "app").read_memory_usage() >= mib * MIB
    except FileNotFoundError:  # it has ended
        return False
