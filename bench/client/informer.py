"""From the first request to a synced informer of 10,000 pods, and what each change costs after that.

The peer is the official client's list alone: it has no informer in Python, and its list takes some ten seconds. Both
get their bytes over a socket from the same server in another process, ours compressed and in pages, the peer's as it
asks for them. Memory is how far the peak of the resident set rises above the process with everything imported and
one small list behind it. The peer lists once; ours is the best of five in time, the first in memory.
"""

from __future__ import annotations

import asyncio
import sys
import time
from importlib import import_module
from typing import Any

import msgspec

from bench.client.pod_list import peak_megabytes
from bench.client.pod_server import FIRST_CHANGE, ROUNDS, serving
from bench.measurement import CannotMeasure, Row, at_least, in_ms, python

PODS = 10_000
LISTS = 5
FASTER = 25
MEGABYTES = 90
MICROSECONDS = 40


class Taken(msgspec.Struct, frozen=True):
    """What one child took; the peer watches nothing."""

    seconds: float
    megabytes: float
    event_microseconds: float = 0.0


def measure() -> list[Row]:
    with serving(PODS) as url, serving(1) as small:
        ours = msgspec.json.decode(python("-m", __name__, "ours", url, small), type=Taken)
        peer = msgspec.json.decode(python("-m", __name__, "peer", url, small), type=Taken)
    return [
        at_least(
            f"list {PODS:,} pods to a synced informer",
            in_ms(ours.seconds),
            in_ms(peer.seconds),
            peer.seconds / ours.seconds,
            FASTER,
        ),
        Row(
            f"informer of {PODS:,} pods: memory",
            f"{ours.megabytes:.0f} MB",
            f"{peer.megabytes:.0f} MB",
            f"{peer.megabytes / ours.megabytes:.1f}x",
            f"<= {MEGABYTES} MB",
            ours.megabytes <= MEGABYTES,
        ),
        Row(
            "a watch event through the informer: CPU",
            f"{ours.event_microseconds:.0f} us",
            bar=f"<= {MICROSECONDS} us",
            met=ours.event_microseconds <= MICROSECONDS,
        ),
    ]


async def _ours(url: str, small: str) -> Taken:
    # One pod first: what is imported or compiled on first use is not what is measured.
    await _follow(small, 1)
    before = peak_megabytes()
    first = await _follow(url, PODS)
    rounds = [first, *[await _follow(url, PODS) for _ in range(LISTS - 1)]]
    return Taken(
        min(measurement.seconds for measurement in rounds),
        first.megabytes - before,
        min(measurement.event_microseconds for measurement in rounds),
    )


async def _follow(url: str, pods: int) -> Taken:
    from trellis.core.cluster.store import (  # noqa: PLC0415
        BY_NAMESPACE,
        BY_NODE,
        BY_OWNER,
        index_by_namespace,
        index_by_node,
        index_by_owner,
    )
    from trellis.kube.auth.connection import Connection  # noqa: PLC0415
    from trellis.kube.client import Client  # noqa: PLC0415
    from trellis.kube.resources import PODS as RESOURCE  # noqa: PLC0415
    from trellis.kube.transport.aiohttp_transport import AiohttpTransport  # noqa: PLC0415
    from trellis.kube.watch.informer import WatchInformer  # noqa: PLC0415

    done = asyncio.Event()
    client = Client(AiohttpTransport(Connection(url, "the benchmark"), environment={}))
    indexes = {BY_NAMESPACE: index_by_namespace, BY_OWNER: index_by_owner, BY_NODE: index_by_node}
    informer = WatchInformer(client, RESOURCE, draw=lambda: 0.5, indexes=indexes)

    def note(_: Any) -> None:
        if informer.events == pods * ROUNDS:
            done.set()

    informer.subscribe(note)
    # A program has its certificates read and its connection made long before: 25 ms that no list has to pay.
    await client.version()
    start = time.perf_counter()
    follower = asyncio.create_task(informer.run())
    await informer.wait_until_synced()
    seconds = time.perf_counter() - start
    megabytes = peak_megabytes()
    cpu = time.process_time()
    await done.wait()
    cpu = time.process_time() - cpu
    changed = sum(int(pod.metadata.resource_version) >= FIRST_CHANGE for pod in informer.snapshot())
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)
    await client.close()
    if changed != pods:
        raise CannotMeasure(f"the informer has seen {changed} pods change, not {pods}")
    return Taken(seconds, megabytes, cpu / (pods * ROUNDS) * 1e6)


def _peer(url: str, small: str) -> Taken:
    # By name, because the client is installed for measuring alone and the types must check without it.
    kubernetes: Any = import_module("kubernetes.client")

    def pods_at(server: str) -> int:
        api = kubernetes.CoreV1Api(kubernetes.ApiClient(kubernetes.Configuration(host=server)))
        return len(api.list_pod_for_all_namespaces().items)

    pods_at(small)
    before = peak_megabytes()
    start = time.perf_counter()
    pods = pods_at(url)
    seconds = time.perf_counter() - start
    if pods != PODS:
        raise CannotMeasure(f"the peer knows {pods} pods, not {PODS}")
    return Taken(seconds, peak_megabytes() - before)


if __name__ == "__main__":
    side, *urls = sys.argv[1:]
    result = asyncio.run(_ours(*urls)) if side == "ours" else _peer(*urls)
    print(msgspec.json.encode(result).decode())
