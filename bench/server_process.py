"""Runs a server in a process of its own, on 127.0.0.1, which prints its URL once it serves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from bench.measurement import ROOT, CannotMeasure


@contextmanager
def server_process(module: str, *numbers: int) -> Iterator[str]:
    """The URL of a module that calls `serve`, for as long as it is needed; it is run with these arguments."""
    command = [sys.executable, "-m", module, *map(str, numbers)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline() if server.stdout else ""
            if not url.startswith("http"):
                raise CannotMeasure(f"{module} did not start")
            yield url.strip()
        finally:
            server.kill()


async def serve(runner: web.BaseRunner) -> None:
    """Serve until killed."""
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()
