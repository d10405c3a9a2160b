"""The image that `make image` builds, started as the manifests start it: read-only, unprivileged, without a shell.

With `IMAGE_RECORD_FILE` the size and the time to start are written there; the documentation quotes them.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from image import archive
from support.cluster.nodes import grant_reads
from support.cluster.rights import install_account
from testbed.access import shipped_accounts
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller
from testbed.node.images import components, starting
from testbed.node.kernel import KernelProcess
from testbed.processes import Process, reserve_ports
from testbed.waiting import until
from trellis.install.permissions import NODE_PROVIDER_SERVER

SHELLS = {"sh", "bash", "dash", "busybox"}

pytestmark = pytest.mark.skipif(bool(starting.find_problem()), reason=starting.find_problem())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The unpacked image and its configuration."""
    root = tmp_path_factory.mktemp("image")
    configuration = archive.unpack_image(components.ensure_archive(), root)
    return root, configuration


def test_the_image_has_no_shell_and_no_installer(image: tuple[Path, dict[str, Any]]) -> None:
    root, configuration = image
    files = {path.name for path in root.rglob("*") if path.is_file() and os.access(path, os.X_OK)}
    assert "trellis" in files
    assert not files & SHELLS
    assert not list(root.rglob("pip"))
    assert configuration["User"] == "65534:65534"
    assert configuration["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_image_can_send_traces(image: tuple[Path, dict[str, Any]]) -> None:
    root, _ = image
    [packages] = root.glob("opt/trellis/lib/python3*/site-packages")
    assert (packages / "opentelemetry" / "sdk").is_dir()
    assert (packages / "opentelemetry" / "exporter" / "otlp" / "proto" / "http").is_dir()


def test_every_module_of_the_image_has_bytecode_that_no_time_invalidates(image: tuple[Path, dict[str, Any]]) -> None:
    root, _ = image
    [packages] = root.glob("opt/trellis/lib/python3*/site-packages")
    sources = [path for path in (packages / "trellis").rglob("*.py") if "examples" not in path.parts]
    assert sources
    for source in sources:
        [compiled] = (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")
        # PEP 552: the second word is 1 where a hash, which is not checked, stands in place of a time.
        assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", source


def test_a_component_starts_read_only_and_without_rights(
    cluster: Cluster, namespace: str, image: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    kubeconfig = shipped_accounts.create_account(cluster, "recommender")
    command = ["recommender", f"--vpa-object-namespace={namespace}"]
    with running_image(image, kubeconfig, command, tmp_path / "image.log") as (controller, started):
        until("the component to be ready", lambda: controller.get("/readyz")[0] == 200)
        seconds = time.monotonic() - started
        process = KernelProcess(controller.process.pid)
        status = process.read_status()
        assert status["Uid"].split() == ["65534"] * 4
        assert status["CapEff"] == "0" * 16
        assert status["NoNewPrivs"] == "1"
        assert "ro" in process.read_root_options()
        record(image[0], seconds)


def test_the_server_of_node_groups_serves_grpc_from_the_image(
    cluster: Cluster, namespace: str, image: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    account = NODE_PROVIDER_SERVER.account
    grant_reads(cluster, namespace, account)
    kubeconfig = install_account(cluster, NODE_PROVIDER_SERVER.component, "kube-system")
    [port] = reserve_ports(1)
    command = ["node-provider-server", f"--kwok-node-groups={namespace}/groups", f"--grpc-address={ADDRESS}:{port}"]
    with running_image(image, kubeconfig, command, tmp_path / "server.log") as (controller, _):
        until("node groups to be served", lambda: "serving node groups" in controller.read_logs())


@contextmanager
def running_image(
    image: tuple[Path, dict[str, Any]], kubeconfig: Path, command: list[str], log: Path
) -> Iterator[tuple[Controller, float]]:
    """A component of the image, from when it answers until the end of the block, and when it was started."""
    [port] = reserve_ports(1)
    arguments = [*command, f"--kubeconfig={starting.KUBECONFIG}", f"--address={ADDRESS}:{port}"]
    started = time.monotonic()
    process = Process(starting.build_command(*image, kubeconfig, arguments), log)
    try:
        controller = Controller(process, port)
        until("the image to serve metrics", controller.is_serving)
        yield controller, started
    finally:
        process.stop()


def record(root: Path, seconds: float) -> None:
    """Write what was measured to the file that the environment names."""
    file = os.environ.get("IMAGE_RECORD_FILE")
    if not file:
        return
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "architecture": archive.ARCHITECTURE,
        "python": platform.python_version(),
        "archiveBytes": components.ensure_archive().stat().st_size,
        "unpackedBytes": sum(path.stat().st_size for path in files),
        "secondsToReady": round(seconds, 2),
    }
    Path(file).write_text(json.dumps(document, indent=2) + "\n")
