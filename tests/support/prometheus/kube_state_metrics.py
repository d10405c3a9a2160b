"""A Prometheus that also knows what kube-state-metrics told it: pods, who made them, what they request, HPAs.

It understands what a survey asks. Every test adds workloads to it and looks at what the survey makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from aiohttp import web

from support.prometheus.server import ModelPrometheus

NOW = 1_785_585_600.0
STEP = 300.0
HOUR = 3600.0
DAY = 86_400.0
MIB = 2.0**20
HASH = "7d4b9c6f5d"

_GROUP = re.compile(
    r"group by \((?P<by>[a-z_, ]+)\) \((?P<past>last_over_time\()?(?P<metric>[a-z_]+)"
    r"(?:\{(?P<selector>.*)\})?(?(past)\[[0-9a-z]+\]\))\)"
)
_PLAIN = re.compile(r"(?:last_over_time\()?(?P<metric>[a-z_]*)\{(?P<selector>.*?)\}(?:\[[0-9a-z]+\]\))?(?: == 1)?")
_MATCHER = re.compile(r'([a-z_]+)(=~|!=|=)"([^"]*)"')


class SurveyedPrometheus(ModelPrometheus):
    """`state` is what there is now, `past` the labels of series that there were; both with `__name__`."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.state: list[tuple[dict[str, str], float]] = []
        self.past: list[dict[str, str]] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        form: Mapping[str, Any] = await request.post() if request.method == "POST" else request.query
        query = str(form.get("query", form.get("match[]", "")))
        if request.path == "/api/v1/series":
            self.note(request, form)
            every = (labels for labels, _ in self.state)
            result = [labels for labels in (*self.past, *every) if self._matches_query(query, labels)]
            return web.json_response({"status": "success", "data": result})
        if form_ := _GROUP.fullmatch(query):
            self.note(request, form)
            names = form_["by"].split(", ")
            groups = {
                tuple((name, labels[name]) for name in names if name in labels)
                for labels in (*(labels for labels, _ in self.state), *self._usage(is_past=bool(form_["past"])))
                if labels["__name__"] == form_["metric"] and _all_match(form_["selector"] or "", labels)
            }
            return self._vector([(dict(group), 1.0) for group in sorted(groups)])
        if not query.startswith("max by") and _PLAIN.fullmatch(query):
            self.note(request, form)
            return self._vector([(labels, value) for labels, value in self.state if self._matches_query(query, labels)])
        return await super().__call__(request)

    def _usage(self, *, is_past: bool) -> Iterable[dict[str, str]]:
        """Of those that have samples now, or ever had."""
        for (namespace, pod, container), samples in self.usage["memory"].items():
            if not is_past and max(samples) < NOW - STEP:
                continue
            name = "container_memory_working_set_bytes"
            yield {"__name__": name, "namespace": namespace, "pod": pod, "container": container}

    def _matches_query(self, query: str, labels: Mapping[str, str]) -> bool:
        form = _PLAIN.fullmatch(query)
        assert form, f"not a query of ours: {query}"
        is_named = not form["metric"] or labels["__name__"] == form["metric"]
        return is_named and _all_match(form["selector"], labels)

    def _vector(self, samples: list[tuple[Mapping[str, str], float]]) -> web.Response:
        result = [{"metric": labels, "value": [NOW, f"{value:.17g}"]} for labels, value in samples]
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data})

    def add_series(self, metric: str, value: float, labels: Mapping[str, str]) -> None:
        """A series of kube-state-metrics."""
        self.state.append(({"__name__": metric, **labels}, value))

    def add_usage(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        cpu: float = 0.2,
        memory: float = 100 * MIB,
        days: float = 1.0,
    ) -> None:
        """A container has used as much all the time."""
        times = (NOW - STEP * np.arange(round(days * DAY / STEP) + 1)).tolist()
        self.put("cpu", (namespace, pod, container), dict.fromkeys(times, cpu))
        self.put("memory", (namespace, pod, container), dict.fromkeys(times, memory))

    def add_requests(self, namespace: str, pod: str, container: str, cores: float, memory: float) -> None:
        """A container has requests, and a limit of memory that is as high."""
        place = {"namespace": namespace, "pod": pod, "container": container}
        self.add_series("kube_pod_container_info", 1, place)
        cpu, bytes_ = {"resource": "cpu", "unit": "core"}, {"resource": "memory", "unit": "byte"}
        self.add_series("kube_pod_container_resource_requests", cores, place | cpu)
        self.add_series("kube_pod_container_resource_requests", memory, place | bytes_)
        self.add_series("kube_pod_container_resource_limits", memory, place | bytes_)

    def add_owner(self, namespace: str, pod: str, kind: str, name: str) -> None:
        """A pod has an owner, and runs."""
        place = {"namespace": namespace, "pod": pod}
        is_controlled = "<none>" if kind == "<none>" else "true"
        owner = {"owner_kind": kind, "owner_name": name, "owner_is_controller": is_controlled}
        self.add_series("kube_pod_owner", 1, place | owner)
        self.add_series("kube_pod_status_phase", 1, place | {"phase": "Running"})

    def deploy(self, namespace: str, name: str, pods: int = 1, **usage: float) -> list[str]:
        """A Deployment with one container `app` per pod, all of which use as much; the names of its pods."""
        self.add_series("kube_deployment_spec_replicas", pods, {"namespace": namespace, "deployment": name})
        made = {"namespace": namespace, "replicaset": f"{name}-{HASH}"}
        self.add_series("kube_replicaset_owner", 1, made | {"owner_kind": "Deployment", "owner_name": name})
        names = [f"{name}-{HASH}-x2k9{letter}" for letter in "bcdfghjklm"[:pods]]
        for pod in names:
            self.add_owner(namespace, pod, "ReplicaSet", f"{name}-{HASH}")
            self.add_requests(namespace, pod, "app", 1.0, 1024 * MIB)
            self.add_usage(namespace, pod, "app", **usage)
        return names


def _all_match(selector: str, labels: Mapping[str, str]) -> bool:
    return all(_matches(labels, *matcher) for matcher in _MATCHER.findall(selector))


def _matches(labels: Mapping[str, str], name: str, operator: str, value: str) -> bool:
    held = labels.get(name, "")
    if operator == "=~":
        return re.fullmatch(value.replace("\\\\", "\\"), held) is not None
    return (held == value) == (operator == "=")
