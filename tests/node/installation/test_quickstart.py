"""The commands that the README shows, on an empty cluster whose pods really run: from nothing to an explanation.

With `QUICKSTART_RECORD_FILE` the time is written there; the documentation quotes it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.install.clusters import connect_helm
from support.install.helm import ROOT
from support.node.chart import QUICKSTART, list_definitions, list_replicas, provide_images, uninstall
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.programs.building import ensure_programs
from testbed.programs.versions import HELM_4, KUBECTL

MOST_SECONDS = 180


def read_script(heading: str = "## Install it in a cluster") -> str:
    """The first commands below this heading of the README."""
    section = (ROOT / "README.md").read_text().partition(f"{heading}\n")[2]
    found = re.search(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def split_commands(script: str) -> list[list[str]]:
    """The commands of a script as words, without comments."""
    lines = script.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the commands under the names that users know."""
    programs = tmp_path / "bin"
    programs.mkdir()
    compiled = ensure_programs([HELM_4, KUBECTL])
    (programs / "helm").symlink_to(compiled[HELM_4.name])
    (programs / "kubectl").symlink_to(compiled[KUBECTL.name])
    (programs / "trellis").symlink_to(Path(sys.executable).with_name("trellis"))
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def test_three_commands_lead_from_an_empty_cluster_to_an_explained_recommendation(
    cluster: Cluster, node: RealNode, path: str, tmp_path: Path
) -> None:
    provide_images(node)
    assert list_definitions(cluster) == []
    script = read_script()
    assert [words[0] for words in split_commands(script)] == ["helm", "kubectl", "trellis"]
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(cluster.kubeconfig)}
    started = time.monotonic()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    sys.stdout.write(f"{done.stdout}\n{done.stderr}\n{seconds:.1f} s\n")
    try:
        assert done.returncode == 0
        explained = done.stdout.partition("VerticalPodAutoscaler default/quickstart")[2]
        assert "It governs 2 pods of Deployment quickstart" in explained
        assert "CONTAINER app" in explained
        # The components are found where the chart installs them.
        assert "New pods are not sized" not in explained
        assert "FlagsNotObserved" not in explained
        assert seconds < MOST_SECONDS
        # The pods of the chart run from the image, and none of them had to be started again.
        restarts = [it["status"]["containerStatuses"][0]["restartCount"] for it in list_replicas(cluster)]
        assert restarts == [0, 0, 0, 0]
        record(seconds)
    finally:
        subprocess.run(["kubectl", "delete", "-f", QUICKSTART], env=environment, check=True, capture_output=True)
        uninstall(cluster, connect_helm(HELM_4, tmp_path, cluster))


def record(seconds: float) -> None:
    """Write what was measured to the file that the environment names."""
    file = os.environ.get("QUICKSTART_RECORD_FILE")
    if file:
        document = {"date": datetime.now(UTC).date().isoformat(), "seconds": round(seconds)}
        Path(file).write_text(json.dumps(document, indent=2) + "\n")
