"""Runs a command beside a control plane with a real node.

`python -m testbed.node python -m testbed.node.running COMMAND ...`: the command finds the cluster by its environment.
With `--empty` before the command, the cluster has no definition of ours.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.node import sandbox, signals
from testbed.node.real_node import run_node

_CLUSTER: Final = "TRELLIS_NODE_CLUSTER"
_URL: Final = "TRELLIS_NODE_CLUSTER_URL"
EMPTY: Final = "--empty"


@contextmanager
def run_cluster(definitions: Iterable[Path]) -> Iterator[ControlPlane]:
    """A control plane and a real node, which is the only one, until nodes are added that kwok plays."""
    directory = sandbox.get_directory() / "cluster"  # it ends with the sandbox
    directory.mkdir(mode=0o700)
    with (
        ControlPlane(directory, initial_nodes=(), definitions=definitions) as plane,
        run_node(plane.cluster),
    ):
        yield plane


def run_beside_node(command: Sequence[str]) -> int:
    """The exit status of the command, to which SIGTERM and Ctrl-C are passed on."""
    is_empty = command[0] == EMPTY
    with run_cluster(() if is_empty else list_definitions()) as plane:
        directory, kubeconfig = plane.cluster.directory, plane.cluster.kubeconfig
        here = {_CLUSTER: str(directory), _URL: plane.cluster.url, "KUBECONFIG": str(kubeconfig)}
        signals.block()
        return signals.wait_for(signals.spawn(command[is_empty:], os.environ | here))


def find_cluster() -> Cluster:
    """The cluster beside which this process runs."""
    return Cluster(Path(os.environ[_CLUSTER]), os.environ[_URL])


if __name__ == "__main__":
    # While the cluster starts; a command gets the signal by itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(signals.to_exit_status(-signal.SIGTERM)))
    try:
        sys.exit(run_beside_node(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(signals.to_exit_status(-signal.SIGINT))
