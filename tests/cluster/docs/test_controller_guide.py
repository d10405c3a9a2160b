"""The program in the guide works against a real API server, from its start to SIGTERM.

It labels the pods of every namespace, and so it gets an API server to itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.docs import guide_code
from testbed.control_plane import ControlPlane
from testbed.waiting import TIMEOUT_SECONDS, until

PODS = "/api/v1/namespaces/shop/pods"


def test_the_program_of_the_guide_labels_pods_and_ends_on_sigterm(own_api_server: ControlPlane, tmp_path: Path) -> None:
    api = own_api_server.cluster.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    # No controller makes it here, and the API server takes no pod without it.
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, "shop")

    def create(name: str) -> None:
        spec = {"containers": [{"name": "app", "image": "app"}], "automountServiceAccountToken": False}
        api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "shop")

    def teams() -> dict[str, str | None]:
        return {pod["metadata"]["name"]: pod["metadata"].get("labels", {}).get("team") for pod in api.list_items(PODS)}

    create("early")
    environment = {**os.environ, "KUBECONFIG": str(own_api_server.cluster.kubeconfig)}
    log = tmp_path / "log"
    with log.open("w") as words:
        process = subprocess.Popen([sys.executable, "-c", guide_code.program()], env=environment, stderr=words)
    try:
        until("a team for the pod that was there", lambda: teams() == {"early": "shop"})
        create("late")
        until("a team for the pod that came", lambda: teams() == {"early": "shop", "late": "shop"})
        # A label can be seen before whoever wrote it has been told so.
        until("both answers", lambda: log.read_text().count("labeller: wrote result=Applied") >= 2)
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    logged = log.read_text()
    assert process.returncode == 0
    assert logged.count("labeller: wrote result=Applied") == 2
    assert "Traceback" not in logged
