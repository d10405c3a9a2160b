"""`python -m testbed`: a control plane to try things on. `python -m testbed build`: only compile it."""

from __future__ import annotations

import shutil
import signal
import sys
from types import FrameType

from testbed.control_plane import ControlPlane
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.kwok.nodes import Node
from testbed.programs import building
from testbed.programs.versions import BY_NAME, KUBERNETES, NEEDED
from testbed.scratch import scratch

NODES = tuple(Node(name=f"node-{zone}", cpu="8", memory="32Gi", pods=110, zone=f"zone-{zone}") for zone in "abc")

USAGE = "usage: python -m testbed [up | build [program ...]]"


def main(arguments: list[str]) -> int:
    """The exit status."""
    match arguments:
        case [] | ["up"]:
            return up()
        case ["build", *names] if set(names) <= set(BY_NAME):
            for path in building.ensure_programs([BY_NAME[name] for name in names] or NEEDED).values():
                sys.stdout.write(f"{path}\n")
            return 0
    sys.stderr.write(f"{USAGE}\nprograms: {', '.join(BY_NAME)}\n")
    return 2


def up() -> int:
    """Run until Ctrl-C or SIGTERM; either leaves nothing behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _request_stop)
    with scratch() as directory:
        try:
            sys.stdout.write(f"starting Kubernetes {KUBERNETES} ...\n")
            sys.stdout.flush()
            with ControlPlane(directory, initial_nodes=NODES, definitions=list_definitions()) as plane:
                sys.stdout.write(_describe_usage(plane))
                sys.stdout.flush()
                while True:
                    signal.pause()
        except _StopRequested:
            sys.stdout.write("stopped; nothing is left behind\n")
    return 0


class _StopRequested(Exception):
    """A signal requested the end of the control plane."""


def _request_stop(_number: int, _frame: FrameType | None) -> None:
    # Once only: a second Ctrl-C must not interrupt the cleaning up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise _StopRequested


def _describe_usage(plane: ControlPlane) -> str:
    kubectl = (
        ""
        if shutil.which("kubectl")
        else "\n(no kubectl here? `.venv/bin/python -m testbed build kubectl` compiles one)"
    )
    return f"""
Kubernetes {KUBERNETES} at {plane.cluster.url}, up after {max(plane.seconds.values()):.1f} s,
with {len(NODES)} nodes of 8 CPUs and 32Gi and the definitions of deploy/crds.
The nodes are simulated: pods run, but no code does. Try, in another shell:

  export KUBECONFIG={plane.cluster.kubeconfig}
  kubectl get nodes
  kubectl apply -f examples/web
  kubectl get pods,vpa
  kubectl annotate pods -l app=web testbed/usage-cpu.app=400m
  kubectl top pods    # half a minute later
{kubectl}
Logs: {plane.logs}
Ctrl-C stops it and removes everything.
"""


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        sys.exit(f"testbed: {error}")
