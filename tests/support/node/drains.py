"""Pods that report how they end, and what kernel and API server show while their node is drained."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from support.node.pods import container
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.kernel import PodCgroup
from testbed.node.real_node import RealNode
from testbed.workloads import deployment

# Each line is a word and the time by the kernel's clock that /proc/uptime shows.
_REPORT: Final = (
    "read pod </proc/sys/kernel/hostname; "
    'report() { read up idle </proc/uptime; echo "$1 $up" >>/reports/$pod; }; '
    "report started; "
)
_SAMPLE_SECONDS: Final = 0.05


def end_in(seconds: int) -> tuple[str, ...]:
    """A command that needs some seconds to end when it gets SIGTERM."""
    trap = f"trap 'report asked; sleep {seconds}; report ended; exit 0' TERM"
    return ("sh", "-c", f"{_REPORT}{trap}; while :; do sleep 0.1; done")


# A command that goes on when it gets SIGTERM.
NEVER_END: Final = ("sh", "-c", f"{_REPORT}trap 'report asked' TERM; while :; do sleep 0.1; report alive; done")


def reporting_deployment(
    name: str, command: Sequence[str], directory: Path, *, grace_seconds: int, replicas: int = 1
) -> Json:
    """A Deployment whose pods write reports into a directory of the machine, and do not keep the node for it."""
    mount = {"name": "reports", "mountPath": "/reports"}
    app = container(command=command, requests={"cpu": "50m", "memory": "32Mi"}, volumeMounts=[mount])
    return deployment(
        name,
        app,
        replicas=replicas,
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "reports"},
        volumes=[{"name": "reports", "hostPath": {"path": str(directory)}}],
        terminationGracePeriodSeconds=grace_seconds,
    )


def read_reports(directory: Path, pod: Json) -> dict[str, float]:
    """When the process of a pod last reported each word."""
    lines = (directory / pod["metadata"]["name"]).read_text().splitlines()
    return {word: float(at) for word, at in map(str.split, lines)}


class Sample(msgspec.Struct, frozen=True):
    """What was there at one time: the node's object, and by UID pods that terminate, have a process, have a cgroup."""

    at: float
    has_node: bool
    terminating: frozenset[str]
    running: frozenset[str]
    in_kernel: frozenset[str]


class DrainWitness:
    """What is observed while a node is drained: versions of nodes and pods, and samples of the kernel."""

    def __init__(self, nodes: list[Json], pods: list[Json], samples: list[Sample]) -> None:
        self.nodes, self.pods, self.samples = nodes, pods, samples

    def get_versions(self, uid: str) -> list[Json]:
        """The versions of a pod."""
        return [pod for pod in self.pods if pod["metadata"]["uid"] == uid]

    def get_eviction(self, uid: str) -> Json:
        """The first version of a pod that terminates."""
        return next(filter(is_terminating, self.get_versions(uid)))

    def get_end(self, uid: str) -> tuple[Json, int]:
        """The first version of a pod whose container has ended, and the exit code."""
        for version in self.get_versions(uid):
            [status] = version["status"].get("containerStatuses") or [{"state": {}}]
            if "terminated" in status["state"]:
                return version, status["state"]["terminated"]["exitCode"]
        raise AssertionError(f"no container of {uid} has ended")

    def print_timeline(self, pods: Sequence[Json]) -> None:
        """Write what changed and when, which pytest shows on request."""
        names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
        for before, sample in pairwise(self.samples):
            seconds = sample.at - self.samples[0].at
            for uid in names.keys() & (sample.terminating - before.terminating):
                sys.stdout.write(f"{seconds:6.2f} s: {names[uid]} is evicted\n")
            for uid in before.running - sample.running:
                asked = next(sample.at for sample in self.samples if uid in sample.terminating)
                sys.stdout.write(f"{seconds:6.2f} s: {names[uid]} has ended, {sample.at - asked:.2f} s later\n")
            for uid in before.in_kernel - sample.in_kernel:
                sys.stdout.write(f"{seconds:6.2f} s: the cgroup of {names[uid]} is gone\n")
            if before.has_node and not sample.has_node:
                sys.stdout.write(f"{seconds:6.2f} s: the node is removed\n")


@contextmanager
def observe_drain(cluster: Cluster, node: RealNode, namespace: str, pods: Sequence[Json]) -> Iterator[DrainWitness]:
    """Observe the node, and these pods on it, until the end of the block."""
    cgroups = {pod["metadata"]["uid"]: node.get_pod_cgroup(pod) for pod in pods}
    samples: list[Sample] = []
    ended = threading.Event()
    with (
        cluster.api.watch("/api/v1/nodes", fieldSelector=f"metadata.name={node.name}") as nodes,
        cluster.api.watch(f"/api/v1/namespaces/{namespace}/pods") as versions,
    ):

        def read() -> Sample:
            # The node first: when it is not there any more, neither may a process be that is read after it.
            has_node = cluster.api.find(f"/api/v1/nodes/{node.name}") is not None
            terminating = {pod["metadata"]["uid"] for pod in versions if is_terminating(pod)}
            running = {uid for uid, cgroup in cgroups.items() if _has_processes(cgroup)}
            in_kernel = {uid for uid, cgroup in cgroups.items() if cgroup.exists()}
            at = time.clock_gettime(time.CLOCK_BOOTTIME)
            return Sample(at, has_node, frozenset(terminating), frozenset(running), frozenset(in_kernel))

        def sample() -> None:
            while not ended.wait(_SAMPLE_SECONDS):
                samples.append(read())

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        try:
            yield DrainWitness(nodes, versions, samples)
        finally:
            ended.set()
            sampler.join()


def _has_processes(cgroup: PodCgroup) -> bool:
    """Whether a container of a pod has a process, the one that holds its namespaces included."""
    for child in cgroup.list_children():
        with suppress(FileNotFoundError):
            if child.list_processes():
                return True
    return False


def get_order(version: Json) -> int:
    """Where a version stands among those of all objects: one counter is behind them all."""
    return int(version["metadata"]["resourceVersion"])


def is_terminating(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]
