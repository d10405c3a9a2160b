"""Runs a command beside a control plane with a real node.

`python -m testbed.node python -m testbed.node.running COMMAND ...`: the command finds the cluster by its environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.node import sandbox
from testbed.node.real_node import run_node

_CLUSTER: Final = "TRELLIS_NODE_CLUSTER"
_URL: Final = "TRELLIS_NODE_CLUSTER_URL"


def run_beside_node(command: Sequence[str]) -> int:
    """The exit status of the command. The node is the only one, until a test adds nodes that kwok plays."""
    directory = sandbox.get_directory() / "cluster"  # it ends with the sandbox
    directory.mkdir(mode=0o700)
    with (
        ControlPlane(directory, initial_nodes=(), definitions=list_definitions()) as plane,
        run_node(plane.cluster),
    ):
        here = {_CLUSTER: str(directory), _URL: plane.cluster.url, "KUBECONFIG": str(plane.cluster.kubeconfig)}
        return subprocess.run(command, env=os.environ | here, check=False).returncode


def find_cluster() -> Cluster:
    """The cluster beside which this process runs."""
    return Cluster(Path(os.environ[_CLUSTER]), os.environ[_URL])


if __name__ == "__main__":
    try:
        sys.exit(run_beside_node(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
