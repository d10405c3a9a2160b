"""What the kernel enforces is read alike from cgroups of version 1 and of version 2."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from testbed.client import Json
from testbed.node import cgroups
from testbed.node.kernel import (
    CpuStatistics,
    KernelResources,
    PodCgroup,
    Pressure,
    find_container_cgroup,
    find_pod_cgroup,
)

MIB = 2**20
POD = "node/kubepods/burstable/pod1"

PRESSURE = (
    "some avg10=58.45 avg60=15.13 avg300=3.37 total=10328780\nfull avg10=0.06 avg60=0.02 avg300=0.00 total=30342\n"
)

# A pod with 250m, a limit of 500m and 96Mi, as kubelet 1.36.3 and runc write it on this version, and on a kernel of
# version 2 by the format that the kernel documents.
VERSION_1 = {
    "cpu/cpu.shares": "256\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "cpu/cpu.stat": "nr_periods 120\nnr_throttled 30\nthrottled_time 1500000000\n",
    "unified/cpu.pressure": PRESSURE,
    "cpuacct/cpuacct.usage": "6500000000\n",
    "memory/memory.limit_in_bytes": "100663296\n",
    "memory/memory.usage_in_bytes": "4096000\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}
VERSION_2 = {
    "cpu.pressure": PRESSURE,
    "cpu.weight": "10\n",
    "cpu.max": "50000 100000\n",
    "cpu.stat": "usage_usec 6500000\nuser_usec 6000000\nsystem_usec 500000\ncore_sched.force_idle_usec 0\n"
    "nr_periods 120\nnr_throttled 30\nthrottled_usec 1500000\nnr_bursts 0\nburst_usec 0\n",
    "memory.max": "100663296\n",
    "memory.current": "4096000\n",
    "memory.events": "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\noom_group_kill 0\n",
}


@pytest.fixture(params=[1, 2])
def pod(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PodCgroup:
    """The cgroup of the pod on each version."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    if request.param == 1:
        write_files(tmp_path, {f"{file.replace('/', f'/{POD}/')}": text for file, text in VERSION_1.items()})
    else:
        (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        write_files(tmp_path / POD, VERSION_2)
    return PodCgroup(POD)


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def test_requests_and_limits_are_read(pod: PodCgroup) -> None:
    assert pod.read_resources() == KernelResources(250, 500, 96 * MIB)
    assert pod.read_resources() != KernelResources(200, 500, 96 * MIB)


def test_throttling_and_usage_are_read(pod: PodCgroup) -> None:
    assert pod.read_cpu_statistics() == CpuStatistics(periods=120, throttled_periods=30, used_seconds=6.5)
    assert pod.read_memory_usage() == 4096000


def test_pressure_is_read(pod: PodCgroup) -> None:
    assert pod.read_pressure("cpu") == Pressure(some_seconds=10.32878, full_seconds=0.030342)


def test_kills_for_lack_of_memory_are_counted(pod: PodCgroup) -> None:
    assert pod.count_oom_kills() == 2


def test_existence_is_that_of_the_directory(pod: PodCgroup) -> None:
    assert pod.exists()
    assert not PodCgroup(f"{POD}/none").exists()


def test_no_limits_are_read_on_version_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    unlimited = {"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "9223372036854771712"}
    files = VERSION_1 | unlimited
    write_files(tmp_path, {f"{file.replace('/', '/pod/')}": text for file, text in files.items()})
    assert PodCgroup("pod").read_resources() == KernelResources(250, None, None)


def test_no_limits_are_read_on_version_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    write_files(tmp_path / "pod", VERSION_2 | {"cpu.max": "max 100000", "memory.max": "max"})
    assert PodCgroup("pod").read_resources() == KernelResources(250, None, None)


@pytest.mark.parametrize(
    ("request_", "weight"),
    # As kubelet 1.36.3 converts them: 1 + (shares - 2) * 9999 / 262142, rounded down.
    [(2, 1), (10, 1), (100, 4), (250, 10), (1000, 39), (2000, 79), (4000, 157), (256000, 10000)],
)
def test_requests_of_one_weight_are_the_same_on_version_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request_: int, weight: int
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    write_files(tmp_path / "pod", VERSION_2 | {"cpu.weight": f"{weight}\n"})
    read = PodCgroup("pod").read_resources()
    assert read == KernelResources(request_, 500, 96 * MIB)
    assert read != KernelResources(request_ + 27, 500, 96 * MIB)


def test_the_cgroups_of_pods_follow_from_their_objects() -> None:
    pod: Json = {"metadata": {"uid": "1"}, "status": {"qosClass": "Guaranteed"}}
    assert find_pod_cgroup("a/node", pod).path == "a/node/kubepods/pod1"
    pod["status"] = {"qosClass": "Burstable", "containerStatuses": [{"name": "app", "containerID": "containerd://7"}]}
    assert find_pod_cgroup("node", pod).path == POD
    assert find_container_cgroup("node", pod, "app").path == f"{POD}/7"
