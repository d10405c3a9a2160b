"""Measures how many reviews a second a webhook answers, and how fast, over TLS on connections that stay open.

A client of its own, because what is measured is the server: it writes bytes that were made before and looks at no more
of an answer than its length and its first line. Run as a module on a core of its own.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measurement import ROOT, CannotMeasure

_HEAD = (
    b"POST /?timeout=5s HTTP/1.1\r\nHost: vpa-webhook.kube-system.svc\r\nUser-Agent: kube-apiserver-admission\r\n"
    b"Content-Length: %d\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)
_OK = b"HTTP/1.1 200"
_PATCH = b'"patch":'
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class LoadRequest(msgspec.Struct, frozen=True):
    """The reviews to send, and where. `seconds` counts after a first second that does not."""

    port: int
    bodies: tuple[bytes, ...]
    concurrency: int
    seconds: float


class Load(msgspec.Struct, frozen=True):
    """What it came to. `patched` is how many of the answers changed something; `answered` are all, early ones too."""

    reviews: int
    rate: float
    p50: float
    p99: float
    patched: int
    failed: int
    answered: int


def load(port: int, bodies: Sequence[bytes], concurrency: int, seconds: float, core: int | None = None) -> Load:
    """Ask from a process of its own, on that core."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "asked")
        path.write_bytes(msgspec.msgpack.encode(LoadRequest(port, tuple(bodies), concurrency, seconds)))
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        command = [*pinned, sys.executable, "-m", "bench.admission.load", str(path)]
        completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise CannotMeasure(f"the client failed: {completed.stderr.strip()[-500:]}")
    result = msgspec.json.decode(completed.stdout, type=Load)
    if result.failed or not result.reviews:
        raise CannotMeasure(f"{result.failed} of {result.reviews} reviews failed")
    return result


class _Client(asyncio.Protocol):
    def __init__(self, run: _Run, first: int) -> None:
        self._run = run
        self._next = first
        self._held = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._send()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._run.closed()

    def data_received(self, data: bytes) -> None:
        held = self._held + data if self._held else data
        if _is_complete(held):
            self._held = b""
            self._run.answered(self._sent_at, ok=held.startswith(_OK), patched=_PATCH in held)
            self._send()
            return
        self._held = held

    def _send(self) -> None:
        if self._transport is None:
            return
        now = time.perf_counter()
        if now >= self._run.until:
            self._transport.close()
            return
        requests = self._run.requests
        self._sent_at = now
        self._transport.write(requests[self._next % len(requests)])
        self._next += 1


def _is_complete(held: bytes) -> bool:
    """Whether an answer has come to its end: by its length, or by its last chunk, as Go sends what is long."""
    end = held.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = held[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        return held.endswith(_LAST_CHUNK)
    return len(held) >= end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])


class _Run:
    def __init__(self, request: LoadRequest) -> None:
        self.requests = [_HEAD % len(body) + body for body in request.bodies]
        self._request = request
        self._finished = asyncio.Event()
        self._open = request.concurrency
        self._seconds: list[float] = []
        self._patched = self._failed = self._answered = 0
        self._counts_from = time.perf_counter() + 1.0
        self.until = self._counts_from + request.seconds

    async def run(self) -> Load:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        loop = asyncio.get_running_loop()
        # Apart from each other: no webhook gets the same review twice in a row.
        distance = len(self.requests) // self._request.concurrency
        for number in range(self._request.concurrency):
            await loop.create_connection(
                lambda first=number * distance: _Client(self, first),  # type: ignore[misc]
                "127.0.0.1",
                self._request.port,
                ssl=context,
                server_hostname="vpa-webhook.kube-system.svc",
            )
        await self._finished.wait()
        seconds = sorted(self._seconds)
        count = len(seconds)
        p50, p99 = (seconds[count // 2], seconds[int(count * 0.99)]) if seconds else (0.0, 0.0)
        return Load(count, count / self._request.seconds, p50, p99, self._patched, self._failed, self._answered)

    def answered(self, sent_at: float, *, ok: bool, patched: bool) -> None:
        now = time.perf_counter()
        self._failed += not ok
        self._answered += 1
        if self._counts_from <= now < self.until:
            self._seconds.append(now - sent_at)
            self._patched += patched

    def closed(self) -> None:
        self._open -= 1
        if time.perf_counter() < self.until:
            self._failed += 1
        if not self._open:
            self._finished.set()


if __name__ == "__main__":
    import uvloop

    asked = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=LoadRequest)

    async def _main() -> Load:
        return await _Run(asked).run()

    print(msgspec.json.encode(uvloop.run(_main())).decode())
