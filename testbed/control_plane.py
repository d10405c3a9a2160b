"""Starts and stops the programs of a control plane, in order."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from testbed import components, metrics_api
from testbed.access import identities
from testbed.cluster import STATE, Cluster, State
from testbed.components import Command, Layout
from testbed.errors import ProgramDied, Refused
from testbed.kwok import nodes
from testbed.processes import Process, reserve_ports
from testbed.programs import building
from testbed.programs.versions import NEEDED
from testbed.waiting import TIMEOUT_SECONDS, until

DEFAULT_NODES = tuple(nodes.Node(name=f"node-{zone}", zone=f"zone-{zone}") for zone in "abc")

COMMANDS: dict[str, Callable[[Layout], Command]] = {
    "etcd": components.etcd,
    "kube-apiserver": components.kube_apiserver,
    "kube-controller-manager": components.kube_controller_manager,
    "kube-scheduler": components.kube_scheduler,
    "kwok": components.kwok,
    "metrics-server": components.metrics_server,
}

# An API server alone: enough for clients, watches, definitions and admission.
BARE = frozenset({"etcd", "kube-apiserver"})
FULL = frozenset(COMMANDS)

# How a Go program begins its last words, and how often an API server may.
PANIC = "panic: "
MAX_PANICS = 3


# Names a directory with an audit policy, in which API servers log the requests that the policy selects.
AUDIT = "TESTBED_AUDIT"


def find_audit_directory() -> Path | None:
    """The directory for audit logs; None if none are wanted."""
    return Path(os.environ[AUDIT]) if os.environ.get(AUDIT) else None


class ControlPlane:
    """A control plane in a directory of its own. Use it as a context manager, from a main thread."""

    def __init__(
        self,
        directory: Path,
        parts: frozenset[str] = FULL,
        initial_nodes: tuple[nodes.Node, ...] = DEFAULT_NODES,
        definitions: Iterable[Path] = (),
        audit: Path | None = None,
    ) -> None:
        self._parts = parts
        self._definitions = definitions
        self._nodes = initial_nodes if "kwok" in parts else ()
        self._running: dict[str, Process] = {}
        self._panics = 0
        self.directory = directory
        self.logs = _log_directory(directory)
        self.seconds: dict[str, float] = {}  # since the start, when each stage was reached
        programs = building.ensure_programs(program for program in NEEDED if program.name in parts)
        self._layout = Layout(directory, programs, audit, *reserve_ports(5))
        self.cluster = Cluster(directory, self._layout.url)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, part: str) -> None:
        """Start one program, again after `stop_part` or `kill`."""
        self._running[part] = Process(COMMANDS[part](self._layout), self.logs / f"{part}.log")

    def kill(self, part: str) -> None:
        """End one program by kill -9: a test of what its clients do then."""
        self._running.pop(part).kill()

    def freeze(self, part: str) -> None:
        """Stop one program from running, not from existing: connections stay open without an answer."""
        self._running[part].freeze()

    def thaw(self, part: str) -> None:
        """Let a frozen program run on."""
        self._running[part].thaw()

    def stop_part(self, part: str) -> None:
        """Stop one program as an orderly shutdown would."""
        self._running.pop(part).stop()

    def wait_until_ready(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Until the API server answers that it is ready."""
        until("the API server to be ready", self._is_ready, seconds)

    def check(self) -> None:
        """Raise if a program has ended by itself."""
        for process in self._running.values():
            process.check()

    def stop(self) -> None:
        """Clients before servers, so that their logs do not fill with lost connections.

        etcd and the API server are killed: their data is not read again, and a shutdown in order would take
        the API server several seconds.
        """
        for part in [part for part in reversed(COMMANDS) if part in self._running]:
            process = self._running.pop(part)
            if part in BARE:
                process.kill()
            else:
                process.stop(grace=2.0)

    def _start(self) -> None:
        started = time.monotonic()

        def reached(stage: str) -> None:
            self.seconds[stage] = round(time.monotonic() - started, 2)

        self.logs.mkdir(parents=True)
        identities.prepare(self._layout)
        reached("certificates")
        for part in ("etcd", "kube-apiserver"):  # together: the API server tries etcd until it answers
            self.start(part)
        self.wait_until_ready()
        reached("ready")
        if "metrics-server" in self._parts:
            metrics_api.register(self.cluster.api, self._layout)
        for part in self._parts - BARE:
            self.start(part)
        self.cluster.install_definitions(self._definitions)
        reached("definitions")
        nodes.add(self.cluster.api, self._nodes)
        reached("nodes")
        if "metrics-server" in self._parts:
            until("metrics.k8s.io to be served", lambda: metrics_api.is_served(self.cluster.api))
            reached("metrics")
        self.check()
        state = self.directory / f"{STATE}.tmp"
        state.write_bytes(msgspec.json.encode(State(self._layout.url)))
        state.rename(self.directory / STATE)

    def _is_ready(self) -> bool:
        try:
            self.check()
        except ProgramDied:
            if not self._panicked_at_start():
                raise
            self.start("kube-apiserver")
            return False
        try:
            self.cluster.api.send("GET", "/readyz", seconds=5.0)
        except (Refused, OSError, http.client.HTTPException):
            return False
        return True

    def _panicked_at_start(self) -> bool:
        """Whether it is worth another try: with definitions to serve, some of its goroutines race while it starts."""
        self._panics += 1
        server = self._running["kube-apiserver"]
        return self._panics <= MAX_PANICS and server.has_ended and PANIC in server.log.read_text(errors="replace")


def _log_directory(directory: Path) -> Path:
    """Beside the data, and gone with them, unless $TESTBED_LOGS names a place to keep them in."""
    configured = os.environ.get("TESTBED_LOGS")
    return Path(configured) / directory.name if configured else directory / "logs"
