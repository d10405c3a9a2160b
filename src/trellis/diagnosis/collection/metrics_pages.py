"""Reads the metrics of components through the API server's proxy of pods."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from trellis.diagnosis.collection.reader import PROXY_SECONDS, FactReader
from trellis.diagnosis.installation import MetricsPage, PassMetrics
from trellis.diagnosis.unread import Unread
from trellis.kube.transport.requests import Request

# `name{label="value"} 1.5`; names of upstream's and ours. Values of labels here contain no escaped quotes but in Go's.
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_FORBIDDEN: Final = "Forbidden"


async def read_page(reader: FactReader, namespace: str, pod: str, port: int) -> MetricsPage | Unread:
    """The metrics of one pod."""
    request = Request(
        "GET",
        f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics",
        headers={"Accept": "text/plain"},
        timeout=PROXY_SECONDS,
    )
    what = f"metrics of pods in {namespace}"
    response = await reader.send(request, what, resource="pods/proxy", namespace=namespace)
    return response if isinstance(response, Unread) else parse_page(response.body.decode("utf-8", "replace"))


def parse_samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name, labels and value of each sample."""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        yield sample["name"], dict(_LABEL.findall(sample["labels"] or "")), value


def parse_page(text: str) -> MetricsPage:
    """The metrics in Prometheus's text format, as far as a diagnosis uses them."""
    values: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, value in parse_samples(text):
        values.setdefault(name, []).append((labels, value))

    def by_label(name: str, label: str) -> dict[str, float]:
        return {labels[label]: value for labels, value in values.get(name, ()) if label in labels}

    def largest(name: str, component: str) -> float:
        found = [value for labels, value in values.get(name, ()) if labels.get("component") == component]
        return max(found, default=math.nan)

    leads: dict[str, bool] = {}
    for labels, value in values.get("trellis_component_leader", ()):
        component = labels.get("component", "")
        leads[component] = leads.get(component, False) or value > 0
    prefix = "trellis_component_"
    passing = (
        by_label(f"{prefix}pass_interval_seconds", "component").keys()
        | by_label(f"{prefix}last_pass_timestamp_seconds", "component").keys()
    )
    forbidden = {
        labels.get("resource", ""): value
        for labels, value in values.get("trellis_writes_total", ())
        if labels.get("result") == _FORBIDDEN and value > 0
    }
    return MetricsPage(
        version=next((labels.get("version", "") for labels, _ in values.get("trellis_build_info", ())), ""),
        leads=leads,
        passes={
            component: PassMetrics(
                largest(f"{prefix}pass_interval_seconds", component),
                largest(f"{prefix}last_pass_timestamp_seconds", component),
                largest(f"{prefix}last_pass_duration_seconds", component),
                _to_count(largest(f"{prefix}failed_passes", component)),
            )
            for component in sorted(passing)
        },
        not_ready={
            labels.get("component", ""): labels.get("reason", "")
            for labels, value in values.get(f"{prefix}not_ready", ())
            if value > 0
        },
        forbidden_writes=forbidden,
        unseen=tuple(
            sorted(
                resource for resource, value in by_label("trellis_unseen_resources", "resource").items() if value > 0
            )
        ),
        certificate_ends={
            name: value
            for name, value in by_label("trellis_admission_certificate_expiry_timestamp_seconds", "certificate").items()
            if value > 0
        },
        group_backoffs={
            group: value
            for group, value in by_label("trellis_nodes_group_backoff_seconds", "group").items()
            if value > 0
        },
    )


def _to_count(value: float) -> int:
    return 0 if math.isnan(value) else round(value)
