"""Starts of pods as the kernel has them: what a container used, was limited to, and how often it was throttled."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.node.kernel import CpuStatistics, PodCgroup
from testbed.node.real_node import RealNode
from testbed.waiting import TIMEOUT_SECONDS

_PAUSE_SECONDS = 0.02


class Sample(msgspec.Struct, frozen=True):
    """What the kernel had of the only container of a pod at a moment, and whether its pod was Ready by the API."""

    at: float
    cpu_limit: int | None
    cpu: CpuStatistics
    ready: bool


class PodStart(msgspec.Struct, frozen=True):
    """The samples of a pod from the first one of its container on."""

    samples: list[Sample]

    @property
    def begun_at(self) -> float:
        return self.samples[0].at

    @property
    def ready_at(self) -> float:
        """When the API was first seen to call it Ready."""
        return next(sample.at for sample in self.samples if sample.ready)

    @property
    def seconds_to_ready(self) -> float:
        return self.ready_at - self.begun_at

    @property
    def limits_until_ready(self) -> set[int | None]:
        """The CPU limits that the kernel had while the pod was not Ready."""
        return {sample.cpu_limit for sample in self.samples if sample.at < self.ready_at}

    @property
    def cpu_when_ready(self) -> CpuStatistics:
        return next(sample.cpu for sample in self.samples if sample.ready)


def watch_starts(
    cluster: Cluster,
    node: RealNode,
    namespace: str,
    apps: Collection[str],
    is_over: Callable[[Mapping[str, PodStart]], bool],
) -> dict[str, PodStart]:
    """Sample the pods of these apps, which have one each, in one loop until the starts that have begun are over.

    The kernel is asked before the API: a limit that is seen with the first Ready was there before it.
    """
    starts: dict[str, PodStart] = {}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    cgroups: dict[str, PodCgroup] = {}
    pods: list[Json] = []
    while not is_over(starts):
        assert time.monotonic() < deadline, f"starts that are not over: {starts}"
        before = {app: (time.monotonic(), *read) for app, pod in _by_app(pods) if (read := _read(node, pod, cgroups))}
        pods = [pod for app in apps for pod in cluster.list_pods(namespace, app)]
        for app, pod in _by_app(pods):
            if app in before:
                sample = Sample(*before[app], ready=is_ready(pod))
                starts.setdefault(app, PodStart([])).samples.append(sample)
        time.sleep(_PAUSE_SECONDS)
    return starts


def find_container_cgroups(node: RealNode, pod: Json) -> list[PodCgroup]:
    """The cgroups of the containers with a CPU limit, also before the API knows that they have been started."""
    return [cgroup for cgroup in node.get_pod_cgroup(pod).list_children() if _has_cpu_limit(cgroup)]


def _has_cpu_limit(cgroup: PodCgroup) -> bool:
    try:
        return cgroup.read_resources().cpu_limit is not None
    except FileNotFoundError:  # it is being made, or removed
        return False


def read_container_times(pod: Json, container: str = "app") -> dict[str, float]:
    """The moments that a container wrote to its log, as `<name> <seconds since the machine started> ...`."""
    metadata = pod["metadata"]
    directory = Path("/var/log/pods") / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container
    # A line has the time of the runtime, the stream, a flag and the text.
    lines = [line.split(" ", 3)[3].split() for line in (directory / "0.log").read_text().splitlines()]
    return {name: float(seconds) for name, seconds, *_ in lines}


def _by_app(pods: list[Json]) -> list[tuple[str, Json]]:
    return [(pod["metadata"]["labels"]["app"], pod) for pod in pods]


def _read(node: RealNode, pod: Json, cgroups: dict[str, PodCgroup]) -> tuple[int | None, CpuStatistics] | None:
    """The limit and the statistics of its container; None before it is there."""
    uid = pod["metadata"]["uid"]
    if uid not in cgroups:
        found = find_container_cgroups(node, pod)
        if not found:
            return None
        [cgroups[uid]] = found
    return cgroups[uid].read_resources().cpu_limit, cgroups[uid].read_cpu_statistics()
