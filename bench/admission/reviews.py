"""What a review costs, what the admission controller weighs, and how many reviews it answers on one core.

The CPU of a review is taken without server and TLS, in one process with the very objects of the real one, for three
sizes of cluster: it must not depend on how many VPAs there are. The rest is the real process, started as a user starts
it, pinned to the first core, and asked over TLS from the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.admission.cluster import Size, review, serving
from bench.admission.load import load
from bench.measurement import ROOT, CannotMeasure, Row, python
from bench.process_usage import cpu_seconds, resident_megabytes
from testbed.access.certificates import Authority
from testbed.scratch import scratch

SIZES = (Size(10, 50), Size(1_000, 5_000), Size(10_000, 50_000))
LARGEST = SIZES[-1]
MICROSECONDS = 100.0
# Of what it costs with ten VPAs. The caches of a processor are smaller than ten thousand of them.
GROWTH = 1.5
MEGABYTES = 150.0
RATE = 5_000.0
P99 = 0.008
P50_ALONE = 0.00022

_BODIES = 500
_ROUNDS = 20
_SECONDS = 5.0
_READY_SECONDS = 120.0


class Cost(msgspec.Struct, frozen=True):
    """CPU seconds of one review, of one unlike all before it, and the size of its body."""

    seconds: float
    anew: float
    bytes: int


def measure() -> list[Row]:
    costs = [_cost(size) for size in SIZES]
    growth = costs[-1].seconds / costs[0].seconds
    rows = [
        Row(
            f"review of a {cost.bytes / 1000:.1f} KB pod of a rollout, {size}: CPU",
            f"{cost.seconds * 1e6:.0f} us",
            bar=f"<= {MICROSECONDS:.0f} us",
            met=cost.seconds * 1e6 <= MICROSECONDS,
        )
        for size, cost in zip(SIZES, costs, strict=True)
    ]
    rows.append(
        Row("the same, 1,000 times as many VPAs", f"{growth:.2f}x", bar=f"<= {GROWTH:g}x", met=growth <= GROWTH)
    )
    anew = costs[-1].anew
    rows.append(
        Row(
            "the first pod of a template: CPU",
            f"{anew * 1e6:.0f} us",
            bar=f"<= {MICROSECONDS:.0f} us",
            met=anew * 1e6 <= MICROSECONDS,
        )
    )
    return rows + _served(LARGEST)


def _cost(size: Size) -> Cost:
    with serving(size) as url:
        taken = python("-m", "bench.admission.reviews", url, str(size.vpas), str(size.replica_sets))
    return msgspec.json.decode(taken, type=Cost)


def _served(size: Size) -> list[Row]:
    bodies = [review(number * 37, size) for number in range(_BODIES)]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise CannotMeasure("one core for the server and one for the client are needed")
    with serving(size) as url, _controller(url, cores[0]) as (pid, port):
        settled = resident_megabytes(pid)
        alone = load(port, bodies, 1, _SECONDS, cores[1])
        before = cpu_seconds(pid)
        many = load(port, bodies, 16, _SECONDS, cores[1])
        cpu = (cpu_seconds(pid) - before) / many.answered
        after = resident_megabytes(pid)
    if many.patched != many.reviews:
        raise CannotMeasure(f"{many.reviews - many.patched} of {many.reviews} pods were not sized")
    return [
        Row(
            f"admission controller, {size}: memory",
            f"{settled:.0f} MB, {after:.0f} MB after load",
            bar=f"<= {MEGABYTES:.0f} MB",
            met=after <= MEGABYTES,
        ),
        Row(
            "reviews over TLS on one core, one at a time",
            f"{alone.rate:,.0f}/s, p50 {alone.p50 * 1e3:.2f} ms, p99 {alone.p99 * 1e3:.2f} ms",
            bar=f"p50 <= {P50_ALONE * 1e3:.2f} ms",
            met=alone.p50 <= P50_ALONE,
        ),
        Row(
            "reviews over TLS on one core, 16 at a time",
            f"{many.rate:,.0f}/s, p50 {many.p50 * 1e3:.2f} ms, p99 {many.p99 * 1e3:.2f} ms",
            bar=f">= {RATE:,.0f}/s, p99 <= {P99 * 1e3:g} ms",
            met=many.rate >= RATE and many.p99 <= P99,
        ),
        Row("CPU of such a review, all in all", f"{cpu * 1e6:.0f} us"),
    ]


@contextlib.contextmanager
def _controller(url: str, core: int) -> Iterator[tuple[int, int]]:
    """The real process, ready; its number and the port on which it takes reviews."""
    with scratch() as directory:
        kubeconfig = write_kubeconfig(directory, url)
        certificate, key = make_certificate(directory)
        port, probes = find_free_port(), find_free_port()
        command = [
            *("taskset", "-c", str(core), sys.executable, "-m", "trellis", "admission-controller"),
            *(f"--kubeconfig={kubeconfig}", f"--port={port}", f"--address=127.0.0.1:{probes}"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key={key}", "--register-webhook=false"),
            "--read-only=true",
        ]
        log = directory / "log"
        with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
            try:
                wait_until_ready(process, f"http://127.0.0.1:{probes}/readyz", log)
                yield process.pid, port
            finally:
                process.terminate()


def write_kubeconfig(directory: Path, url: str) -> Path:
    named = [{"name": "bench", "cluster": {"server": url}}]
    contexts = [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]
    users = [{"name": "bench", "user": {"token": "none"}}]
    whole = {"clusters": named, "contexts": contexts, "users": users, "current-context": "bench"}
    path = directory / "kubeconfig"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "Config", **whole}))
    return path


def make_certificate(directory: Path) -> tuple[Path, Path]:
    pair = Authority.new("bench").issue_server("webhook", "vpa-webhook.kube-system.svc")
    certificate, key = pair.save(directory, "webhook")
    return certificate, key


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=2)  # noqa: S310 - our own
            return
        time.sleep(0.1)
    raise CannotMeasure(f"the admission controller is not ready: {log.read_text()[-500:]}")


async def _take(url: str, size: Size) -> Cost:
    from trellis.base.python_gc import freeze_live_objects  # noqa: PLC0415
    from trellis.controllers.admission.metrics import ADMISSION_METRICS  # noqa: PLC0415
    from trellis.controllers.admission.process import ReviewService  # noqa: PLC0415
    from trellis.controllers.admission.settings import AdmissionSettings  # noqa: PLC0415
    from trellis.controllers.admission.webhook.server import HttpReply  # noqa: PLC0415
    from trellis.core.admission.decisions import DecisionCache  # noqa: PLC0415
    from trellis.kube.auth.connection import Connection  # noqa: PLC0415
    from trellis.kube.client import Client  # noqa: PLC0415
    from trellis.kube.transport.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    from trellis.runtime.informers import Informers  # noqa: PLC0415
    from trellis.runtime.optional_kinds import UnreadableKinds  # noqa: PLC0415
    from trellis.runtime.tasks import run_all  # noqa: PLC0415
    from trellis.runtime.telemetry.logs import Logger  # noqa: PLC0415
    from trellis.runtime.telemetry.metrics import Metrics  # noqa: PLC0415

    client = Client(AiohttpTransport(Connection(url, "the benchmark"), environment={}))
    settings, metrics = AdmissionSettings(), Metrics(ADMISSION_METRICS)
    informers = Informers(client, UnreadableKinds(metrics, Logger("bench")), draw=lambda: 0.5)
    admission = ReviewService(
        client,
        informers,
        settings,
        metrics,
        await client.discover(),
        draw=lambda: 0.5,
        on_warmed_up=freeze_live_objects,
    )
    running = asyncio.create_task(run_all(informers.run(), admission.run()))
    while admission.find_readiness_problem():  # noqa: ASYNC110 - a benchmark
        await asyncio.sleep(0.01)
    bodies = [review(number * 37, size) for number in range(_BODIES)]

    def best() -> float:
        result = float("inf")
        for _ in range(_ROUNDS):
            began = time.process_time()
            for body in bodies:
                reply = admission.handler.review(body)
                if not isinstance(reply, HttpReply) or b'"patch":' not in reply.body:
                    raise CannotMeasure("a pod was not sized")
            admission.review_metrics.enter()
            result = min(result, (time.process_time() - began) / len(bodies))
        return result

    remembered = best()
    admission.decisions.admitter.cache = DecisionCache(capacity=0)
    anew = best()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()
    return Cost(remembered, anew, len(bodies[0]))


if __name__ == "__main__":
    taken = asyncio.run(_take(sys.argv[1], Size(*map(int, sys.argv[2:]))))
    print(msgspec.json.encode(taken).decode())
