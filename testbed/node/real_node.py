"""A node whose pods really run: containerd and kubelet beside a control plane, both in the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed.access.certificates import Authority
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import HarnessError
from testbed.node import configuration, packages, sandbox, service_proxy
from testbed.node.images import archives
from testbed.node.images.archives import Image
from testbed.node.init import NODE_ADDRESS
from testbed.node.kernel import PodCgroup, find_container_cgroup, find_pod_cgroup
from testbed.processes import Process
from testbed.programs import building
from testbed.programs.versions import CONTAINER_RUNTIME, NODE_PROGRAMS
from testbed.waiting import until

NAME: Final = "real"

# What pods may request on the node.
ALLOCATABLE_BYTES: Final = 4 * 2**30


class RealNode:
    """A running node as seen from any process in its sandbox."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._directory = sandbox.get_directory()
        self._cgroup = sandbox.get_cgroup()
        self.name = NAME

    def get_pod_cgroup(self, pod: Json) -> PodCgroup:
        """The cgroup of a pod, from its API object."""
        return find_pod_cgroup(self._cgroup, pod)

    def get_container_cgroup(self, pod: Json, container: str) -> PodCgroup:
        """The cgroup of a container that has been started, from the API object of its pod."""
        return find_container_cgroup(self._cgroup, pod, container)

    def import_images(self, made: Sequence[Image]) -> None:
        """Make images known to the node's containerd."""
        with tempfile.NamedTemporaryFile(suffix=".tar", dir=self._directory) as archive:
            archives.write_archive(made, Path(archive.name))
            self.import_archive(Path(archive.name))

    def import_archive(self, archive: Path) -> None:
        """Make the images of an archive known to the node's containerd."""
        self._run_images("import", archive)

    def tag_image(self, image: str, name: str) -> None:
        """Give an image that the node has another name, with the registry and the tag."""
        self._run_images("tag", "--force", image, name)

    def _run_images(self, *arguments: str | Path) -> None:
        ctr = building.ensure_programs(CONTAINER_RUNTIME)["ctr"]
        where = ["--address", configuration.CONTAINERD_SOCKET, "--namespace", "k8s.io"]
        done = subprocess.run([ctr, *where, "images", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HarnessError(f"ctr images {arguments[0]}: {done.stderr.strip()}")

    def read_log(self, program: str) -> str:
        """What containerd or kubelet has logged so far."""
        return (self._cluster.directory / "logs" / f"{program}.log").read_text(errors="replace")

    def is_ready(self) -> bool:
        """Whether pods can be placed on it."""
        node = self._cluster.api.find(f"/api/v1/nodes/{self.name}")
        if node is None:
            return False
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", ())
        )
        return ready and not node["spec"].get("taints")


@contextmanager
def run_node(cluster: Cluster) -> Iterator[RealNode]:
    """A node of this cluster, from when it is Ready until the end of the block."""
    directory = sandbox.get_directory()
    programs = building.ensure_programs(NODE_PROGRAMS)
    unpacked = packages.unpack("node", *packages.NODE_PACKAGES)
    logs = cluster.directory / "logs"
    _write_configuration(cluster, directory, unpacked)
    processes: list[Process] = []
    node = RealNode(cluster)

    def is_ready() -> bool:
        for process in processes:
            process.check()
        return node.is_ready()

    try:
        processes.append(_start_containerd(directory, programs, logs))
        node.import_images(archives.build_base_images(unpacked / "bin/busybox"))
        processes.append(_start_kubelet(cluster, directory, programs, logs))
        processes.append(_start_service_proxy(cluster, logs))
        until("the node to be ready", is_ready)
        yield node
    finally:
        for process in reversed(processes):
            process.stop(grace=2.0)


def _write_configuration(cluster: Cluster, directory: Path, unpacked: Path) -> None:
    access = cluster.directory / "access"
    authority = Authority.load((access / "ca.crt").read_bytes(), (access / "ca.key").read_bytes())
    authority.issue_server(f"system:node:{NAME}", NODE_ADDRESS).save(access, "node")
    kubelet = configuration.build_kubelet_configuration(access, sandbox.get_cgroup(), ALLOCATABLE_BYTES)
    (directory / "kubelet.yaml").write_text(json.dumps(kubelet))
    (directory / "containerd.toml").write_text(configuration.build_containerd_configuration(directory, unpacked))
    (directory / "cni").mkdir()
    (directory / "cni" / "10-node.conflist").write_text(configuration.build_network())


def _start_containerd(directory: Path, programs: dict[str, Path], logs: Path) -> Process:
    """The shim is found by the PATH of containerd."""
    os.environ["PATH"] = f"{programs['containerd'].parent}{os.pathsep}{os.environ['PATH']}"
    process = Process([programs["containerd"], "--config", directory / "containerd.toml"], logs / "containerd.log")

    def is_up() -> bool:
        process.check()
        return Path(configuration.CONTAINERD_SOCKET).exists()

    until("containerd to be up", is_up)
    return process


def _start_kubelet(cluster: Cluster, directory: Path, programs: dict[str, Path], logs: Path) -> Process:
    kubeconfig = cluster.kubeconfig_for_user(f"system:node:{NAME}", "system:nodes")
    command: list[str | Path] = [
        programs["kubelet"],
        f"--config={directory / 'kubelet.yaml'}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={directory / 'kubelet'}",
        f"--cert-dir={directory / 'pki'}",
        # Half of metrics-server's, so that each of its scrapes finds something new; the default is 10s.
        "--housekeeping-interval=5s",
    ]
    return Process(command, logs / "kubelet.log")


def _start_service_proxy(cluster: Cluster, logs: Path) -> Process:
    command = [sys.executable, "-m", service_proxy.__name__, str(cluster.directory), cluster.url]
    return Process(command, logs / "service_proxy.log")
