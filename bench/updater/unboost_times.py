"""Measures how late a boost ends: from when a pod has been Ready for its duration to its lower spec.

The bench writes that a pod is Ready, as its kubelet would, and watches for the resize.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import aiohttp

from bench.client.request_rate import patched, send, session
from bench.measurement import CannotMeasure
from bench.updater.cluster import Group, becoming_ready, is_boosted
from testbed.cluster import Cluster

# All pods become Ready within so many seconds.
WITHIN = 10.0
PATIENCE = 60.0


class _BoostedPods:
    """When each was due, and when it was seen with less."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.boosted = {(group.namespace, name) for group in groups for name in group.names()}
        self.ends: dict[tuple[str, str], float] = {}
        self.unboosted: dict[tuple[str, str], float] = {}
        self.all_unboosted = asyncio.Event()

    def record_unboosted(self, namespace: str, name: str) -> None:
        self.unboosted[namespace, name] = time.time()
        self.boosted.discard((namespace, name))
        if not self.boosted:
            self.all_unboosted.set()


def measure_unboost_delays(cluster: Cluster, groups: Sequence[Group]) -> list[float]:
    """Seconds for each pod of these groups, which are boosted and not Ready."""
    return asyncio.run(_measure_unboost_delays(cluster, groups))


async def _measure_unboost_delays(cluster: Cluster, groups: Sequence[Group]) -> list[float]:
    pods = _BoostedPods(groups)
    async with session(cluster) as client:
        watches = [asyncio.create_task(_watch(client, group, pods)) for group in groups]
        try:
            await asyncio.sleep(0.5)
            await _make_ready(client, groups, pods)
            async with asyncio.timeout(PATIENCE):
                await pods.all_unboosted.wait()
        except TimeoutError:
            raise CannotMeasure(f"{len(pods.boosted)} pods are still boosted after {PATIENCE:g} s") from None
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.wait(watches)
    return sorted(pods.unboosted[pod] - end for pod, end in pods.ends.items())


async def _make_ready(client: aiohttp.ClientSession, groups: Sequence[Group], pods: _BoostedPods) -> None:
    """Evenly over the time, a pod of each group in turn."""
    pods_by_group = [[(group, name) for name in group.names()] for group in groups]
    order = [pod for turn in zip(*pods_by_group, strict=True) for pod in turn]
    began = time.monotonic()
    async with asyncio.TaskGroup() as writes:
        for number, (group, name) in enumerate(order):
            await asyncio.sleep(began + number * WITHIN / len(order) - time.monotonic())
            writes.create_task(_write_ready(client, group, name, pods))


async def _write_ready(client: aiohttp.ClientSession, group: Group, name: str, pods: _BoostedPods) -> None:
    """Conditions tell whole seconds: a boost that lasts for some is over by those, and none before it was written."""
    now = datetime.now(UTC).replace(microsecond=0)
    await send(client, patched(f"{group.path}/{name}/status", becoming_ready(now)))
    pods.ends[group.namespace, name] = max(time.time(), now.timestamp() + (group.boost or 0))


async def _watch(client: aiohttp.ClientSession, group: Group, pods: _BoostedPods) -> None:
    async with client.get(f"{group.path}?watch=true", timeout=aiohttp.ClientTimeout(total=None)) as response:
        async for line in response.content:
            pod = json.loads(line)["object"]
            name = pod["metadata"]["name"]
            if (group.namespace, name) in pods.boosted and not is_boosted(pod):
                pods.record_unboosted(group.namespace, name)
