"""What the kernel enforces for a pod or a container on a real node, read from the files of its cgroups."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from testbed.client import Json
from testbed.node import cgroups

# Version 1 writes "no limit" as the largest multiple of a page.
_UNLIMITED_BYTES: Final = 2**62
_SHARES_PER_CORE: Final = 1024


class KernelResources(msgspec.Struct, frozen=True):
    """The resources of a cgroup: CPU in millicores, memory in bytes; None where there is no limit.

    `cpu_request` is what the weight of the cgroup stands for, which version 2 keeps less exactly.
    """

    cpu_request: int
    cpu_limit: int | None
    memory_limit: int | None


class CpuStatistics(msgspec.Struct, frozen=True):
    """Periods in which a cgroup could run, those in which its limit stopped it, and seconds of CPU that it used."""

    periods: int
    throttled_periods: int
    used_seconds: float


class PodCgroup:
    """The cgroup of a pod, or of one of its containers."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read_resources(self) -> KernelResources:
        """What is in force now."""
        if cgroups.is_version_2():
            quota, period = self._read("cpu", "cpu.max").split()
            weight = int(self._read("cpu", "cpu.weight"))
            # The inverse of kubelet's conversion of shares to weights.
            shares = 2 + (weight - 1) * 262142 // 9999
            limit = self._read("memory", "memory.max")
            memory = None if limit == "max" else int(limit)
            return KernelResources(_convert_shares(shares), _convert_quota(quota, period), memory)
        quota, period = self._read("cpu", "cpu.cfs_quota_us"), self._read("cpu", "cpu.cfs_period_us")
        memory_limit = int(self._read("memory", "memory.limit_in_bytes"))
        return KernelResources(
            _convert_shares(int(self._read("cpu", "cpu.shares"))),
            _convert_quota(quota, period),
            memory_limit if memory_limit < _UNLIMITED_BYTES else None,
        )

    def read_cpu_statistics(self) -> CpuStatistics:
        """How often its limit stopped it."""
        statistics = dict(line.split() for line in self._read("cpu", "cpu.stat").splitlines())
        if cgroups.is_version_2():
            used = int(statistics["usage_usec"]) / 1e6
        else:
            used = int(self._read("cpuacct", "cpuacct.usage")) / 1e9
        return CpuStatistics(int(statistics["nr_periods"]), int(statistics["nr_throttled"]), used)

    def count_oom_kills(self) -> int:
        """Processes that the kernel killed for lack of memory."""
        file = "memory.events" if cgroups.is_version_2() else "memory.oom_control"
        return int(dict(line.split() for line in self._read("memory", file).splitlines())["oom_kill"])

    def read_memory_usage(self) -> int:
        """Bytes that are charged to it."""
        file = "memory.current" if cgroups.is_version_2() else "memory.usage_in_bytes"
        return int(self._read("memory", file))

    def list_children(self) -> list[PodCgroup]:
        """The cgroups below it; for a pod, those of its containers and of the one that holds its namespaces."""
        directory = _get_hierarchy("cpu") / self.path
        try:
            return [PodCgroup(f"{self.path}/{child.name}") for child in directory.iterdir() if child.is_dir()]
        except FileNotFoundError:
            return []

    def list_processes(self) -> list[int]:
        """The processes in it, by their numbers in the sandbox."""
        return [int(line) for line in self._read("cpu", "cgroup.procs").split()]

    def exists(self) -> bool:
        """Whether the kernel still has it."""
        return (_get_hierarchy("memory") / self.path).is_dir()

    def _read(self, controller: str, file: str) -> str:
        return (_get_hierarchy(controller) / self.path / file).read_text().strip()


def find_pod_cgroup(subtree: str, pod: Json) -> PodCgroup:
    """The cgroup of a pod, from its API object."""
    service_class = pod["status"].get("qosClass", "BestEffort").lower()
    parent = f"{subtree}/kubepods" if service_class == "guaranteed" else f"{subtree}/kubepods/{service_class}"
    return PodCgroup(f"{parent}/pod{pod['metadata']['uid']}")


def find_container_cgroup(subtree: str, pod: Json, container: str) -> PodCgroup:
    """The cgroup of a container that has been started, from the API object of its pod."""
    statuses = (
        *pod["status"].get("containerStatuses", ()),
        *pod["status"].get("initContainerStatuses", ()),
    )
    [identifier] = [status["containerID"] for status in statuses if status["name"] == container]
    return PodCgroup(f"{find_pod_cgroup(subtree, pod).path}/{identifier.partition('://')[2]}")


def _get_hierarchy(controller: str) -> Path:
    return cgroups.ROOT if cgroups.is_version_2() else cgroups.ROOT / controller


def _convert_shares(shares: int) -> int:
    return round(shares * 1000 / _SHARES_PER_CORE)


def _convert_quota(quota: str, period: str) -> int | None:
    return None if quota in {"max", "-1"} else round(int(quota) * 1000 / int(period))
