"""How fast a process of several components answers reviews while its recommender passes over 5,000 VPAs.

Alone is the same process with only the admission controller. Passes follow each other at once, so that every review
comes during one. Reviews come one at a time, as from one API server that creates pods of a rollout, over TLS, from a
client on a core of its own, which the API server shares. It is no part of what is measured, but its writes take place.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.admission.cluster import Size, review
from bench.admission.load import Load, load
from bench.admission.reviews import find_free_port, make_certificate, wait_until_ready, write_kubeconfig
from bench.measurement import ROOT, CannotMeasure, Row
from bench.run.api_server import serving
from testbed.scratch import scratch

SIZE = Size(5_000, 10_000)
SECONDS = 20.0
TIMES = 2.0
_PATIENCE_SECONDS = 120.0
_PASSES = re.compile(r'vpa_recommender_execution_latency_seconds_count\{.*step="total".*\} (\S+)')


def measure() -> list[Row]:
    """Both, against the same API server."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise CannotMeasure("one core for the process and one for its client are needed")
    bodies = [review(number * 37, SIZE) for number in range(500)]
    with serving(SIZE) as url:
        alone, _ = measure_one(url, bodies, "admission", cores)
        beside, passes = measure_one(url, bodies, "admission,recommender,updater", cores)
    times = beside.p99 / alone.p99
    return [
        Row("reviews of a process of one component", _describe(alone)),
        Row(f"{SIZE}: reviews beside passes of the recommender", _describe(beside)),
        Row("  passes meanwhile", f"{passes:.0f}", bar=">= 1", met=passes >= 1),
        Row("  p99, against alone", f"{times:.1f}x", bar=f"<= {TIMES:g}x", met=times <= TIMES),
    ]


def measure_one(url: str, bodies: list[bytes], components: str, cores: list[int]) -> tuple[Load, float]:
    """The load on a process of these components, and the passes of its recommender meanwhile."""
    with _running(url, components, cores[0]) as (port, metrics):
        if "recommender" in components:
            until = time.monotonic() + _PATIENCE_SECONDS
            while _count_passes(metrics) < 2:
                if time.monotonic() > until:
                    raise CannotMeasure("the recommender made no pass")
                time.sleep(1.0)
        before = _count_passes(metrics)
        measured = load(port, bodies, 1, SECONDS, cores[1])
        return measured, _count_passes(metrics) - before


def _describe(measured: Load) -> str:
    return f"p50 {measured.p50 * 1e3:.2f} ms, p99 {measured.p99 * 1e3:.2f} ms"


def _count_passes(url: str) -> float:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - our own
        found = _PASSES.search(response.read().decode())
    return float(found[1]) if found else 0.0


@contextmanager
def _running(url: str, components: str, core: int) -> Iterator[tuple[int, str]]:
    """The process, ready: the port of its webhook, and where its metrics are."""
    with scratch() as directory:
        certificate, key = make_certificate(directory)
        port, probes = find_free_port(), find_free_port()
        command = [
            *("taskset", "-c", str(core), sys.executable, "-m", "trellis", "run", f"--components={components}"),
            *(f"--kubeconfig={write_kubeconfig(directory, url)}", f"--address=127.0.0.1:{probes}", "--no-leader-elect"),
            *(f"--admission.port={port}", f"--admission.tls-cert-file={certificate}"),
            *(f"--admission.tls-private-key={key}", "--no-admission.register-webhook"),
        ]
        if "recommender" in components:
            command.append("--recommender.recommender-interval=1s")
        log = Path(os.environ.get("BENCH_LOG", directory / "log"))
        with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
            try:
                wait_until_ready(process, f"http://127.0.0.1:{probes}/readyz", log)
                yield port, f"http://127.0.0.1:{probes}/metrics"
            finally:
                process.terminate()
