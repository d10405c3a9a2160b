"""What the kernel enforces for a pod or a container on a real node, read from the files of its cgroups."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from testbed.client import Json
from testbed.node import cgroups

# Version 1 writes "no limit" as the largest multiple of a page.
_UNLIMITED_BYTES: Final = 2**62
_SHARES_PER_CORE: Final = 1024

# Between shares, of 2 to 262144, and weights, of 1 to 10000, as kubelet converts them, and runc before 1.3.2.
_LEAST_SHARES: Final = 2
_SHARES_RANGE: Final = 262142
_WEIGHTS_RANGE: Final = 9999


class KernelResources(msgspec.Struct, frozen=True):
    """The resources of a cgroup: CPU in millicores, memory in bytes; None where there is no limit.

    `cpu_request` is what the weight of the cgroup stands for. On version 2 that is a range of 26m: all requests in it
    are the same there, also those that a test expects, and are given by the least of them.
    """

    cpu_request: int
    cpu_limit: int | None
    memory_limit: int | None

    def __post_init__(self) -> None:
        if cgroups.is_version_2():
            least = _find_least_request(_compute_weight(self.cpu_request))
            msgspec.structs.force_setattr(self, "cpu_request", least)


class CpuStatistics(msgspec.Struct, frozen=True):
    """Periods in which a cgroup could run, those in which its limit stopped it, and seconds of CPU that it used."""

    periods: int
    throttled_periods: int
    used_seconds: float


class KernelProcess(msgspec.Struct, frozen=True):
    """A process of a container."""

    pid: int

    def read_status(self) -> dict[str, str]:
        """Who it runs as, and what it may do."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def read_root_options(self) -> list[str]:
        """The options with which its root file system is mounted."""
        mounts = [line.split() for line in Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()]
        [options] = [fields[5] for fields in mounts if fields[4] == "/"]
        return options.split(",")


class Pressure(msgspec.Struct, frozen=True):
    """Seconds in which at least one task, and in which all of them, waited for a resource (PSI)."""

    some_seconds: float
    full_seconds: float


class PodCgroup:
    """The cgroup of a pod, or of one of its containers."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read_resources(self) -> KernelResources:
        """What is in force now."""
        if cgroups.is_version_2():
            quota, period = self._read("cpu", "cpu.max").split()
            request = _find_least_request(int(self._read("cpu", "cpu.weight")))
            limit = self._read("memory", "memory.max")
            memory = None if limit == "max" else int(limit)
            return KernelResources(request, _convert_quota(quota, period), memory)
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

    def list_processes(self) -> list[KernelProcess]:
        """Those that run in it, not in the cgroups below."""
        return [KernelProcess(int(line)) for line in self._read("memory", "cgroup.procs").split()]

    def read_pressure(self, resource: Literal["cpu", "memory", "io"]) -> Pressure:
        """How long its tasks have waited. On version 1 the twin that runc makes in `unified` has this."""
        hierarchy = cgroups.ROOT if cgroups.is_version_2() else cgroups.ROOT / "unified"
        lines = (hierarchy / self.path / f"{resource}.pressure").read_text().splitlines()
        totals = {line.split()[0]: int(line.rpartition("total=")[2]) / 1e6 for line in lines}
        return Pressure(totals["some"], totals["full"])

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
    """The inverse of kubelet's conversion, which rounds down."""
    return -(-shares * 1000 // _SHARES_PER_CORE)


def _compute_weight(millicores: int) -> int:
    shares = max(millicores * _SHARES_PER_CORE // 1000, _LEAST_SHARES)
    return 1 + (shares - _LEAST_SHARES) * _WEIGHTS_RANGE // _SHARES_RANGE


def _find_least_request(weight: int) -> int:
    """The least request, in millicores, that has this weight."""
    millicores = (weight - 1) * _SHARES_RANGE * 1000 // (_WEIGHTS_RANGE * _SHARES_PER_CORE)
    while _compute_weight(millicores) < weight:
        millicores += 1
    return millicores


def _convert_quota(quota: str, period: str) -> int | None:
    return None if quota in {"max", "-1"} else round(int(quota) * 1000 / int(period))
