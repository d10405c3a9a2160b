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


class _Pods:
    """When each was due, and when it was seen with less."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.left = {(group.namespace, name) for group in groups for name in group.names()}
        self.due: dict[tuple[str, str], float] = {}
        self.seen: dict[tuple[str, str], float] = {}
        self.done = asyncio.Event()

    def show(self, namespace: str, name: str) -> None:
        self.seen[namespace, name] = time.time()
        self.left.discard((namespace, name))
        if not self.left:
            self.done.set()


def unboost_times(cluster: Cluster, groups: Sequence[Group]) -> list[float]:
    """Seconds for each pod of these groups, which are boosted and not Ready."""
    return asyncio.run(_unboost_times(cluster, groups))


async def _unboost_times(cluster: Cluster, groups: Sequence[Group]) -> list[float]:
    pods = _Pods(groups)
    async with session(cluster) as client:
        watches = [asyncio.create_task(_watch(client, group, pods)) for group in groups]
        try:
            await asyncio.sleep(0.5)
            await _make_ready(client, groups, pods)
            async with asyncio.timeout(PATIENCE):
                await pods.done.wait()
        except TimeoutError:
            raise CannotMeasure(f"{len(pods.left)} pods are still boosted after {PATIENCE:g} s") from None
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.wait(watches)
    return sorted(pods.seen[pod] - due for pod, due in pods.due.items())


async def _make_ready(client: aiohttp.ClientSession, groups: Sequence[Group], pods: _Pods) -> None:
    """Evenly over the time, a pod of each group in turn."""
    each = [[(group, name) for name in group.names()] for group in groups]
    order = [pod for turn in zip(*each, strict=True) for pod in turn]
    began = time.monotonic()
    async with asyncio.TaskGroup() as writes:
        for number, (group, name) in enumerate(order):
            await asyncio.sleep(began + number * WITHIN / len(order) - time.monotonic())
            writes.create_task(_become_ready(client, group, name, pods))


async def _become_ready(client: aiohttp.ClientSession, group: Group, name: str, pods: _Pods) -> None:
    """Conditions tell whole seconds: a boost that lasts for some is over by those, and none before it was written."""
    now = datetime.now(UTC).replace(microsecond=0)
    await send(client, patched(f"{group.path}/{name}/status", becoming_ready(now)))
    pods.due[group.namespace, name] = max(time.time(), now.timestamp() + (group.boost or 0))


async def _watch(client: aiohttp.ClientSession, group: Group, pods: _Pods) -> None:
    async with client.get(f"{group.path}?watch=true", timeout=aiohttp.ClientTimeout(total=None)) as answer:
        async for line in answer.content:
            pod = json.loads(line)["object"]
            name = pod["metadata"]["name"]
            if (group.namespace, name) in pods.left and not is_boosted(pod):
                pods.show(group.namespace, name)
