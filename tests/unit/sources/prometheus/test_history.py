"""History is read oldest first, in bounded windows, and completely; also live usage and labels."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as example
from hypothesis import strategies as st

from support.local_server import serving
from support.prometheus.server import Container, ModelPrometheus
from trellis.base.errors import PrometheusLimitExceeded, PrometheusRefused
from trellis.base.quantities import Quantity
from trellis.core.cluster.past_pods import PodLabels
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import HistoryProgress, read_history
from trellis.sources.prometheus.labels import query_pod_labels
from trellis.sources.prometheus.live_usage import read_newest
from trellis.sources.prometheus.settings import PrometheusSettings

NOW = 1_785_585_600.5
HOUR = 3600.0
APP: Container = ("shop", "web-1", "app")
PROXY: Container = ("shop", "web-1", "proxy")
DB: Container = ("data", "db-0", "postgres")

Read = tuple[list[Samples], list[HistoryProgress]]


def hours_ago(*numbers: int) -> dict[float, float]:
    return {NOW - HOUR * number: float(number) for number in numbers}


def read(server: ModelPrometheus, namespaces: Any = None, **settings: Any) -> Read:
    async def main() -> Read:
        async with serving(server) as url:
            made = PrometheusSettings(prometheus_address=url, **settings)
            reports: list[HistoryProgress] = []
            async with PrometheusClient(made, environment={}) as client:
                batches = [batch async for batch in read_history(client, made, namespaces, NOW, reports.append)]
        return batches, reports

    return asyncio.run(main())


def collect_samples(batches: list[Samples]) -> dict[Container, list[tuple[float, float, float]]]:
    """Every sample of every container in the order in which they came."""
    rows: dict[Container, list[tuple[float, float, float]]] = {}
    for batch in batches:
        names = zip(batch.namespaces, batch.pods, batch.containers, strict=True)
        numbers = zip(batch.times.tolist(), batch.cpu.tolist(), batch.memory.tolist(), strict=True)
        for name, number in zip(names, numbers, strict=True):
            rows.setdefault(name, []).append(number)
    return rows


def test_eight_days_are_read_a_day_at_a_time_oldest_first() -> None:
    server = ModelPrometheus()
    server.put("cpu", APP, hours_ago(*range(200)))
    server.put("memory", APP, hours_ago(*range(200)))
    batches, reports = read(server)
    rows = collect_samples(batches)[APP]
    assert [time for time, _, _ in rows] == [NOW - HOUR * n for n in range(192, -1, -1)]
    assert [cpu for _, cpu, _ in rows] == [memory for _, _, memory in rows] == list(range(192, -1, -1))
    assert [len(batch) for batch in batches] == [24] * 8 + [1]
    assert [(report.done, report.total) for report in reports] == [(min(24 * n, 193), 193) for n in range(1, 10)]
    assert reports[-1].samples == 193
    assert len(server.asked) == 18, "one query for CPU and one for memory of each day"


def test_samples_of_one_resource_alone_are_read() -> None:
    server = ModelPrometheus()
    server.put("cpu", APP, hours_ago(3, 2))
    server.put("memory", APP, hours_ago(2, 1))
    server.put("memory", DB, hours_ago(5))
    rows = collect_samples(read(server)[0])
    times = {container: [round((NOW - time) / HOUR) for time, _, _ in row] for container, row in rows.items()}
    assert times == {APP: [3, 2, 1], DB: [5]}
    assert [math.isnan(cpu) for _, cpu, _ in rows[APP]] == [False, False, True]
    assert [math.isnan(memory) for _, _, memory in rows[APP]] == [True, False, False]


def test_the_given_namespaces_are_queried_in_groups() -> None:
    server = ModelPrometheus()
    for number in range(7):
        server.put("memory", (f"ns-{number}", "web", "app"), hours_ago(1))
    names = [f"ns-{number}" for number in range(5)]
    batches, reports = read(server, names, prometheus_namespaces_per_query=2, history_length="1d")
    assert {container[0] for container in collect_samples(batches)} == set(names)
    queries = [item.parameters["query"] for item in server.asked if "rate" not in item.parameters["query"]]
    assert len(queries) == 6
    assert 'namespace=~"ns-0|ns-1"' in queries[0]
    assert 'namespace="ns-4"' in queries[-1]
    assert (reports[-1].done, reports[-1].total) == (125, 125)


def test_without_namespaces_no_query_is_sent() -> None:
    server = ModelPrometheus()
    assert read(server, []) == ([], [])
    assert server.asked == []


containers = st.sampled_from([APP, PROXY, DB, ("data", "db-1", "postgres"), ("ops", "log", "agent")])


@given(
    cpu=st.dictionaries(containers, st.sets(st.integers(0, 20)), max_size=5),
    memory=st.dictionaries(containers, st.sets(st.integers(0, 20)), max_size=5),
    most_samples=st.integers(1, 30),
    chunk=st.integers(1, 30),
    per_query=st.integers(1, 3),
)
@example(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_history_is_read_once_and_in_order_whatever_the_limit_of_prometheus(
    cpu: dict[Container, set[int]], memory: dict[Container, set[int]], most_samples: int, chunk: int, per_query: int
) -> None:
    server = ModelPrometheus(max(most_samples, 2))  # Two containers share a namespace.
    for resource, usage in (("cpu", cpu), ("memory", memory)):
        for container, hours in usage.items():
            server.put(resource, container, hours_ago(*hours))
    batches, reports = read(
        server,
        ["shop", "data", "ops", "empty"],
        history_length="20h",
        history_chunk=f"{chunk}h",
        prometheus_namespaces_per_query=per_query,
    )
    rows = collect_samples(batches)
    expected = {c: cpu.get(c, set()) | memory.get(c, set()) for c in cpu.keys() | memory.keys()}
    assert {container: [round((NOW - time) / HOUR) for time, _, _ in row] for container, row in rows.items()} == {
        container: sorted(hours, reverse=True) for container, hours in expected.items() if hours
    }
    assert reports[-1].done == reports[-1].total == 4 * 21
    done = [report.done for report in reports]
    assert done == sorted(done)


def test_a_container_that_is_too_much_for_any_window_is_an_error() -> None:
    server = ModelPrometheus(most_samples=1)
    server.put("memory", APP, hours_ago(5))
    server.put("memory", PROXY, hours_ago(5))
    with pytest.raises(PrometheusLimitExceeded, match="too many samples"):
        read(server, ["shop"])


def test_a_too_long_response_is_queried_in_halves() -> None:
    server = ModelPrometheus()
    for number in range(60):
        server.put("memory", ("shop", f"web-{number}", "app"), hours_ago(*range(48)))
    limit = Quantity.from_units(1 << 16)
    batches, _ = read(server, ["shop"], prometheus_answer_limit=limit, history_length="47h", history_chunk="4d")
    assert {len(rows) for rows in collect_samples(batches).values()} == {48}
    assert len(batches) > 1


def test_series_without_a_container_are_counted() -> None:
    server = ModelPrometheus()
    server.put("memory", ("", "web-1", "app"), hours_ago(5))
    server.put("memory", APP, hours_ago(5))
    batches, reports = read(server, history_length="1d", history_chunk="2d")
    assert list(collect_samples(batches)) == [APP]
    assert reports[-1].unread == 1


def test_history_that_fails_midway_has_yielded_earlier_samples() -> None:
    server = ModelPrometheus()
    server.put("memory", APP, hours_ago(*range(193)))
    batches: list[Samples] = []

    async def main() -> None:
        async with serving(server) as url:
            made = PrometheusSettings(prometheus_address=url)
            async with PrometheusClient(made, environment={}) as client:
                async for batch in read_history(client, made, ["shop"], NOW):
                    batches.append(batch)
                    server.most_samples = 0 if len(batches) == 2 else server.most_samples

    with pytest.raises(PrometheusLimitExceeded):
        asyncio.run(main())
    [rows] = collect_samples(batches).values()
    assert [round((NOW - time) / HOUR) for time, _, _ in rows] == list(range(192, 144, -1))


def live(server: ModelPrometheus, namespaces: Any, **settings: Any) -> Samples:
    async def main() -> Samples:
        async with serving(server) as url:
            made = PrometheusSettings(prometheus_address=url, **settings)
            async with PrometheusClient(made, environment={}) as client:
                return await read_newest(client, made, namespaces, NOW)

    return asyncio.run(main())


def test_the_newest_sample_has_its_own_time() -> None:
    server = ModelPrometheus()
    server.put("cpu", APP, {NOW - 40: 0.5, NOW - 100: 0.1})
    server.put("memory", APP, {NOW - 40: 7e6, NOW - 100: 1e6})
    server.put("cpu", DB, {NOW - 20: 1.5})
    server.put("memory", PROXY, {NOW - 400: 1e6})  # Prometheus looks back five minutes.
    batch = live(server, ["shop", "data"])
    [(time, cpu, memory)] = collect_samples([batch])[APP]
    assert (time, cpu, memory) == (NOW - 40, 0.5, 7e6)
    [(time, cpu, memory)] = collect_samples([batch])[DB]
    assert (time, cpu, math.isnan(memory)) == (NOW, 1.5, True), "without memory nobody knows when"
    assert PROXY not in collect_samples([batch])
    assert "[5m]" in server.asked[0].parameters["query"]


def test_live_usage_is_queried_in_groups_which_are_halved_if_too_large() -> None:
    server = ModelPrometheus(most_samples=2)
    for number in range(9):
        server.put("memory", (f"ns-{number}", "web", "app"), {NOW - 1: float(number)})
    batch = live(server, [f"ns-{number}" for number in range(9)], prometheus_namespaces_per_query=4)
    assert batch.memory.tolist() == list(map(float, range(9)))
    with pytest.raises(PrometheusLimitExceeded):
        live(server, None)


def test_no_namespaces_have_no_live_usage() -> None:
    assert len(live(ModelPrometheus(), [])) == 0


def labels(server: ModelPrometheus, **settings: Any) -> PodLabels:
    async def main() -> PodLabels:
        async with serving(server) as url:
            made = PrometheusSettings(prometheus_address=url, **settings)
            async with PrometheusClient(made, environment={}) as client:
                return await query_pod_labels(client, made, NOW)

    return asyncio.run(main())


def metric(pod: str, **labels: str) -> dict[str, str]:
    return {"__name__": "up", "kubernetes_namespace": "shop", "kubernetes_pod_name": pod, "job": "x", **labels}


def test_labels_of_pods_come_from_a_vector_without_their_prefix() -> None:
    server = ModelPrometheus()
    result = [
        {"metric": metric("web-1", pod_label_app="web", pod_label_tier="a"), "value": [NOW, "1"]},
        {"metric": {"__name__": "up", "pod_label_app": "lost"}, "value": [NOW, "1"]},
        {"metric": metric("web-2"), "value": [NOW, "1"]},
    ]
    server.raw['up{job="kubernetes-pods"}'] = {"resultType": "vector", "result": result}
    assert labels(server) == {("shop", "web-1"): {"app": "web", "tier": "a"}, ("shop", "web-2"): {}}


def test_labels_are_read_from_a_matrix_and_the_newest_count() -> None:
    server = ModelPrometheus()
    result = [
        {"metric": metric("web-1", pod_label_app="new"), "values": [[NOW - 60, "1"], [NOW, "1"]]},
        {"metric": metric("web-1", pod_label_app="old"), "values": [[NOW - 7200, "1"], [NOW - 3600, "1"]]},
        {"metric": metric("web-1", pod_label_app="none")},
        {"metric": metric("web-0", pod_label_app="gone"), "values": [[NOW - 90000, "1"]]},
    ]
    server.raw["kube_pod_labels[8d]"] = {"resultType": "matrix", "result": result}
    collect_samples = labels(server, metric_for_pod_labels="kube_pod_labels[8d]")
    assert collect_samples == {("shop", "web-1"): {"app": "new"}, ("shop", "web-0"): {"app": "gone"}}


def test_a_range_with_too_many_samples_is_queried_for_the_last_ones() -> None:
    server = ModelPrometheus()
    many = [[NOW - n, "1"] for n in range(10_000, 0, -1)]
    server.raw["kube_pod_labels[8d]"] = {
        "resultType": "matrix",
        "result": [{"metric": metric("web-1"), "values": many}],
    }
    last = {"metric": metric("web-1", pod_label_app="web"), "value": [NOW, "1"]}
    server.raw["last_over_time(kube_pod_labels[8d])"] = {"resultType": "vector", "result": [last]}
    limit = Quantity.from_units(1 << 16)
    collect_samples = labels(server, metric_for_pod_labels="kube_pod_labels[8d]", prometheus_answer_limit=limit)
    assert collect_samples == {("shop", "web-1"): {"app": "web"}}


def test_labels_are_not_queried_without_a_query_and_a_scalar_response_is_refused() -> None:
    server = ModelPrometheus()
    assert labels(server, metric_for_pod_labels="") == {}
    assert server.asked == []
    server.raw["1"] = {"resultType": "scalar", "result": [NOW, "1"]}
    with pytest.raises(PrometheusRefused, match="the response is a scalar"):
        labels(server, metric_for_pod_labels="1")
