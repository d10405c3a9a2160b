"""Starts a component of Trellis on a real control plane, under the account that Trellis ships.

When it has ended, its log is shown and judged: a right that is missing, or a bug, is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.access import shipped_accounts
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller

# What an API server says of a right that is missing.
DENIED = "forbidden"


@contextmanager
def shipped_controllers(
    cluster: Cluster,
    directory: Path,
    component: str,
    usual: Callable[[str], Sequence[str]],
    *,
    never: Sequence[str] = (DENIED, "traceback"),
    restarts: bool = False,
) -> Iterator[Callable[..., Controller]]:
    """What starts `trellis <component>` for a namespace, with the flags that are usual there and others.

    `never` is what no log may say, in small letters. An API server that `restarts` forbids everything until it has read
    its roles.
    """
    started: list[Controller] = []
    with ExitStack() as controllers:

        def start(namespace: str, *flags: str) -> Controller:
            log = directory / f"{component}-{len(started)}.log"
            command = [str(Path(sys.executable).with_name("trellis")), component]
            arguments = [f"--vpa-object-namespace={namespace}", *usual(namespace), *flags]
            kubeconfig = shipped_accounts.create_account(cluster, component)
            started.append(controllers.enter_context(run_controller(command, kubeconfig, log, arguments)))
            return started[-1]

        yield start
    for controller in started:
        logs = controller.read_logs()
        sys.stdout.write(f"{controller.process.log.name}:\n{logs}\n")
        result = [phrase for phrase in never if phrase in logs.lower() and not (restarts and phrase.startswith(DENIED))]
        assert not result, f"{result}: see {controller.process.log.name}"
