"""Runs a real Prometheus: with the samples that a test gives it, or scraping programs of the test.

promtool turns OpenMetrics text with timestamps into blocks, and Prometheus serves them.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

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

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an instant query returns; raises `HarnessError` if Prometheus refuses it."""
        series: list[dict[str, Any]] = self._get(f"/api/v1/query?{urlencode({'query': expression})}")["result"]
        return series

    def list_alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or fire."""
        alerts: list[dict[str, Any]] = self._get("/api/v1/alerts")["alerts"]
        return alerts

    def _get(self, path: str) -> Any:
        with closing(http.client.HTTPConnection(ADDRESS, self._port, timeout=60.0)) as connection:
            connection.request("GET", path)
            answer = json.loads(connection.getresponse().read())
        if answer["status"] != "success":
            raise HarnessError(f"Prometheus refuses {path}: {answer.get('error')}")
        return answer["data"]


@contextmanager
def serving(directory: Path, openmetrics: str | Iterable[str], *flags: str, block: str = "2h") -> Iterator[Prometheus]:
    """A server that knows these samples, a text or pieces of one, with its files in an existing, empty directory.

    Writing a block of so long a time takes a look at all of the text: many samples want long ones.
    """
    programs = ensure_programs([PROMETHEUS, PROMTOOL])
    _write_blocks(programs[PROMTOOL.name], directory, openmetrics, block)
    # Blocks stay as they are: a test does not wait for them to be merged.
    as_they_are = ["--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h"]
    retention = f"--storage.tsdb.retention.time={RETENTION}"
    with _running(programs[PROMETHEUS.name], directory, {"scrape_configs": []}, retention, *as_they_are, *flags) as it:
        yield it


@contextmanager
def scraping(
    directory: Path, jobs: Iterable[Mapping[str, Any]], rules: Iterable[Path] = (), *, interval: str = "1s"
) -> Iterator[Prometheus]:
    """A server that scrapes these jobs and evaluates these rules at an interval, with its files in a directory."""
    programs = ensure_programs([PROMETHEUS])
    configuration = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [dict(job) for job in jobs],
    }
    with _running(programs[PROMETHEUS.name], directory, configuration) as server:
        yield server


@contextmanager
def _running(program: Path, directory: Path, configuration: Mapping[str, Any], *flags: str) -> Iterator[Prometheus]:
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(dict(configuration)))
    [port] = reserve_ports(1)
    command: list[str | Path] = [
        program,
        f"--config.file={path}",
        f"--storage.tsdb.path={directory / 'data'}",
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
