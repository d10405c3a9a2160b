"""Measures a pass over 1,000 Buffers on 1,000 Deployments in a cluster with 20,000 pods, with nothing to do.

The process is `trellis buffers` as it is shipped, and all it sees comes over HTTP from a server that is not measured.
Once every Buffer has its status, no pass writes or asks for anything.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

from bench.buffers.api_server import BUFFERS, PODS, serving
from bench.measurement import CannotMeasure, Row, within
from bench.process_usage import cpu_seconds, peak_megabytes, resident_megabytes

# The bars of the whole.
SECONDS = 0.5
MEGABYTES = 200.0

_PASSES = 5
_PATIENCE_SECONDS = 180.0
_SUM = re.compile(r'trellis_buffers_execution_latency_seconds_sum\{step="total"\} (\S+)')
_COUNT = re.compile(r'trellis_buffers_execution_latency_seconds_count\{step="total"\} (\S+)')


def measure() -> list[Row]:
    """Start both, wait for all statuses, and then for some passes."""
    size = f"{BUFFERS:,} Buffers, {BUFFERS * PODS:,} pods"
    with serving(BUFFERS) as url, TemporaryDirectory() as directory, _running(url, Path(directory)) as (pid, metrics):
        began = time.perf_counter()
        _until(lambda: _number(f"{url}/writes") >= BUFFERS)
        first = time.perf_counter() - began
        before = _passes(metrics)
        _until(lambda: _passes(metrics)[0] >= before[0] + 1)
        before, cpu, writes = _passes(metrics), cpu_seconds(pid), _number(f"{url}/writes")
        _until(lambda: _passes(metrics)[0] >= before[0] + _PASSES)
        after = _passes(metrics)
        count = after[0] - before[0]
        spent, used = (after[1] - before[1]) / count, (cpu_seconds(pid) - cpu) / count
        written = _number(f"{url}/writes") - writes
        peak, now = peak_megabytes(pid), resident_megabytes(pid)
    return [
        within(f"{size}, nothing changed: a pass", spent, SECONDS),
        Row(f"{size}, nothing changed: CPU time between two passes", f"{used * 1000:.0f} ms"),
        Row(f"{size}, nothing changed: writes in {count:.0f} passes", f"{written:.0f}", bar="0", met=not written),
        Row(f"{size}: until every status is written", f"{first:.1f} s"),
        Row(
            f"{size}: memory of the process, at most (now {now:,.0f} MB)",
            f"{peak:,.0f} MB",
            bar=f"<= {MEGABYTES:,.0f} MB",
            met=peak <= MEGABYTES,
        ),
    ]


@contextmanager
def _running(url: str, directory: Path) -> Iterator[tuple[int, str]]:
    """`trellis buffers` against a server: its process, and where its metrics are."""
    config = directory / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
        f"clusters: [{{name: bench, cluster: {{server: '{url}'}}}}]\n"
        "contexts: [{name: bench, context: {cluster: bench, user: bench}}]\n"
        "users: [{name: bench, user: {token: none}}]\n"
    )
    log = directory / "log"
    flags = [f"--kubeconfig={config}", "--buffer-interval=5s", "--address=127.0.0.1:0"]
    command = [sys.executable, "-m", "trellis", "buffers", *flags]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            _until(lambda: "started" in log.read_text())
            result = re.search(r"address[=\": ]+\"?(\S+?:\d+)", log.read_text())
            if result is None:
                raise CannotMeasure(f"it did not say where its metrics are: {log.read_text()[-500:]}")
            yield process.pid, f"http://{result[1]}/metrics"
        finally:
            process.kill()


def _passes(metrics: str) -> tuple[float, float]:
    """How many passes there were, and how long they took in all."""
    text = _text(metrics)
    count, total = _COUNT.search(text), _SUM.search(text)
    return (float(count[1]), float(total[1])) if count and total else (0.0, 0.0)


def _number(url: str) -> float:
    return float(_text(url))


def _text(url: str) -> str:
    with urlopen(url, timeout=30) as response:  # noqa: S310 - our own servers
        body: bytes = response.read()
    return body.decode()


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(URLError):
            if holds():
                return
        time.sleep(1.0)
    raise CannotMeasure("what was waited for did not come")
