"""Boosted pods on a real node: created while the webhook runs, probed by the kubelet, compared with plain ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from support.cluster.admission import admission_controllers, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.vpas import vpa
from support.node.pods import create_deployment
from support.node.starts import PodStart, read_container_times, watch_starts
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.waiting import until

GATES = "/gates"

# How often starts are compared at most.
_ATTEMPTS = 3

_numbers = count()


class Comparison(msgspec.Struct, frozen=True):
    """A boosted and a plain start side by side; `work` is the seconds of each, as the containers wrote them."""

    boosted: PodStart
    plain: PodStart
    boosted_work: float
    plain_work: float
    pods: list[Json]

    @property
    def unboost_seconds(self) -> float:
        """From the first Ready of the API to the kernel's return to the CPU limit of the plain one."""
        limit = self.plain.samples[-1].cpu_limit
        return next(sample.at for sample in self.boosted.samples if sample.cpu_limit == limit) - self.boosted.ready_at

    @property
    def was_limited(self) -> bool:
        """Whether it was its limit that held up the boosted start, and not a machine with too much to do."""
        cpu = self.boosted.cpu_when_ready
        return cpu.throttled_periods >= cpu.periods / 3

    def describe(self) -> str:
        lines = [
            f"{name}: {work:.2f} s of work, {start.seconds_to_ready:.2f} s to Ready, {start.cpu_when_ready}"
            for name, work, start in (
                ("boosted", self.boosted_work, self.boosted),
                ("plain", self.plain_work, self.plain),
            )
        ]
        return "\n".join([*lines, f"unboosted in the kernel {self.unboost_seconds:.3f} s after Ready"])


def build_boost(name: str, mode: str = "Off", **boost: Any) -> Json:
    """A VPA that triples the CPU of the pods of its Deployment until they are Ready."""
    cpu = {"type": "Factor", "factor": 3, **boost}
    return vpa(name, updatePolicy={"updateMode": mode}, startupBoost={"cpu": cpu})


def compare_starts(cluster: Cluster, node: RealNode, namespace: str, directory: Path, spec: Json) -> Comparison:
    """Start a pod of this spec with a boost and one without; an updater must be running.

    A start that the machine held up says nothing of limits, and is measured again.
    """
    for _ in range(_ATTEMPTS):
        result = _compare_once(cluster, node, namespace, directory, spec)
        sys.stdout.write(f"{result.describe()}\n")
        if result.was_limited:
            break
    return result


def _compare_once(cluster: Cluster, node: RealNode, namespace: str, directory: Path, spec: Json) -> Comparison:
    number = next(_numbers)
    boosted, plain = f"boosted-{number}", f"plain-{number}"
    cluster.api.create(build_boost(boosted, durationSeconds=0), namespace)
    pods = create_while_admission_runs(cluster, namespace, directory, {boosted: spec, plain: spec})
    starts = watch_starts(cluster, node, namespace, pods, _are_over)
    times = {name: read_container_times(pod) for name, pod in pods.items()}
    work = {name: moments["done"] - moments["begun"] for name, moments in times.items()}
    return Comparison(starts[boosted], starts[plain], work[boosted], work[plain], [pods[boosted], pods[plain]])


def _are_over(starts: Mapping[str, PodStart]) -> bool:
    """Both have been Ready for a second, and have the same CPU limit by now."""
    last = [start.samples[-1] for start in starts.values()]
    settled = all(sample.ready for sample in last) and all(
        start.samples[-1].at >= start.ready_at + 1.0 for start in starts.values()
    )
    return len(last) == 2 and settled and last[0].cpu_limit == last[1].cpu_limit


def create_while_admission_runs(
    cluster: Cluster, namespace: str, directory: Path, specs: Mapping[str, Json]
) -> dict[str, Json]:
    """Deployments of one pod each, by name; their pods as the API server created them.

    The webhook goes by all VPAs that are there, and ends when every pod has been created.
    """

    def find_pods() -> dict[str, Json] | None:
        pods = {name: pod for name in specs for pod in cluster.list_pods(namespace, name)}
        return pods if pods.keys() == specs.keys() else None

    with admission_controllers(cluster, directory) as start:
        start(namespace)
        wait_for_webhook_calls(cluster, namespace)
        wait_for_current_advice(cluster, namespace)
        for name, spec in specs.items():
            create_deployment(cluster, namespace, name, spec)
        return until("the pods to be created", find_pods)


def build_probe(*command: str, **fields: Any) -> Json:
    """A probe every second. A busy machine may be slow to run the command, which is no failure."""
    return {"exec": {"command": list(command)}, "periodSeconds": 1, "timeoutSeconds": 30, **fields}


def build_file_probe(path: str, **fields: Any) -> Json:
    """A probe that succeeds once the container has made this file."""
    return build_probe("test", "-e", path, **fields)


def build_gate_probe(name: str) -> Json:
    """A probe that succeeds once the test has opened the gate of this name."""
    return build_file_probe(f"{GATES}/{name}")


def mount_gates(directory: Path) -> tuple[Json, Json]:
    """The volume of a pod and the mount of a container by which both see the gates, files in this directory."""
    return {"name": "gates", "hostPath": {"path": str(directory)}}, {"name": "gates", "mountPath": GATES}
