"""Reads the current usage of containers from metrics.k8s.io.

All pods come in one response, 20 MB for 50,000 of them. It is decoded item by item, so that a malformed item affects no
other, and so that other threads run in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.kube.decoder import convert_leniently
from trellis.api.kube.slices import QuantityText
from trellis.base.errors import InvalidTime, ServerFault, UnreadableObject
from trellis.base.times import parse_time
from trellis.core.usage.samples import Samples
from trellis.kube.client import Client
from trellis.kube.resources import POD_METRICS
from trellis.kube.transport.requests import Request, build_list
from trellis.sources.amounts import (
    UNREADABLE_AMOUNT,
    UNREADABLE_ENTRY,
    WITHOUT_TIME,
    count_by_code,
    parse_bytes,
    parse_cores,
)

# What is read on the event loop itself: a millisecond or two.
_SHORT_BYTES: Final = 1 << 18


class PodMetricsBatch(msgspec.Struct, frozen=True):
    """A response in columns. `unread` counts unreadable entries by reason code."""

    samples: Samples
    unread: Mapping[str, int]


class _UsageField(msgspec.Struct, frozen=True, gc=False):
    cpu: QuantityText | None = None
    memory: QuantityText | None = None


class _ContainerMetrics(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    usage: _UsageField = _UsageField()


class _PodMetricsMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str


class _PodMetricsItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _PodMetricsMetadata
    timestamp: str = ""
    containers: tuple[_ContainerMetrics, ...] = ()


class _PodMetricsList(msgspec.Struct):
    """`items` is required: what has none is not a list without usage, but something else."""

    items: list[msgspec.Raw] | None


_LISTS: Final = msgspec.json.Decoder(_PodMetricsList)
_ITEMS: Final = msgspec.json.Decoder(_PodMetricsItem)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class MetricsApi:
    """metrics.k8s.io of one cluster; of one namespace alone if it is given."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self._client = client
        self._namespace = namespace

    async def fetch(self) -> PodMetricsBatch:
        """The newest sample of every container; raises `KubeError`."""
        body = (await self._client.send(_build_request(self._namespace))).body
        try:
            if len(body) <= _SHORT_BYTES:
                return read_pod_metrics(body)
            return await asyncio.to_thread(read_pod_metrics, body)
        except UnreadableObject as error:
            raise ServerFault(200, "UnreadableMetrics", f"metrics.k8s.io: {error}") from error


def read_pod_metrics(body: bytes) -> PodMetricsBatch:
    """The body of a PodMetricsList; raises `UnreadableObject` if it is not one."""
    try:
        raws = _LISTS.decode(body).items or []
    except _UNREADABLE as error:
        raise UnreadableObject("PodMetricsList", f"cannot be read: {error}") from error
    columns = _PodMetricsColumns()
    columns.add_items(raws)
    return columns.build_batch()


class _PodMetricsColumns:
    """Usage as it is gathered, a column for each thing that is known of a container."""

    def __init__(self) -> None:
        self.namespaces: list[str] = []
        self.pods: list[str] = []
        self.containers: list[str] = []
        self.times: list[float] = []
        self.cpu: list[str | None] = []
        self.memory: list[str | None] = []
        self.unreadable = 0
        self.without_time = 0

    def add_items(self, raws: Iterable[msgspec.Raw]) -> None:
        # Of 50,000 pods no more than sixty have different times: metrics-server scrapes all of them once a minute.
        seconds_by_text: dict[str, float] = {}
        for raw in raws:
            item = _decode_item(raw)
            if item is None or not item.metadata.name or not item.metadata.namespace:
                self.unreadable += 1
                continue
            time = seconds_by_text.get(item.timestamp)
            if time is None:
                time = seconds_by_text[item.timestamp] = _parse_seconds(item.timestamp)
            if time <= 0.0:
                self.without_time += 1
                continue
            namespace, pod = item.metadata.namespace, item.metadata.name
            for container in item.containers:
                if not container.name:
                    self.unreadable += 1
                    continue
                self.namespaces.append(namespace)
                self.pods.append(pod)
                self.containers.append(container.name)
                self.times.append(time)
                self.cpu.append(container.usage.cpu)
                self.memory.append(container.usage.memory)

    def build_batch(self) -> PodMetricsBatch:
        cpu, unreadable_cpu = parse_cores(self.cpu)
        memory, unreadable_memory = parse_bytes(self.memory)
        unread = {
            UNREADABLE_ENTRY: self.unreadable,
            WITHOUT_TIME: self.without_time,
            UNREADABLE_AMOUNT: unreadable_cpu + unreadable_memory,
        }
        times = np.array(self.times, dtype=np.float64)
        return PodMetricsBatch(
            Samples(self.namespaces, self.pods, self.containers, times, cpu, memory), count_by_code(unread)
        )


def _build_request(namespace: str) -> Request:
    """A request for all pods at once: metrics.k8s.io has no pages.

    And not compressed. Unpacking 20 MB would hold up the event loop for 0.1 s, and packing them the server.
    """
    request = build_list(POD_METRICS, namespace, limit=0)
    return msgspec.structs.replace(request, headers={**request.headers, "Accept-Encoding": "identity"})


def _decode_item(raw: msgspec.Raw) -> _PodMetricsItem | None:
    try:
        return _ITEMS.decode(raw)
    except _UNREADABLE:
        pass
    try:
        document: Any = msgspec.json.decode(raw)
        return convert_leniently(document, _PodMetricsItem)
    except _UNREADABLE:
        return None


def _parse_seconds(text: str) -> float:
    """Seconds since 1970; negative for an invalid time and for Go's zero."""
    try:
        return parse_time(text).timestamp()
    except InvalidTime:
        return -1.0
