"""Runs a real Prometheus with the samples that a test gives it.

promtool turns OpenMetrics text with timestamps into blocks, and Prometheus serves them. It scrapes nothing.
"""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from testbed.components import ADDRESS
from testbed.errors import HarnessError
from testbed.processes import Process, reserve_ports
from testbed.programs.building import ensure_programs
from testbed.programs.versions import PROMETHEUS, PROMTOOL
from testbed.waiting import until

# OpenMetrics must end so; a text without it counts as cut off.
END = "# EOF\n"

# Longer than any test looks back, or Prometheus would delete what it was just given.
RETENTION = "100y"


class Prometheus:
    """A running server; `process` may be killed or frozen by a test of what its readers do then."""

    def __init__(self, port: int, process: Process) -> None:
        self.url = f"http://{ADDRESS}:{port}"
        self.process = process
        self._port = port

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        self.process.check()
        with closing(http.client.HTTPConnection(ADDRESS, self._port, timeout=5.0)) as connection:
            try:
                connection.request("GET", "/-/ready")
                return connection.getresponse().status == http.client.OK
            except OSError:
                return False


@contextmanager
def serving(directory: Path, openmetrics: str | Iterable[str], *flags: str, block: str = "2h") -> Iterator[Prometheus]:
    """A server that knows these samples, a text or pieces of one, with its files in an existing, empty directory.

    Writing a block of so long a time takes a look at all of the text: many samples want long ones.
    """
    programs = ensure_programs([PROMETHEUS, PROMTOOL])
    _write_blocks(programs[PROMTOOL.name], directory, openmetrics, block)
    configuration = directory / "prometheus.yml"
    configuration.write_text("scrape_configs: []\n")
    [port] = reserve_ports(1)
    command: list[str | Path] = [
        programs[PROMETHEUS.name],
        f"--config.file={configuration}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        # Blocks stay as they are: a test does not wait for them to be merged.
        "--storage.tsdb.min-block-duration=2h",
        "--storage.tsdb.max-block-duration=2h",
        f"--web.listen-address={ADDRESS}:{port}",
        *flags,
    ]
    process = Process(command, directory / "prometheus.log")
    try:
        server = Prometheus(port, process)
        until("Prometheus to be ready", server.is_ready)
        yield server
    finally:
        process.kill()


def _write_blocks(promtool: Path, directory: Path, openmetrics: str | Iterable[str], block: str) -> None:
    """Without a sample there is no block; Prometheus then starts empty."""
    text = directory / "history.txt"
    with text.open("w") as file:
        last = ""
        for piece in [openmetrics] if isinstance(openmetrics, str) else openmetrics:
            file.write(piece)
            last = piece
        if not last.endswith(END):
            file.write(END)
    data = directory / "data"
    how = ["--quiet", f"--max-block-duration={block}"]
    command: list[str | Path] = [promtool, "tsdb", "create-blocks-from", "openmetrics", *how, text, data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"promtool refused the samples: {(done.stderr or done.stdout).strip()[-2000:]}")
