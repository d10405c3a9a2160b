"""`make cluster NODE=real`: a cluster whose pods really run, used from outside of its sandbox."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster.admission import cpu, dry_run, owned
from testbed.cluster import Cluster, is_ready
from testbed.components import ADDRESS
from testbed.controllers import run_controller
from testbed.node import cgroups, packages, sandbox
from testbed.node.images import archives
from testbed.node.kernel import KernelResources, find_container_cgroup
from testbed.node.real_cluster import WEBHOOK_PORT
from testbed.processes import is_free
from testbed.programs import building
from testbed.programs.versions import CONTAINER_RUNTIME
from testbed.waiting import until

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
FOREGROUND = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
TRELLIS = Path(sys.executable).with_name("trellis")
OWN_IMAGE = "trellis-node.local/own:1"
MIB = 2**20


@pytest.mark.node
@pytest.mark.skipif(bool(sandbox.find_problem()), reason=sandbox.find_problem())
def test_a_real_cluster_is_used_from_outside_until_ctrl_c(tmp_path: Path, node_programs: None) -> None:
    with start() as (process, keyboard, output):
        kubeconfig = Path(re.findall(r"KUBECONFIG=(\S+)", output)[0])
        assert "kubectl apply -f examples/real-node" in output
        server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        cluster = Cluster(kubeconfig.parent / "cluster", server)
        check_logs_and_kernel(cluster)
        check_own_image(cluster, kubeconfig.parent, tmp_path)
        if is_free(WEBHOOK_PORT):
            check_boost_by_a_webhook_outside(cluster, kubeconfig, tmp_path)
        os.write(keyboard, b"\x03")
        assert "nothing is left behind" in read_until(keyboard, "behind")
        assert process.wait() == 0
    assert not kubeconfig.parent.exists()


@contextmanager
def start() -> Iterator[tuple[subprocess.Popen[bytes], int, str]]:
    """The cluster in the foreground of a terminal, that terminal, and what was printed until it was up."""
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-c", FOREGROUND, sys.executable, "-m", "testbed", "up", "real"]
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdin=terminal) as process:
        os.close(terminal)
        try:
            yield process, keyboard, read_until(keyboard, "Ctrl-C")
        finally:
            process.kill()
            os.close(keyboard)


def read_until(terminal: int, end: str) -> str:
    """What a program prints, until it prints this."""
    output = b""
    while end not in output.decode(errors="replace"):
        output += os.read(terminal, 2**16)
    return output.decode().replace("\r\n", "\n")


def check_logs_and_kernel(cluster: Cluster) -> None:
    """Of the example."""
    for file in sorted((ROOT / "examples/real-node").glob("*.yaml")):
        cluster.apply_files([file], "default")
    pod = cluster.wait_for_ready_pods("default", "worker", 2)[0]
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
    assert "starting\nready\n" in cluster.api.get(f"{path}/log")["message"]
    cgroup = find_container_cgroup(cgroups.locate(cluster.directory.parent.name), pod, "app")
    assert cgroup.read_resources() == KernelResources(100, 200, 64 * MIB)


def check_own_image(cluster: Cluster, directory: Path, scratch: Path) -> None:
    """It is imported by the command that is printed."""
    busybox = packages.unpack("node", *packages.NODE_PACKAGES) / "bin/busybox"
    own = archives.Image(OWN_IMAGE, (archives.build_busybox_layer(busybox),), ("/bin/sh", "-c", "echo own; sleep 600"))
    archives.write_archive([own], scratch / "own.tar")
    ctr = building.ensure_programs(CONTAINER_RUNTIME)["ctr"]
    where: list[str | Path] = ["-a", directory / "containerd.socket", "-n", "k8s.io"]
    subprocess.run([ctr, *where, "images", "import", scratch / "own.tar"], check=True)
    spec = {"containers": [{"name": "app", "image": OWN_IMAGE}], "terminationGracePeriodSeconds": 0}
    cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own"}, "spec": spec}, "default")
    path = "/api/v1/namespaces/default/pods/own"
    until("the pod of the own image", lambda: is_ready(cluster.api.get(path)))
    assert cluster.api.get(f"{path}/log")["message"] == "own\n"


def check_boost_by_a_webhook_outside(cluster: Cluster, kubeconfig: Path, scratch: Path) -> None:
    """A new pod of the example is to start with three times its CPU."""
    where = ["--register-by-url", f"--webhook-address=https://{ADDRESS}", f"--webhook-port={WEBHOOK_PORT}"]
    patient = "--webhook-timeout-seconds=30"
    flags = [*where, f"--port={WEBHOOK_PORT}", patient]
    owner = cluster.api.list_items("/apis/apps/v1/namespaces/default/replicasets", labelSelector="app=worker")[0]
    kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    made = owned({"metadata": {"name": "probe"}, "spec": owner["spec"]["template"]["spec"]}, owner | kind, "worker")
    assert cpu(dry_run(cluster, "default", made)) == "100m"
    with run_controller([TRELLIS, "admission"], kubeconfig, scratch / "admission.log", flags):
        until("a pod that is boosted", lambda: cpu(dry_run(cluster, "default", made)) == "300m")
