"""Runs a controller, ours or upstream's, beside a control plane.

Both take the same flags for where the cluster is and where to serve metrics.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from testbed.components import ADDRESS
from testbed.errors import HarnessError
from testbed.processes import Process, reserve_ports
from testbed.waiting import until


class Controller:
    """A running program. End it by `process.stop()` (SIGTERM) or `process.kill()` (kill -9)."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.url = f"http://{ADDRESS}:{port}"
        self._port = port

    def read_metrics(self) -> str:
        """What it says about itself at this moment, in Prometheus's text format."""
        status, text = self.get("/metrics")
        if status != http.client.OK:
            raise HarnessError(f"{self.url}/metrics: {status} {text[:200]}")
        return text

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text of what it answers there."""
        with closing(http.client.HTTPConnection(ADDRESS, self._port, timeout=60.0)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def read_logs(self) -> str:
        """Everything that it has written so far."""
        return self.process.log.read_text(errors="replace")

    def is_serving(self) -> bool:
        """Whether it serves its metrics; raises if it has ended."""
        self.process.check()
        try:
            self.read_metrics()
        except OSError:
            return False
        return True


@contextmanager
def run_controller(
    command: Sequence[str | Path], kubeconfig: Path, log: Path, flags: Iterable[str]
) -> Iterator[Controller]:
    """The program with these flags, from when its metrics answer until the end of the block."""
    [port] = reserve_ports(1)
    where = [f"--kubeconfig={kubeconfig}", f"--address={ADDRESS}:{port}"]
    process = Process([*command, *where, *flags], log)
    try:
        controller = Controller(process, port)
        until(f"{process.name} to serve its metrics", controller.is_serving)
        yield controller
    finally:
        process.stop()
