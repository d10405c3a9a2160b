"""Replicas of a process or of a component on an API server of their own, under the rights that Trellis installs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.cluster.controllers import DENIED
from support.cluster.vpas import metric_value
from testbed.access.rights import ROLES, wait_until_granted
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from trellis.install.permissions import COMPONENT_RIGHTS, MEMBER_LEASES, rights_of
from trellis.install.roles import build_access

ACCOUNT = "trellis"
NAMESPACE = "kube-system"

StartReplica = Callable[..., Controller]


def create_account(cluster: Cluster, components: Sequence[str]) -> Path:
    """A kubeconfig for one account with the rights of these components, and those to member Leases."""
    usual = {switch.key for rights in COMPONENT_RIGHTS for switch in rights.list_switches() if switch.default}
    manifests = [
        manifest
        for component in components
        for manifest in build_access(
            rights_of(component), namespace=NAMESPACE, on={*usual, MEMBER_LEASES.key}, account=ACCOUNT
        )
    ]
    for manifest in manifests:
        cluster.api.apply(manifest)
    user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    wait_until_granted(cluster.api, user, [manifest for manifest in manifests if manifest["kind"] in ROLES])
    return cluster.kubeconfig_for(ACCOUNT, NAMESPACE)


@contextmanager
def replicas(cluster: Cluster, directory: Path, command: str, components: Sequence[str]) -> Iterator[StartReplica]:
    """What starts a replica of `trellis <command>`. A right that is missing, or a bug, is an error."""
    kubeconfig = create_account(cluster, components)
    program = [str(Path(sys.executable).with_name("trellis")), command]
    started: list[Controller] = []
    with ExitStack() as running:

        def start(*flags: str) -> Controller:
            log = directory / f"replica-{len(started)}.log"
            started.append(running.enter_context(run_controller(program, kubeconfig, log, flags)))
            return started[-1]

        yield start
    for controller in started:
        logs = controller.read_logs()
        sys.stdout.write(f"{controller.process.log.name}:\n{logs}\n")
        assert not [phrase for phrase in (DENIED, "traceback") if phrase in logs.lower()], controller.process.log.name


def list_led(replica: Controller, components: Sequence[str]) -> set[str]:
    """The components that a replica of `trellis run` leads."""
    return {name for name in components if metric_value(replica, "trellis_component_leader", component=name) == 1.0}


def is_serving(replica: Controller, namespace: str, vpa: str = "web") -> bool:
    """Whether a recommender served a VPA in its last pass, and serves it now."""
    if replica.process.has_ended:
        return False
    status, text = replica.get(f"/recommendations/{namespace}/{vpa}")
    assert isinstance(json.loads(text), dict)
    return status == 200
