"""What do containers use now, according to external.metrics.k8s.io?

Upstream's `--use-external-metrics`, with two differences. One request brings a metric for all pods that a VPA selects,
where upstream makes one for each pod: the label `pod` of a value says which it is of. Only where no value has that
label is each pod asked for, as upstream does. And a VPA whose metrics cannot be had is reported and costs no other one
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np

from trellis.api.kube.lenient import convert_leniently
from trellis.api.kube.slices import NOTHING, Labels, QuantityText
from trellis.base.errors import InvalidTime, KubeError, UnreadableObject
from trellis.base.selectors import Selector
from trellis.base.times import parse_time
from trellis.core.usage.samples import Samples
from trellis.kube.client import Client
from trellis.kube.requests import JSON, Request
from trellis.sources.amounts import bytes_of, cores_of
from trellis.sources.unread import UNREADABLE_AMOUNT, UNREADABLE_ENTRY, WITHOUT_TIME, counted

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
    """What could not be had, for which VPA, and why."""

    namespace: str
    vpa: str
    metric: str
    message: str


class ExternalBatch(msgspec.Struct, frozen=True):
    """All answers in columns. `unread` counts what could not be read, by the code of the reason."""

    samples: Samples
    problems: tuple[ExternalProblem, ...]
    unread: Mapping[str, int]


class _Value(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metric_labels: Labels = NOTHING
    timestamp: str = ""
    value: QuantityText | None = None


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None


class _Key(NamedTuple):
    """One sample: CPU and memory of the same container and time belong together."""

    namespace: str
    pod: str
    container: str
    time: float


_LISTS: Final = msgspec.json.Decoder(_List)


class ExternalMetrics:
    """external.metrics.k8s.io of one cluster. A metric without a name is not asked for."""

    def __init__(self, client: Client, *, cpu_metric: str, memory_metric: str, container_label: str) -> None:
        self._client = client
        self._metrics = {"cpu": cpu_metric, "memory": memory_metric}
        self._container_label = container_label

    async def fetch(self, queries: Sequence[ExternalQuery]) -> ExternalBatch:
        """The newest sample of every container that these VPAs select, and what went wrong."""
        seats = asyncio.Semaphore(_MOST_AT_ONCE)
        gathered = _Gathered(self._container_label)
        asked = [
            (query, resource, metric)
            for query in queries
            if not query.selector.selects_nothing
            for resource, metric in self._metrics.items()
            if metric
        ]
        results = await asyncio.gather(*(self._ask(query, metric, seats) for query, _, metric in asked))
        problems = []
        for (query, resource, metric), result in zip(asked, results, strict=True):
            if isinstance(result, str):
                problems.append(ExternalProblem(query.namespace, query.vpa, metric, result))
            else:
                for pod, values in result.items():
                    gathered.take(query.namespace, resource, values, pod)
        return gathered.batch(tuple(problems))

    async def _ask(
        self, query: ExternalQuery, metric: str, seats: asyncio.Semaphore
    ) -> dict[str, list[msgspec.Raw]] | str:
        """The values of a metric by the pod that was asked for, if one was; or what is wrong."""
        selector = str(query.selector)
        try:
            values = await self._list(query, metric, selector, seats)
            if not query.pods or any(map(_names_a_pod, values)):
                return {"": values}
            chosen = (",".join(filter(None, (selector, f"{POD_LABEL}={pod}"))) for pod in query.pods)
            parts = await asyncio.gather(*(self._list(query, metric, each, seats) for each in chosen))
            return dict(zip(query.pods, parts, strict=True))
        except KubeError as error:
            return str(error)
        except _UNREADABLE as error:
            return str(UnreadableObject("ExternalMetricValueList", f"cannot be read: {error}"))

    async def _list(
        self, query: ExternalQuery, metric: str, selector: str, seats: asyncio.Semaphore
    ) -> list[msgspec.Raw]:
        async with seats:
            return (
                _LISTS.decode((await self._client.send(_request(query.namespace, metric, selector))).body).items or []
            )


class _Gathered:
    def __init__(self, container_label: str) -> None:
        self._container_label = container_label
        self._found: dict[_Key, dict[str, str | None]] = {}
        self._unreadable = 0
        self._without_time = 0

    def take(self, namespace: str, resource: str, raws: Sequence[msgspec.Raw], asked: str) -> None:
        for raw in raws:
            value = _value(raw)
            pod = asked or (value.metric_labels.get(POD_LABEL) if value else None)
            container = value.metric_labels.get(self._container_label) if value else None
            if value is None or not pod or not container:
                self._unreadable += 1
                continue
            try:
                time = parse_time(value.timestamp).timestamp()
            except InvalidTime:
                self._without_time += 1
                continue
            self._found.setdefault(_Key(namespace, pod, container, time), {})[resource] = value.value

    def batch(self, problems: tuple[ExternalProblem, ...]) -> ExternalBatch:
        # Oldest first: of two samples of a container the model takes them in this order only.
        keys = sorted(self._found, key=lambda key: key.time)
        cpu, unreadable_cpu = cores_of([self._found[key].get("cpu") for key in keys])
        memory, unreadable_memory = bytes_of([self._found[key].get("memory") for key in keys])
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
        return ExternalBatch(samples, problems, counted(unread))


def _request(namespace: str, metric: str, selector: str) -> Request:
    path = f"/apis/{GROUP}/namespaces/{quote(namespace, safe='')}/{quote(metric, safe='')}"
    return Request("GET", path, (("labelSelector", selector),) if selector else (), {"Accept": JSON})


def _names_a_pod(raw: msgspec.Raw) -> bool:
    value = _value(raw)
    return value is not None and bool(value.metric_labels.get(POD_LABEL))


def _value(raw: msgspec.Raw) -> _Value | None:
    try:
        document: Any = msgspec.json.decode(raw)
        return convert_leniently(document, _Value)
    except _UNREADABLE:
        return None
