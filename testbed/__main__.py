"""`python -m testbed`: a control plane to try things on, with simulated nodes or a real one.

`python -m testbed build` only compiles it.
"""

from __future__ import annotations

import shutil
import sys

from testbed.control_plane import ControlPlane
from testbed.errors import HarnessError
from testbed.keeper import list_definitions
from testbed.kwok.nodes import Node
from testbed.node import real_cluster, signals
from testbed.programs import building
from testbed.programs.versions import BY_NAME, KUBERNETES, NEEDED
from testbed.scratch import scratch

NODES = tuple(Node(name=f"node-{zone}", cpu="8", memory="32Gi", pods=110, zone=f"zone-{zone}") for zone in "abc")

USAGE = "usage: python -m testbed [up [kwok | real] | build [program ...]]"


def main(arguments: list[str]) -> int:
    """The exit status."""
    match arguments:
        case [] | ["up"] | ["up", "kwok"]:
            return up()
        case ["up", "real"]:
            return real_cluster.run()
        case ["up", other]:
            sys.stderr.write(f"nodes are kwok or real, not {other}\n")
            return 2
        case ["build", *names] if set(names) <= set(BY_NAME):
            for path in building.ensure_programs([BY_NAME[name] for name in names] or NEEDED).values():
                sys.stdout.write(f"{path}\n")
            return 0
    sys.stderr.write(f"{USAGE}\nprograms: {', '.join(BY_NAME)}\n")
    return 2


def up() -> int:
    """Run until Ctrl-C or SIGTERM; either leaves nothing behind."""
    with signals.until_requested(), scratch() as directory:
        sys.stdout.write(f"starting Kubernetes {KUBERNETES} ...\n")
        sys.stdout.flush()
        with ControlPlane(directory, initial_nodes=NODES, definitions=list_definitions()) as plane:
            sys.stdout.write(_describe_usage(plane))
            sys.stdout.flush()
            signals.pause()
    sys.stdout.write("stopped; nothing is left behind\n")
    return 0


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
    except KeyboardInterrupt:
        sys.exit(130)
