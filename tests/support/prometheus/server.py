"""A Prometheus that knows the series a test gives it and understands the queries Trellis makes, and no others.

It is a handler for `local_server.serving`. It notes every request, and can be told to have limits.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from aiohttp import web

Container = tuple[str, str, str]

_LOOKBACK = 300.0
_QUERY = re.compile(
    r"max by \((?P<by>[a-z_, ]+)\) \((?:(?P<function>rate|timestamp|max_over_time)\()?(?P<metric>[a-z_]+)"
    r"\{(?P<selector>.*)\}(?:\[(?P<window>[0-9a-z]+)\])?\)*"
)
_MATCHER = re.compile(r'([a-z_]+)(=~|!=|=)"([^"]*)"')


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    parameters: Mapping[str, str]


class ModelPrometheus:
    """`cpu` and `memory` are what it would compute for a container at a time; None for what it does not know."""

    def __init__(self, most_samples: float = math.inf) -> None:
        self.most_samples = most_samples
        self.asked: list[ReceivedRequest] = []
        self.usage: dict[str, dict[Container, dict[float, float]]] = {"cpu": {}, "memory": {}}
        self.raw: dict[str, object] = {}

    def put(self, resource: str, container: Container, samples: Mapping[float, float]) -> None:
        """Know more about a container."""
        self.usage[resource].setdefault(container, {}).update(samples)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        form: Mapping[str, Any] = await request.post() if request.method == "POST" else request.query
        parameters = self.note(request, form)
        query = parameters["query"]
        if query in self.raw:
            return _success(self.raw[query])
        if request.path == "/api/v1/query":
            times = np.array([float(parameters["time"])])
        else:
            start, end, step = (float(parameters[name]) for name in ("start", "end", "step"))
            times = start + step * np.arange(round((end - start) / step) + 1)
        series = self._series(query, times)
        if sum(len(values) for _, values in series) > self.most_samples:
            return error(
                422, "execution", "query processing would load too many samples into memory in query execution"
            )
        if request.path == "/api/v1/query":
            result = [{"metric": labels, "value": value} for labels, [value] in series]
            return _success({"resultType": "vector", "result": result})
        result = [{"metric": labels, "values": values} for labels, values in series]
        return _success({"resultType": "matrix", "result": result})

    def note(self, request: web.BaseRequest, form: Mapping[str, Any]) -> dict[str, str]:
        """Remember a request; its parameters."""
        parameters = {name: str(value) for name, value in form.items()}
        self.asked.append(ReceivedRequest(request.method, request.path, dict(request.headers), parameters))
        return parameters

    def _series(self, query: str, times: Any) -> list[tuple[dict[str, str], list[list[object]]]]:
        form = _QUERY.fullmatch(query)
        assert form, f"not a query of ours: {query}"
        names = form["by"].split(", ")
        matchers = _MATCHER.findall(form["selector"])
        series = []
        for container, samples in self.usage["cpu" if form["function"] == "rate" else "memory"].items():
            labels = dict(zip(names, container, strict=True))
            if not all(_matches({"job": "kubernetes-cadvisor", **labels}, *matcher) for matcher in matchers):
                continue
            values: list[list[object]] = []
            known = sorted(samples)
            for time in times.tolist():
                place = bisect_right(known, time)
                newest = known[place - 1] if place else -math.inf
                if newest > time - _LOOKBACK:
                    value = newest if form["function"] == "timestamp" else samples[newest]
                    values.append([time, f"{value:.17g}"])
            if values:
                series.append((labels, values))
        return series


def error(status: int, kind: str, message: str) -> web.Response:
    """An error as Prometheus writes it."""
    return web.json_response({"status": "error", "errorType": kind, "error": message}, status=status)


def _success(data: object) -> web.Response:
    return web.json_response({"status": "success", "data": data})


def _matches(labels: Mapping[str, str], name: str, operator: str, value: str) -> bool:
    held = labels.get(name, "")
    if operator == "=~":
        return re.fullmatch(value.replace("\\\\", "\\"), held) is not None
    return (held == value) == (operator == "=")
