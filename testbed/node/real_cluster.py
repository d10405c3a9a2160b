"""A small cluster whose pods really run, to try things on: `make cluster NODE=real`.

The control plane and the node are in a sandbox, whose network is its own. Relays let kubectl and our components on this
machine reach the API server, and the API server reach a webhook of this machine.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Final

from testbed.access.kubeconfigs import write_private
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.node import cgroups, relay, running, sandbox, signals
from testbed.node.configuration import CONTAINERD_SOCKET
from testbed.node.images.archives import BUSYBOX
from testbed.processes import Process, reserve_ports
from testbed.programs import building
from testbed.programs.versions import CONTAINER_RUNTIME, KUBERNETES
from testbed.waiting import until

# Where `trellis admission --register-by-url` listens by default.
WEBHOOK_PORT: Final = 8000

_CPU_LIMIT_FILE: Final = "cpu.max" if cgroups.is_version_2() else "cpu/cpu.cfs_quota_us"

_API_SOCKET: Final = "api.socket"
_WEBHOOK_SOCKET: Final = "webhook.socket"
_IMAGES_SOCKET: Final = "containerd.socket"


def run() -> int:
    """Run one until Ctrl-C or SIGTERM; either leaves nothing behind. The exit status."""
    problem = sandbox.find_problem()
    if problem:
        _print(f"{problem}; `make cluster` starts a control plane with simulated nodes instead")
        return 1
    sandbox.fetch_programs()
    _print(f"starting Kubernetes {KUBERNETES} with a real node ...")
    [port] = reserve_ports(1)
    with sandbox.start([sys.executable, "-m", __name__, str(port), str(time.time())]) as started:
        pairs = ((port, started.directory / _API_SOCKET), (started.directory / _WEBHOOK_SOCKET, WEBHOOK_PORT))
        outside = _start_relay(started.directory / "relay.log", *pairs)
        try:
            status = started.wait()
        finally:
            outside.kill()
    if status == 0:
        _print("stopped; nothing is left behind")
    return status


def run_inside(port: int, started: float) -> None:
    """Run control plane and node, and say how they are used from outside, where the port leads to the API server."""
    with signals.until_requested(), running.run_cluster(list_definitions()) as plane:
        directory = sandbox.get_directory()
        own_port = int(plane.cluster.url.rpartition(":")[2])
        pairs = (
            (directory / _API_SOCKET, own_port),
            (WEBHOOK_PORT, directory / _WEBHOOK_SOCKET),
            (directory / _IMAGES_SOCKET, Path(CONTAINERD_SOCKET)),
        )
        _start_relay(plane.logs / "relay.log", *pairs)
        until("the relay", (directory / _API_SOCKET).exists)
        kubeconfig = _write_kubeconfig(plane.cluster, port, directory / "kubeconfig")
        _print(_describe_usage(kubeconfig, directory / _IMAGES_SOCKET, plane.logs, time.time() - started))
        signals.pause()


def _start_relay(log: Path, *pairs: tuple[int | Path, int | Path]) -> Process:
    addresses = [str(address) for pair in pairs for address in pair]
    return Process([sys.executable, "-m", relay.__name__, *addresses], log)


def _write_kubeconfig(cluster: Cluster, port: int, file: Path) -> Path:
    """The administrator's, for use outside of the sandbox."""
    return write_private(file, cluster.kubeconfig.read_text().replace(cluster.url, f"https://{ADDRESS}:{port}"))


def _describe_usage(kubeconfig: Path, containerd: Path, logs: Path, seconds: float) -> str:
    ctr = building.ensure_programs(CONTAINER_RUNTIME)["ctr"]
    kubectl = (
        ""
        if shutil.which("kubectl")
        else "\n(no kubectl here? `.venv/bin/python -m testbed build kubectl` compiles one)"
    )
    return f"""
Kubernetes {KUBERNETES}, up after {seconds:.1f} s, with the definitions of deploy/crds and one node, on which pods
really run: kubelet, containerd and runc, in namespaces of their own. Try, in another shell:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes
  kubectl apply -f examples/real-node
  kubectl get pods,vpa
  kubectl logs deployment/worker
  kubectl exec deployment/worker -- cat /sys/fs/cgroup/{_CPU_LIMIT_FILE}
  kubectl top pods    # half a minute later
  .venv/bin/trellis recommender --recommender-interval=10s
  .venv/bin/trellis updater --updater-interval=10s
  .venv/bin/trellis admission --register-by-url --webhook-address=https://{ADDRESS} --webhook-port={WEBHOOK_PORT}
{kubectl}
Pods use the image {BUSYBOX}, or one of yours (imagePullPolicy: IfNotPresent):

  docker save IMAGE | {ctr} -a {containerd} -n k8s.io images import -

More: docs/guides/a-real-node.md. Logs: {logs}
Ctrl-C stops it and removes everything.
"""


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        run_inside(int(sys.argv[1]), float(sys.argv[2]))
    except HarnessError as error:
        sys.exit(str(error))
