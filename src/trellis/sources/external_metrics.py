"""Reads the current usage of containers from external.metrics.k8s.io.

Upstream's `--use-external-metrics`, with two differences. One request brings a metric for all pods that a VPA
selects, where upstream makes one for each pod: the label `pod` of a value says which it is of. Only where no value
has that label, or the whole is refused, is each pod asked for, as upstream does. And what cannot be read is
reported and affects no other VPA and no other pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np

from trellis.api.kube.decoder import convert_leniently
from trellis.api.kube.slices import NOTHING, Labels, QuantityText
from trellis.base.errors import InvalidTime, KubeError, UnreadableObject
from trellis.base.selectors import Selector
from trellis.base.times import parse_time
from trellis.core.usage.samples import Samples
from trellis.kube.client import Client
from trellis.kube.transport.requests import JSON, Request
from trellis.sources.amounts import (
    UNREADABLE_AMOUNT,
    UNREADABLE_ENTRY,
    WITHOUT_TIME,
    count_by_code,
    parse_bytes,
    parse_cores,
)

GROUP: Final = "external.metrics.k8s.io/v1beta1"
# The label by which upstream tells pods apart.
POD_LABEL: Final = "pod"
# An adapter asks its own database for each of them.
_MOST_AT_ONCE: Final = 10

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ExternalQuery(msgspec.Struct, frozen=True):
    """A VPA that governs pods, the selector of its target, and the names of the pods."""

    namespace: str
    vpa: str
    selector: Selector
    pods: tuple[str, ...] = ()


class ExternalProblem(msgspec.Struct, frozen=True):
    """A metric that could not be read, for which VPA, and why."""

    namespace: str
    vpa: str
    metric: str
    message: str


class ExternalBatch(msgspec.Struct, frozen=True):
    """The responses in columns. `unread` counts unreadable entries by reason code."""

    samples: Samples
    problems: tuple[ExternalProblem, ...]
    unread: Mapping[str, int]


class _ExternalMetricValue(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metric_labels: Labels = NOTHING
    timestamp: str = ""
    value: QuantityText | None = None


class _ExternalMetricList(msgspec.Struct):
    items: list[msgspec.Raw] | None


class _SampleKey(NamedTuple):
    """The key of a sample: CPU and memory of the same container and time belong together."""

    namespace: str
    pod: str
    container: str
    time: float


class _MetricValues(NamedTuple):
    """The values of a metric by requested pod, empty for all at once, and the problem of the rest."""

    values: Mapping[str, Sequence[msgspec.Raw]]
    problem: str = ""


_LISTS: Final = msgspec.json.Decoder(_ExternalMetricList)


class ExternalMetrics:
    """external.metrics.k8s.io of one cluster. A metric without a name is not asked for."""

    def __init__(self, client: Client, *, cpu_metric: str, memory_metric: str, container_label: str) -> None:
        self._client = client
        self._metrics = {"cpu": cpu_metric, "memory": memory_metric}
        self._container_label = container_label

    async def fetch(self, queries: Sequence[ExternalQuery]) -> ExternalBatch:
        """The newest sample of every container that these VPAs select, and what went wrong."""
        semaphore = asyncio.Semaphore(_MOST_AT_ONCE)
        collector = _SampleCollector(self._container_label)
        requests = [
            (query, resource, metric)
            for query in queries
            if not query.selector.selects_nothing
            for resource, metric in self._metrics.items()
            if metric
        ]
        results = await asyncio.gather(*(self._query(query, metric, semaphore) for query, _, metric in requests))
        problems = []
        for (query, resource, metric), result in zip(requests, results, strict=True):
            if result.problem:
                problems.append(ExternalProblem(query.namespace, query.vpa, metric, result.problem))
            for pod, values in result.values.items():
                collector.add_values(query.namespace, resource, values, pod)
        return collector.build_batch(tuple(problems))

    async def _query(self, query: ExternalQuery, metric: str, semaphore: asyncio.Semaphore) -> _MetricValues:
        values = await self._list(query, metric, "", semaphore)
        if isinstance(values, list):
            if not query.pods or any(map(_has_pod_name, values)):
                return _MetricValues({"": values})
        # An adapter that serves single pods only serves the first; otherwise the others need no requests.
        elif not query.pods or isinstance(await self._list(query, metric, query.pods[0], semaphore), str):
            return _MetricValues({}, values)
        parts = await asyncio.gather(*(self._list(query, metric, pod, semaphore) for pod in query.pods))
        return _combine_pods(dict(zip(query.pods, parts, strict=True)))

    async def _list(
        self, query: ExternalQuery, metric: str, pod: str, semaphore: asyncio.Semaphore
    ) -> list[msgspec.Raw] | str:
        """The values of a metric, of one pod if it is named; or what is wrong."""
        selectors = [str(query.selector), f"{POD_LABEL}={pod}" if pod else ""]
        request = _build_request(query.namespace, metric, ",".join(filter(None, selectors)))
        try:
            async with semaphore:
                return _LISTS.decode((await self._client.send(request)).body).items or []
        except KubeError as error:
            return str(error)
        except _UNREADABLE as error:
            return str(UnreadableObject("ExternalMetricValueList", f"cannot be read: {error}"))


class _SampleCollector:
    def __init__(self, container_label: str) -> None:
        self._container_label = container_label
        self._amounts: dict[_SampleKey, dict[str, str | None]] = {}
        self._unreadable = 0
        self._without_time = 0

    def add_values(self, namespace: str, resource: str, raws: Sequence[msgspec.Raw], requested_pod: str) -> None:
        for raw in raws:
            value = _decode_value(raw)
            pod = requested_pod or (value.metric_labels.get(POD_LABEL) if value else None)
            container = value.metric_labels.get(self._container_label) if value else None
            if value is None or not pod or not container:
                self._unreadable += 1
                continue
            try:
                time = parse_time(value.timestamp).timestamp()
            except InvalidTime:
                self._without_time += 1
                continue
            self._amounts.setdefault(_SampleKey(namespace, pod, container, time), {})[resource] = value.value

    def build_batch(self, problems: tuple[ExternalProblem, ...]) -> ExternalBatch:
        # Oldest first: of two samples of a container the model takes them in this order only.
        keys = sorted(self._amounts, key=lambda key: key.time)
        cpu, unreadable_cpu = parse_cores([self._amounts[key].get("cpu") for key in keys])
        memory, unreadable_memory = parse_bytes([self._amounts[key].get("memory") for key in keys])
        unread = {
            UNREADABLE_ENTRY: self._unreadable,
            WITHOUT_TIME: self._without_time,
            UNREADABLE_AMOUNT: unreadable_cpu + unreadable_memory,
        }
        samples = Samples(
            [key.namespace for key in keys],
            [key.pod for key in keys],
            [key.container for key in keys],
            np.array([key.time for key in keys], dtype=np.float64),
            cpu,
            memory,
        )
        return ExternalBatch(samples, problems, count_by_code(unread))


def _combine_pods(parts: Mapping[str, list[msgspec.Raw] | str]) -> _MetricValues:
    """The values of pods that were queried one by one, and the first problem; a failed pod affects no other."""
    values = {pod: part for pod, part in parts.items() if isinstance(part, list)}
    problems = {pod: part for pod, part in parts.items() if isinstance(part, str)}
    if not problems:
        return _MetricValues(values)
    pod, problem = next(iter(problems.items()))
    return _MetricValues(values, f"{len(problems)} of {len(parts)} pods have no usage; {pod}: {problem}")


def _build_request(namespace: str, metric: str, selector: str) -> Request:
    path = f"/apis/{GROUP}/namespaces/{quote(namespace, safe='')}/{quote(metric, safe='')}"
    return Request("GET", path, (("labelSelector", selector),) if selector else (), {"Accept": JSON})


def _has_pod_name(raw: msgspec.Raw) -> bool:
    value = _decode_value(raw)
    return value is not None and bool(value.metric_labels.get(POD_LABEL))


def _decode_value(raw: msgspec.Raw) -> _ExternalMetricValue | None:
    try:
        document: Any = msgspec.json.decode(raw)
        return convert_leniently(document, _ExternalMetricValue)
    except _UNREADABLE:
        return None
