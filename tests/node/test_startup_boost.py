"""Startup boost on a real node: made by the webhook, taken back by the updater, and the kernel's files tell of both."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from measured.jvm_boost import MeasuredStart, Measurement, encode_measurement
from support.cluster.admission import boosted
from support.cluster.updaters import NO_LEASE, Start, advise, updaters, wait_for_two_passes
from support.node.boosts import (
    Comparison,
    build_boost,
    build_file_probe,
    build_gate_probe,
    build_probe,
    compare_starts,
    create_while_admission_runs,
    mount_gates,
)
from support.node.pods import IDLE, container, pod_spec, wait_for_pod
from support.node.starts import PodStart, watch_starts
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.node import packages
from testbed.node.images import java
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis.cli.main import trellis

MIB = 2**20

WORK = "/scratch"
WORK_VOLUME: Json = {"name": "work", "emptyDir": {}}
WORK_MOUNT: Json = {"name": "work", "mountPath": WORK}

# Counts for nearly a second of CPU, and is ready then. It writes when it began and ended.
COUNT = """
echo begun $(cat /proc/uptime)
i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done
echo done $(cat /proc/uptime)
touch /scratch/ready
trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done
"""
# Is up from its second run on.
UP_WHEN_RESTARTED = """
if [ -e /scratch/ran ]; then touch /scratch/up; fi
touch /scratch/ran
trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done
"""

REQUESTS = {"cpu": "50m", "memory": "32Mi"}
LIMITS = {"cpu": "100m", "memory": "32Mi"}
SIZE = KernelResources(50, 100, 32 * MIB)
BOOSTED_SIZE = KernelResources(150, 300, 32 * MIB)

# More than two seconds of CPU.
JAVA_CLASSES = 4000
JAVA_LIMIT, JAVA_BOOSTED_LIMIT = 200, 600
# Where to write what was measured of the JVM, for the picture.
JAVA_FILE = "JVM_BOOST_FILE"

# The kernel follows Ready within 0.1 s on a quiet machine.
MOST_UNBOOST_SECONDS = 1.0


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def small_container(name: str = "app", **fields: Any) -> Json:
    return container(name, **{"command": IDLE, "requests": REQUESTS, "limits": LIMITS, **fields})


def get_pod(cluster: Cluster, pod: Json) -> Json:
    metadata = pod["metadata"]
    return cluster.api.get(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}")


def wait_for_run(cluster: Cluster, pod: Json, restarts: int) -> Json:
    """The pod, once its only container runs for the first time after so many restarts."""

    def runs(current: Json) -> bool:
        return any(
            status["restartCount"] == restarts and "running" in status["state"]
            for status in current["status"].get("containerStatuses", ())
        )

    return wait_for_pod(cluster, pod["metadata"]["namespace"], pod["metadata"]["name"], runs)


def explain(cluster: Cluster, pod: Json, *flags: str) -> str:
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    result = CliRunner().invoke(trellis, ["explain", "pod", name, "--kubeconfig", str(cluster.kubeconfig), *flags])
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return result.stdout


def assert_start_is_halved(result: Comparison, limit: int, boosted_limit: int) -> None:
    boosted, plain = result.boosted, result.plain
    assert (boosted.limits_until_ready, plain.limits_until_ready) == ({boosted_limit}, {limit})
    assert (boosted.samples[-1].cpu_limit, plain.samples[-1].cpu_limit) == (limit, limit)
    assert result.unboost_seconds <= MOST_UNBOOST_SECONDS
    assert result.plain_work >= 2 * result.boosted_work
    assert plain.cpu_when_ready.throttled_periods > boosted.cpu_when_ready.throttled_periods


@pytest.mark.req("SB-01", "SB-04", "SB-20", "SB-29", "SB-30", "SB-34")
def test_a_boosted_start_takes_at_most_half_as_long_and_the_kernel_has_the_own_limit_within_a_second_of_ready(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start, tmp_path: Path
) -> None:
    counting = container(
        command=("sh", "-c", COUNT),
        requests={"cpu": "75m", "memory": "32Mi"},
        limits={"cpu": "150m", "memory": "32Mi"},
        readinessProbe=build_file_probe(f"{WORK}/ready"),
        volumeMounts=[WORK_MOUNT],
    )
    updater(namespace, NO_LEASE, "--updater-interval=1h")
    result = compare_starts(cluster, node, namespace, tmp_path, pod_spec(counting, volumes=[WORK_VOLUME]))
    assert_start_is_halved(result, 150, 450)
    for pod in result.pods:
        # The pod's own cgroup has followed, nothing has restarted, and the pod no longer counts as boosted.
        assert node.get_pod_cgroup(pod).read_resources() == KernelResources(75, 150, 32 * MIB)
        current = wait_for_pod(cluster, namespace, pod["metadata"]["name"], lambda pod: not boosted(pod))
        assert [status["restartCount"] for status in current["status"]["containerStatuses"]] == [0]


@pytest.mark.req("SB-29")
def test_a_pod_that_never_becomes_ready_is_boosted_until_it_is_given_up_and_one_without_probes_only_as_it_starts(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start, tmp_path: Path
) -> None:
    give_up_after = 8
    specs = {
        "never": pod_spec(small_container(readinessProbe=build_probe("false"))),
        "unprobed": pod_spec(small_container()),
    }
    for name in specs:
        cluster.api.create(build_boost(name), namespace)
    updater(namespace, NO_LEASE, "--updater-interval=1h", f"--boost-give-up-after={give_up_after}s")
    pods = create_while_admission_runs(cluster, namespace, tmp_path, specs)
    assert [boosted(pod) for pod in pods.values()] == [{"app"}] * 2
    lowered: dict[str, datetime] = {}

    def is_over(starts: Mapping[str, PodStart]) -> bool:
        for name, start in starts.items():
            if start.samples[-1].cpu_limit == 100:
                lowered.setdefault(name, datetime.now(UTC))
        return lowered.keys() == specs.keys()

    starts = watch_starts(cluster, node, namespace, specs, is_over)
    assert {sample.cpu_limit for sample in starts["never"].samples[:-1]} == {300}
    never, unprobed = get_pod(cluster, pods["never"]), get_pod(cluster, pods["unprobed"])
    assert not is_ready(never)
    assert lowered["never"] >= get_start(never) + timedelta(seconds=give_up_after)
    assert lowered["unprobed"] < lowered["never"]
    for pod in (never, unprobed):
        assert node.get_container_cgroup(pod, "app").read_resources() == SIZE
        assert [status["restartCount"] for status in pod["status"]["containerStatuses"]] == [0]


def get_start(pod: Json) -> datetime:
    """When the kubelet took it on, in whole seconds."""
    return datetime.fromisoformat(pod["status"]["startTime"])


@pytest.mark.req("SB-02", "SB-29")
def test_a_container_that_restarts_before_ready_is_still_boosted_and_one_that_restarts_later_is_not(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start, tmp_path: Path
) -> None:
    volume, mount = mount_gates(tmp_path)
    app = small_container(
        command=("sh", "-c", UP_WHEN_RESTARTED),
        startupProbe=build_file_probe(f"{WORK}/up", failureThreshold=1),
        readinessProbe=build_gate_probe("ready"),
        volumeMounts=[mount, WORK_MOUNT],
    )
    cluster.api.create(build_boost("web"), namespace)
    updater(namespace, NO_LEASE, "--updater-interval=1h")
    spec = pod_spec(app, volumes=[volume, WORK_VOLUME])
    pod = create_while_admission_runs(cluster, namespace, tmp_path, {"web": spec})["web"]
    restarted = wait_for_run(cluster, pod, 1)
    second = node.get_container_cgroup(restarted, "app")
    assert second.read_resources() == BOOSTED_SIZE
    assert boosted(restarted) == {"app"}
    (tmp_path / "ready").touch()
    until("the end of the boost", lambda: second.read_resources() == SIZE)
    until("the mark to go", lambda: not boosted(get_pod(cluster, pod)))
    for process in second.list_processes():
        os.kill(process.pid, signal.SIGKILL)
    crashed = wait_for_run(cluster, pod, 2)
    assert node.get_container_cgroup(crashed, "app").read_resources() == SIZE
    wait_for_pod(cluster, namespace, pod["metadata"]["name"], is_ready)
    assert boosted(get_pod(cluster, pod)) == set()
    assert node.get_pod_cgroup(pod).read_resources() == SIZE


@pytest.mark.req("SB-21", "SB-28", "SB-31", "SB-39", "SB-48")
def test_a_boost_holds_against_new_advice_and_ends_for_each_container_with_what_its_policy_says(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start, tmp_path: Path
) -> None:
    volume, mount = mount_gates(tmp_path)
    gated = small_container(readinessProbe=build_gate_probe("ready"), volumeMounts=[mount])
    mesh = small_container("mesh", restartPolicy="Always")
    lasting = {
        "containerPolicies": [
            {"containerName": "mesh", "startupBoost": {"cpu": {"type": "Factor", "factor": 3, "duration": "5s"}}}
        ]
    }
    capped = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    documents = {
        "sized": build_boost("sized", "Recreate"),
        "meshed": build_boost("meshed"),
        "request": build_boost("request"),
    }
    documents["meshed"]["spec"]["resourcePolicy"] = lasting
    documents["request"]["spec"]["resourcePolicy"] = capped
    for document in documents.values():
        cluster.api.create(document, namespace)
    advise(cluster, namespace, "sized", "60m", "32Mi")
    controller = updater(namespace, NO_LEASE, "--updater-interval=1s")
    specs = {name: pod_spec(gated, volumes=[volume]) for name in documents}
    specs["meshed"]["initContainers"] = [mesh]
    pods = create_while_admission_runs(cluster, namespace, tmp_path, specs)
    pods = {name: wait_for_run(cluster, pod, 0) for name, pod in pods.items()}
    kernel = {name: node.get_container_cgroup(pod, "app") for name, pod in pods.items()}
    advise(cluster, namespace, "sized", "80m", "32Mi")
    wait_for_two_passes(controller)
    assert {name: cgroup.read_resources() for name, cgroup in kernel.items()} == {
        "sized": KernelResources(180, 360, 32 * MIB),
        "meshed": BOOSTED_SIZE,
        "request": KernelResources(99, 100, 32 * MIB),
    }
    [account] = json.loads(explain(cluster, pods["sized"], "--json"))["pods"][0]["boosts"]
    assert (account["container"], account["phase"], account["reason"]["code"]) == ("app", "Held", "BoostUntilReady")
    assert "app is boosted (Held), BoostUntilReady" in explain(cluster, pods["sized"])
    pod_cgroup, sidecar = node.get_pod_cgroup(pods["meshed"]), node.get_container_cgroup(pods["meshed"], "mesh")
    assert pod_cgroup.read_resources().cpu_limit == 600
    (tmp_path / "ready").touch()
    until("the boost of one container to end", lambda: pod_cgroup.read_resources().cpu_limit == 400)
    assert (kernel["meshed"].read_resources(), sidecar.read_resources()) == (SIZE, BOOSTED_SIZE)
    until("the boost of the other to end", lambda: pod_cgroup.read_resources().cpu_limit == 200)
    assert sidecar.read_resources() == SIZE
    until("all marks to go", lambda: not any(boosted(get_pod(cluster, pod)) for pod in pods.values()))
    assert {name: cgroup.read_resources() for name, cgroup in kernel.items()} == {
        "sized": KernelResources(80, 160, 32 * MIB),
        "meshed": SIZE,
        "request": SIZE,
    }
    assert "boosts" not in json.loads(explain(cluster, pods["sized"], "--json"))["pods"][0]
    assert "boosted" not in explain(cluster, pods["sized"])


def build_measured_start(start: PodStart) -> MeasuredStart:
    """A start as its picture needs it: ten samples a second, from the first sample of the container on."""
    samples = [start.samples[0]]
    for sample in start.samples:
        if sample.at >= samples[-1].at + 0.1:
            samples.append(sample)
    return MeasuredStart(
        ready=round(start.seconds_to_ready, 2),
        periods=start.cpu_when_ready.periods,
        throttled=start.cpu_when_ready.throttled_periods,
        at=[round(sample.at - start.begun_at, 2) for sample in samples],
        used=[round(sample.cpu.used_seconds, 3) for sample in samples],
        limit=[sample.cpu_limit or 0 for sample in samples],
    )


@pytest.mark.skipif(bool(java.find_problem()), reason=java.find_problem())
def test_a_jvm_starts_at_least_twice_as_fast_with_a_boost(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start, tmp_path: Path
) -> None:
    busybox = packages.unpack("node", *packages.NODE_PACKAGES) / "bin/busybox"
    node.import_images([java.build_java_image(busybox)])
    server = container(
        command=java.build_start_command(JAVA_CLASSES),
        requests={"cpu": "100m", "memory": "256Mi"},
        limits={"cpu": f"{JAVA_LIMIT}m", "memory": "256Mi"},
        readinessProbe=build_file_probe(java.READY),
    ) | {"image": java.JAVA}
    updater(namespace, NO_LEASE, "--updater-interval=1h")
    result = compare_starts(cluster, node, namespace, tmp_path, pod_spec(server))
    if os.environ.get(JAVA_FILE):
        measurement = Measurement(
            plain=build_measured_start(result.plain), boosted=build_measured_start(result.boosted)
        )
        Path(os.environ[JAVA_FILE]).write_text(encode_measurement(measurement))
    assert_start_is_halved(result, JAVA_LIMIT, JAVA_BOOSTED_LIMIT)
